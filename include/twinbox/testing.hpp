// For the tests of your program: a clock, randomness and a log that the test controls, a database
// that fails on demand, messages for your handlers, and the enqueued messages. Tests need no
// dispatcher thread: use Dispatcher::drain().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "twinbox/database.hpp"
#include "twinbox/environment.hpp"
#include "twinbox/error.hpp"
#include "twinbox/outbox.hpp"

namespace twinbox {

/// A clock that moves only when the test moves it. Thread-safe.
class ManualClock {
 public:
  explicit ManualClock(Instant start = std::chrono::sys_days{std::chrono::January / 15 / 2030})
      : micros_(start.time_since_epoch().count()) {}

  [[nodiscard]] Instant now() const { return Instant{std::chrono::microseconds{micros_.load()}}; }
  void advance(std::chrono::microseconds by) { micros_ += by.count(); }
  void set(Instant to) { micros_ = to.time_since_epoch().count(); }

 private:
  std::atomic<std::int64_t> micros_;
};

/// The same numbers for the same seed, in every run and on every platform. Thread-safe.
class SeededRandom {
 public:
  explicit SeededRandom(std::uint64_t seed = 1) : state_(seed) {}
  std::uint64_t bits();

 private:
  std::atomic<std::uint64_t> state_;
};

/// A log event, copied.
struct RecordedEvent {
  LogLevel level;
  std::string name;
  std::vector<std::pair<std::string, std::string>> fields;

  /// Empty when there is no such field.
  [[nodiscard]] std::string field(std::string_view field_name) const;
};

/// Records log events. Thread-safe.
class RecordingLog {
 public:
  void write(const LogEvent& event);
  /// In order; with a name, only those of that name.
  [[nodiscard]] std::vector<RecordedEvent> events(std::string_view name = {}) const;
  void clear();

 private:
  mutable std::mutex mutex_;
  std::vector<RecordedEvent> events_;
};

/// All of them together. Must outlive the databases that use it.
struct TestEnvironment {
  ManualClock clock{};
  SeededRandom random{};
  RecordingLog log{};

  /// Logs everything, from debug on.
  [[nodiscard]] Environment environment();
};

/// The faults of a database opened by open_faulty, and when they happen. Each fault happens once.
/// The library repeats its own calls after `connection_lost` and `contention`: set
/// DatabaseOptions::retries to 0 to see them. Thread-safe; must outlive the database.
class FaultPlan {
 public:
  using Kind = DatabaseError::Kind;

  /// Statement number `nth` from now (1: the next one) is not executed and fails. With a name, only
  /// statements of the library with that name count: `claim`, `ack`, `accept`, …
  void fail_statement(Kind kind, int nth = 1, std::string name = {});
  /// Commit number `nth` from now of a transaction with writes fails: it is rolled back.
  void fail_commit(Kind kind, int nth = 1);
  /// The answer to the commit is lost (`commit_in_doubt`), whether it was executed or not.
  void lose_commit_reply(int nth = 1, bool committed = true);
  /// Connection number `nth` from now cannot be opened (`connection_lost`).
  void fail_connect(int nth = 1);

  /// Cancels the faults that have not happened yet.
  void clear();
  [[nodiscard]] std::size_t pending() const;
  [[nodiscard]] std::size_t happened() const;

 private:
  friend class FaultyConnection;
  friend class FaultyDriver;
  enum class FaultPoint { connect, statement, commit };
  struct Fault {
    FaultPoint point;
    Kind kind;
    int left;
    std::string name;
    bool committed;
  };
  void add(Fault fault);
  /// The fault that happens at this call.
  std::optional<Fault> next(FaultPoint point, std::string_view name = {});

  mutable std::mutex mutex_;
  std::vector<Fault> faults_;
  std::size_t happened_ = 0;
};

/// A message as a handler gets it at its first attempt, created and leased at `now`. Without an id:
/// `test`.
Message make_message(const NewMessage& message, Instant now = ManualClock{}.now());

/// The enqueued and committed messages, in the order of the calls, with every stored field: of one
/// topic, or all.
std::vector<NewMessage> enqueued(Outbox& outbox, const std::optional<Topic>& topic = {});

/// A real database, as Database opens it, with the faults of `plan`.
Database open_faulty(std::string_view address, FaultPlan& plan, DatabaseOptions options = {},
                     Environment environment = {});

}  // namespace twinbox
