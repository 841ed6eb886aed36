// A store with messages to drain.
#pragma once

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "candidate.hpp"
#include "load.hpp"

namespace twinbox::bench {

using PeerGroup = std::vector<std::shared_ptr<Candidate>>;

/// One side's store: filled the same way for both, drained by its own crew.
class Backlog {
 public:
  enum class Side { ours, ceiling };

  Backlog(Dialect dialect, Side side, int workers, std::size_t payload_size)
      : place_(dialect, BoxKind::outbox),
        filler_(place_.raw()),
        messages_(some_messages(1'000, payload_size)),
        crew_(side == Side::ours ? PeerGroup(static_cast<std::size_t>(workers), place_.twinbox())
                                 : place_.raw_group(workers)) {}

  void fill(int count) {
    for (int left = count; left > 0; left -= 1'000)
      filler_->enqueue(std::span{messages_}.first(static_cast<std::size_t>(std::min(left, 1'000))));
  }

  /// Claims and acks until nothing is due. Throws unless `count` messages were settled.
  void drain(int count, std::int64_t batch) {
    std::atomic<std::size_t> settled = 0;
    const auto work = [&](Candidate& worker) {
      for (;;) {
        const std::vector<Message> messages = worker.claim(batch);
        if (messages.empty()) break;
        settled += worker.ack(messages);
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < crew_.size(); ++i)
        threads.emplace_back([&, i] { work(*crew_[i]); });
      work(*crew_.front());
    }
    if (settled != static_cast<std::size_t>(count))
      throw std::runtime_error("drained " + std::to_string(settled) + " of " +
                               std::to_string(count) + " messages");
  }

  BenchStore& place() noexcept { return place_; }

 private:
  BenchStore place_;
  std::shared_ptr<RawConnection> filler_;
  std::vector<NewMessage> messages_;
  PeerGroup crew_;
};

}  // namespace twinbox::bench
