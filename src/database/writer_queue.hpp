// Who uses the one connection that may write, and who comes along in the same transaction.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "database/connection.hpp"

namespace twinbox {

/// Calls that want to write come one after the other, in the order of their coming. Whoever leads
/// also does what waits behind him, on his own thread and in his own transaction, so that one
/// commit, and one sync of the disk, serves them all. Thread-safe.
class WriterQueue {
 public:
  using Work = std::function<void(Session&)>;

  /// One call. It may be run more than once, unless it is not shared.
  struct Request {
    Access access;
    bool shared;  ///< may lead others, and come along with them
    const Work* work;

    enum class State { waiting, leader, joined, done_by_leader };
    State state = State::waiting;
    std::exception_ptr error = {};  ///< of a commit that is in doubt for all who were joined
    std::optional<std::condition_variable_any> changed = {};  ///< while it waits
  };

  enum class Turn {
    leader,          ///< it has to be run now, under a Leadership
    done_by_leader,  ///< somebody else has run it; see its error
    timed_out,       ///< neither happened in time
    stopped,         ///< neither happened before a stop was requested
  };
  /// `left` is asked, once, when there is something to wait for.
  Turn wait(Request& call, const std::function<std::chrono::steady_clock::duration()>& left,
            const std::stop_token& stop);

  /// The turn of the one who leads; passes it on at its end.
  class Leadership {
   public:
    Leadership(WriterQueue& queue, const Request& call);
    ~Leadership();
    Leadership(const Leadership&) = delete;
    Leadership& operator=(const Leadership&) = delete;

    /// What the transaction must be good for. As durable as any call that may come along by now.
    [[nodiscard]] Access access() const noexcept { return access_; }
    /// Runs what waits and may come along. Throws what one of them throws: nothing is known then of
    /// any of them.
    void run_followers(Session& session);
    [[nodiscard]] bool has_followers() const noexcept { return !followers_.empty(); }
    /// All that was run is committed, or has failed with `error`.
    void complete(const std::exception_ptr& error = {});
    /// Nothing of it was committed: the others are the next, each alone.
    void retry_alone();

   private:
    WriterQueue& queue_;
    Access access_;
    std::vector<Request*> followers_;
  };

  [[nodiscard]] std::size_t waiting() const;

 private:
  mutable std::mutex mutex_;
  std::list<Request*> calls_;  ///< those who wait
  bool busy_ = false;          ///< somebody leads
};

}  // namespace twinbox
