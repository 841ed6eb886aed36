#include "dispatch/watch_opener.hpp"

#include <exception>
#include <utility>

namespace twinbox {
namespace {

constexpr std::size_t most_threads = 4;

}  // namespace

WatchOpener::~WatchOpener() {
  {
    const std::scoped_lock lock{mutex_};
    closing_ = true;
  }
  work_.notify_all();
}

void WatchOpener::open(std::shared_ptr<void> whose, OpenWatch how, std::stop_token stop) {
  const std::scoped_lock lock{mutex_};
  jobs_.push_back({std::move(whose), std::move(how), std::move(stop)});
  if (idle_ < jobs_.size() && threads_.size() < most_threads) {
    threads_.emplace_back([this] { run(); });
  }
  work_.notify_one();
}

std::vector<WatchOpener::Opened> WatchOpener::take() {
  const std::scoped_lock lock{mutex_};
  return std::exchange(opened_, {});
}

void WatchOpener::run() {
  std::unique_lock lock{mutex_};
  for (;;) {
    ++idle_;
    work_.wait(lock, [&] { return closing_ || !jobs_.empty(); });
    --idle_;
    if (closing_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Opened opened = do_job(job);
    lock.lock();
    opened_.push_back(std::move(opened));
    ready_();
  }
}

WatchOpener::Opened WatchOpener::do_job(Job& job) {
  Opened opened{std::move(job.whose)};
  try {
    opened.watch = job.how(job.stop);
  } catch (const WatchImpossible& reason) {
    opened.impossible = true;
    opened.error = reason.what();
  } catch (const std::exception& error) {
    opened.error = error.what();
  }
  return opened;
}

}  // namespace twinbox
