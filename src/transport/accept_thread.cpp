#include "transport/accept_thread.hpp"

#include "twinbox/stop_scope.hpp"

namespace twinbox {

AcceptThread::AcceptThread(DeliveryDesk desk, std::function<void()> wake)
    : desk_(std::move(desk)),
      wake_(std::move(wake)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void AcceptThread::add(Delivery delivery) {
  const std::scoped_lock lock{mutex_};
  came_.push_back(std::move(delivery));
  some_.notify_one();
}

std::vector<Settled> AcceptThread::take() {
  const std::scoped_lock lock{mutex_};
  return std::exchange(settled_, {});
}

void AcceptThread::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

std::pair<std::uint64_t, std::string> AcceptThread::take_failures() {
  const std::scoped_lock lock{mutex_};
  return {std::exchange(retried_, 0), error_};
}

void AcceptThread::run(const std::stop_token& stop) {
  const StopScope until_stop{stop};
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    for (Delivery& one : std::exchange(came_, {})) desk_.add(std::move(one));
    lock.unlock();
    const std::uint64_t before = desk_.retried();
    std::vector<Settled> settled = desk_.step(DeliveryDesk::Time::clock::now());
    lock.lock();
    retried_ += desk_.retried() - before;
    const bool news = !settled.empty() || error_ != desk_.last_error();
    error_ = desk_.last_error();
    settled_.insert(settled_.end(), std::make_move_iterator(settled.begin()),
                    std::make_move_iterator(settled.end()));
    if (news) wake_();
    const auto some = [&] { return !came_.empty(); };
    if (const auto next = desk_.next()) {
      some_.wait_until(lock, stop, *next, some);
    } else {
      some_.wait(lock, stop, some);
    }
  }
}

}  // namespace twinbox
