// Schedules the one connection that may write, and joins waiting calls into one transaction.
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

/// Calls that write run in the order of their arrival. The leading thread also runs the calls that
/// wait behind it, in its own transaction, so that one commit, and one sync of the disk, serves
/// them all. Thread-safe.
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
    std::exception_ptr error = {};  ///< of a commit that is in doubt for all joined calls
    std::optional<std::condition_variable_any> changed = {};  ///< while it waits
  };

  enum class Turn {
    leader,          ///< it has to be run now, under a Leadership
    done_by_leader,  ///< another thread has run it; see its error
    timed_out,       ///< neither happened in time
    stopped,         ///< neither happened before a stop was requested
  };
  /// `left` is called once, when the call has to wait.
  Turn wait(Request& call, const std::function<std::chrono::steady_clock::duration()>& left,
            const std::stop_token& stop);

  /// The turn of the leader; passes it on at its end.
  class Leadership {
   public:
    Leadership(WriterQueue& queue, const Request& call);
    ~Leadership();
    Leadership(const Leadership&) = delete;
    Leadership& operator=(const Leadership&) = delete;

    /// The access that the transaction needs: as durable as any call that may join.
    [[nodiscard]] Access access() const noexcept { return access_; }
    /// Runs the waiting calls that may join. Throws the exception of one of them: then the result
    /// of all of them is unknown.
    void run_followers(Session& session);
    [[nodiscard]] bool has_followers() const noexcept { return !followers_.empty(); }
    /// All joined calls are committed, or have failed with `error`.
    void complete(const std::exception_ptr& error = {});
    /// Nothing was committed: the other calls are next, each alone.
    void retry_alone();

   private:
    WriterQueue& queue_;
    Access access_;
    std::vector<Request*> followers_;
  };

  [[nodiscard]] std::size_t waiting() const;

 private:
  mutable std::mutex mutex_;
  std::list<Request*> calls_;  ///< the waiting ones
  bool busy_ = false;          ///< a call leads
};

}  // namespace twinbox
