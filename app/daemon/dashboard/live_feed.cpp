#include "daemon/dashboard/live_feed.hpp"

#include <vector>

namespace twinbox::app {

class LiveFeed::Listener final : public EventStream {
 public:
  Listener(LiveFeed& feed, std::uint64_t id, std::string token, std::function<bool()> may_receive)
      : feed_(feed), id_(id), token_(std::move(token)), may_receive_(std::move(may_receive)) {}
  ~Listener() override {
    const std::lock_guard lock{feed_.mutex_};
    feed_.wake_calls_.erase(id_);
    --feed_.listeners_by_token_[token_];
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  std::optional<std::string> next() override {
    std::shared_ptr<const std::string> text;
    {
      const std::lock_guard lock{feed_.mutex_};
      if (seen_ != feed_.number_) text = feed_.latest_;
      seen_ = feed_.number_;
    }
    if (!text) return "";
    if (!may_receive_()) return {};
    return *text;
  }

 private:
  LiveFeed& feed_;
  const std::uint64_t id_;
  const std::string token_;
  const std::function<bool()> may_receive_;
  std::uint64_t seen_ = 0;
};

void LiveFeed::publish(std::string_view event, std::string_view data) {
  auto text = std::make_shared<std::string>("event: ");
  text->append(event).append("\ndata: ").append(data).append("\n\n");
  std::vector<std::function<void()>> wakes;
  {
    const std::lock_guard lock{mutex_};
    latest_ = std::move(text);
    ++number_;
    for (const auto& [id, wake] : wake_calls_) wakes.push_back(wake);
  }
  for (const auto& wake : wakes) wake();  // may end a listener, which takes the lock
}

std::unique_ptr<EventStream> LiveFeed::listen(std::string token, std::function<void()> wake,
                                              std::function<bool()> may_receive) {
  const std::lock_guard lock{mutex_};
  std::size_t& listeners_of_token = listeners_by_token_[token];
  if (wake_calls_.size() >= max_listeners || listeners_of_token >= max_per_token) return nullptr;
  ++listeners_of_token;
  const std::uint64_t id = ++next_id_;
  wake_calls_.emplace(id, std::move(wake));
  return std::make_unique<Listener>(*this, id, std::move(token), std::move(may_receive));
}

std::size_t LiveFeed::listeners() const {
  const std::lock_guard lock{mutex_};
  return wake_calls_.size();
}

}  // namespace twinbox::app
