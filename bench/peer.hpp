// Another process of the benchmark, which is told what to do line by line.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "candidate.hpp"

namespace twinbox::bench {

class Peer {
 public:
  enum class Role {
    dispatcher,  ///< handles what comes; also enqueues
    loop,        ///< enqueues, claims and acks by hand, in turn
    two_loops,   ///< the same, enqueueing on one thread and claiming on another
    sender,      ///< only enqueues
  };

  /// Returns when it is ready. Throws std::runtime_error.
  Peer(Role role, const StoreAddress& site);
  /// Ends it, and waits for that.
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void tell(const std::string& line);
  /// The next line it says. Throws std::runtime_error when it has ended or is silent for a minute.
  std::string hear();
  /// Readable when it has said something.
  [[nodiscard]] int descriptor() const noexcept { return from_; }
  /// Every number it has said so far, without waiting for more than the first.
  std::vector<long> hear_numbers();

 private:
  void read_more();

  pid_t process_ = 0;
  int to_ = -1;
  int from_ = -1;
  std::string heard_;
};

/// Several of them that work on one store.
class PeerGroup {
 public:
  PeerGroup(Peer::Role role, int processes, const StoreAddress& site);

  /// They share the enqueueing of `count` messages. Messages per second until all are settled.
  double cycle(int count);
  /// What they have used of the processors so far.
  std::chrono::microseconds processor_time();
  /// One of them enqueues `rate` messages a second for `seconds`. How many were settled by then;
  /// returns when the rest is settled, too.
  long offered(double rate, int seconds);

 private:
  /// Sums what they have settled until it is `count` or `end` has come.
  long settled(long count, std::chrono::steady_clock::time_point end);

  std::vector<std::unique_ptr<Peer>> peers_;
};

/// True when this process is a peer.
bool is_peer(int count, char** words);
/// What it does until its standard input ends.
int run_peer(char** words);

/// What this process has used of the processors so far.
std::chrono::microseconds processor_time();

/// Messages of one enqueue, one claim and one ack of every cycle.
constexpr int cycle_batch = 100;

}  // namespace twinbox::bench
