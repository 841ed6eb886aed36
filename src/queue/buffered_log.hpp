// What is logged while a transaction is tried, kept until it is certain: told once, or never.
#pragma once

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "twinbox/environment.hpp"

namespace twinbox {

class BufferedLog {
 public:
  /// To the log: at once, or, during a try, to what keeps it. The names must be literals.
  static void write(const Environment& environment, LogLevel level, std::string_view name,
                    std::vector<LogField> fields);

  /// Calls `work` and keeps what it writes on this thread, without what an earlier try has written.
  template <class Work, class... Args>
  decltype(auto) during(Work& work, Args&... args) {
    events_.clear();
    const Try trying{*this};
    return work(args...);
  }

  /// It is committed.
  void flush() noexcept;
  /// It stands, in a transaction that somebody else commits: told with what that one is a part of.
  void flush_to_outer() noexcept;

 private:
  /// From here to its end, this thread's.
  class Try {
   public:
    explicit Try(BufferedLog& buffered_log) : outer_(std::exchange(current_, &buffered_log)) {}
    ~Try() { current_ = outer_; }
    Try(const Try&) = delete;
    Try& operator=(const Try&) = delete;

   private:
    BufferedLog* outer_;
  };
  struct Event {
    const Environment* environment;
    LogLevel level;
    std::string_view name;
    std::vector<LogField> fields;
    std::list<std::string> texts;  ///< what the fields borrow
  };

  static thread_local BufferedLog* current_;
  std::list<Event> events_;
};

}  // namespace twinbox
