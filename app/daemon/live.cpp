#include "daemon/live.hpp"

#include <vector>

namespace twinbox::app {

class LiveFeed::Listener final : public EventStream {
 public:
  Listener(LiveFeed& feed, std::uint64_t id, std::string token, std::function<bool()> welcome)
      : feed_(feed), id_(id), token_(std::move(token)), welcome_(std::move(welcome)) {}
  ~Listener() override {
    const std::lock_guard lock{feed_.mutex_};
    feed_.wakes_.erase(id_);
    --feed_.listeners_of_[token_];
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
    if (!welcome_()) return {};
    return *text;
  }

 private:
  LiveFeed& feed_;
  const std::uint64_t id_;
  const std::string token_;
  const std::function<bool()> welcome_;
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
    for (const auto& [id, wake] : wakes_) wakes.push_back(wake);
  }
  for (const auto& wake : wakes) wake();  // may end a listener, which takes the lock
}

std::unique_ptr<EventStream> LiveFeed::listen(std::string token, std::function<void()> wake,
                                              std::function<bool()> welcome) {
  const std::lock_guard lock{mutex_};
  std::size_t& listeners_of_token = listeners_of_[token];
  if (wakes_.size() >= most_listeners || listeners_of_token >= most_of_one) return nullptr;
  ++listeners_of_token;
  const std::uint64_t id = ++next_id_;
  wakes_.emplace(id, std::move(wake));
  return std::make_unique<Listener>(*this, id, std::move(token), std::move(welcome));
}

std::size_t LiveFeed::listeners() const {
  const std::lock_guard lock{mutex_};
  return wakes_.size();
}

}  // namespace twinbox::app
