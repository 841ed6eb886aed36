// For the tests of your program: a clock, chance and a log that the test owns, a database that
// fails on demand, messages for your handlers, and what was enqueued. A dispatcher needs no thread
// there: Dispatcher::drain().
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

/// A clock that moves only when it is told to. Thread-safe.
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

/// Keeps what was logged. Thread-safe.
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

/// All of them together. Must outlive the databases that it was given to.
struct TestEnvironment {
  ManualClock clock{};
  SeededRandom random{};
  RecordingLog log{};

  /// Logs everything, from debug on.
  [[nodiscard]] Environment environment();
};

/// What goes wrong in a database opened by open_faulty, and when. Each fault happens once. The
/// library repeats its own calls after `connection_lost` and `contention`: set
/// DatabaseOptions::retries to 0 to see them. Thread-safe; must outlive the database.
class FaultPlan {
 public:
  using Kind = DatabaseError::Kind;

  /// Statement number `nth` from now (1: the next one) is not executed and fails. With a name, only
  /// statements of the library with that name count: `claim`, `ack`, `accept`, …
  void fail_statement(Kind kind, int nth = 1, std::string name = {});
  /// Commit number `nth` from now of something that was written fails: it is rolled back.
  void fail_commit(Kind kind, int nth = 1);
  /// The answer to it is lost (`commit_in_doubt`), whether it was carried out or not.
  void lose_commit_reply(int nth = 1, bool committed = true);
  /// Connection number `nth` from now cannot be opened (`connection_lost`).
  void fail_connect(int nth = 1);

  /// Forgets what has not happened yet.
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
  /// The fault that happens here and now.
  std::optional<Fault> next(FaultPoint point, std::string_view name = {});

  mutable std::mutex mutex_;
  std::vector<Fault> faults_;
  std::size_t happened_ = 0;
};

/// The message as a handler gets it at its first attempt, created and leased at `now`. Without an
/// id: `test`.
Message make_message(const NewMessage& message, Instant now = ManualClock{}.now());

/// What was enqueued and committed, in the order of the calls, with every field that is stored: of
/// one topic, or all.
std::vector<NewMessage> enqueued(Outbox& outbox, const std::optional<Topic>& topic = {});

/// A real database, as Database opens it, in which what `plan` says goes wrong.
Database open_faulty(std::string_view address, FaultPlan& plan, DatabaseOptions options = {},
                     Environment environment = {});

}  // namespace twinbox
