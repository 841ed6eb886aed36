#include "transport/accept_thread.hpp"

#include "twinbox/database.hpp"

namespace twinbox {

AcceptThread::AcceptThread(AcceptBuffer buffer, std::function<void()> wake)
    : buffer_(std::move(buffer)),
      wake_(std::move(wake)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

void AcceptThread::add(BrokerDelivery delivery) {
  const std::scoped_lock lock{mutex_};
  incoming_.push_back(std::move(delivery));
  changed_.notify_one();
}

std::vector<AcceptResult> AcceptThread::take() {
  const std::scoped_lock lock{mutex_};
  return std::exchange(results_, {});
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
    for (BrokerDelivery& one : std::exchange(incoming_, {})) buffer_.add(std::move(one));
    lock.unlock();
    const std::uint64_t before = buffer_.retried();
    std::vector<AcceptResult> settled = buffer_.step(AcceptBuffer::Time::clock::now());
    lock.lock();
    retried_ += buffer_.retried() - before;
    const bool should_wake = !settled.empty() || error_ != buffer_.last_error();
    error_ = buffer_.last_error();
    results_.insert(results_.end(), std::make_move_iterator(settled.begin()),
                    std::make_move_iterator(settled.end()));
    if (should_wake) wake_();
    const auto some = [&] { return !incoming_.empty(); };
    if (const auto next = buffer_.next()) {
      changed_.wait_until(lock, stop, *next, some);
    } else {
      changed_.wait(lock, stop, some);
    }
  }
}

}  // namespace twinbox
