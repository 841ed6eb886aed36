// Log events of a transaction, kept until its result is known: written once, or never.
#pragma once

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "twinbox/environment.hpp"

namespace twinbox {

class BufferedLog {
 public:
  /// Writes to the log immediately or, during an attempt, to the buffer. The names must be
  /// literals.
  static void write(const Environment& environment, LogLevel level, std::string_view name,
                    std::vector<LogField> fields);

  /// Calls `work` and buffers its events on this thread, without those of an earlier attempt.
  template <class Work, class... Args>
  decltype(auto) during(Work& work, Args&... args) {
    events_.clear();
    const Try trying{*this};
    return work(args...);
  }

  /// It is committed.
  void flush() noexcept;
  /// Kept in a transaction that its owner commits: written with the events of that transaction.
  void flush_to_outer() noexcept;

 private:
  /// This thread's buffer from here to its end.
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
    std::list<std::string> texts;  ///< the storage of the fields
  };

  static thread_local BufferedLog* current_;
  std::list<Event> events_;
};

}  // namespace twinbox
