// What each process did, in a file of its own that outlives a kill; written beside the database, so
// that the database cannot hide what it lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <twinbox/message.hpp>

namespace twinbox::chaos {

/// Microseconds of the machine's clock, which is the database's clock, too.
using Micros = std::int64_t;

inline Micros micros(Instant instant) { return instant.time_since_epoch().count(); }
Micros now();

/// One line per write, appended whole: a kill leaves no half of a line.
class Ledger {
 public:
  explicit Ledger(const std::string& file);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  void write(const std::string& line) const;

 private:
  int file_;
};

/// What a message is for; its id says it, so that a ledger needs nothing else.
struct Plan {
  enum class Topic { plain, batch, transactional, once };
  enum class End { done, retry, dead };  ///< retry: fails once, then done

  Topic topic = Topic::plain;
  End end = End::done;
  bool ordered = false;  ///< under its thread's partition key
  bool ordinary = true;  ///< false: enqueued beside a row of the caller's own, in one transaction

  [[nodiscard]] std::string id(std::string_view thread, int number) const;
};

inline constexpr std::string_view topics[] = {"plain", "batch", "transactional", "once"};

Plan plan_of(std::string_view id);
/// The thread that made it, which is its partition key as well.
std::string thread_of(std::string_view id);
int number_of(std::string_view id);

/// The lines of a producer: intended ids, and what became of them.
struct Produced {
  std::set<std::string> intended, committed, rolled_back;
  std::map<std::string, int> errors;  ///< by kind, those that were settled by trying again

  void read(const std::string& file);
};

/// One call of a handler.
struct Call {
  int worker = 0;
  std::int64_t work = 0;
  int epoch = 0;
  Micros leased_until = 0;  ///< as claimed, without renewals
  Micros begin = 0;
  Micros end = 0;  ///< 0: the worker never came back from it
  Plan::End answer = Plan::End::done;
};

/// The lines of all workers.
struct Handled {
  std::map<std::string, std::vector<Call>> calls;  ///< by message id
  std::map<int, std::string> owners;               ///< by worker
  std::map<int, Micros> last_begin;                ///< by worker
  std::vector<Micros> ends;
  int refused = 0;  ///< settles and renewals of stale workers
  int loop_errors = 0;

  void read(const std::string& file, int worker);
  /// Calls in the order of their claims, ends in the order of time.
  void sort();
};

}  // namespace twinbox::chaos
