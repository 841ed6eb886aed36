// A second opinion on the transition table: plain containers, no SQL, nothing shared with the
// library.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace twinbox::test::model {

using Time = std::int64_t;  ///< microseconds

struct Key {
  std::string source, id;
  auto operator<=>(const Key&) const = default;
};

struct DeliveryName {
  Key key;
  std::string handler;
  auto operator<=>(const DeliveryName&) const = default;
};

struct Content {
  std::optional<std::string> topic = {}, payload = {}, hash = {}, partition_key = {};
  std::optional<Time> due_at = {}, expires_at = {};
  bool operator==(const Content&) const = default;
};

struct Fact {
  Content content = {};
  Time created_at = 0, last_seen_at = 0;
  std::int64_t seen_count = 1, content_version = 0;
  bool operator==(const Fact&) const = default;
};

struct Work {
  std::int64_t id = 0;
  Time visible_at = 0;
  std::optional<Time> lease_until = {}, expires_at = {};
  std::optional<std::string> owner = {}, partition_key = {}, last_error = {};
  std::int64_t epoch = 0, attempts = 0, expiries = 0, requeues = 0;
  bool waiting = false;
  bool operator==(const Work&) const = default;

  [[nodiscard]] bool held(Time now) const { return lease_until && *lease_until > now; }
};

enum Ending { done = 1, dead = 2, discarded = 3, marked = 4 };

struct Outcome {
  std::int64_t state = done;
  std::optional<std::int64_t> delivery_id = {};
  Time finished_at = 0;
  std::optional<std::string> finished_by = {}, reason = {}, last_error = {};
  std::int64_t attempts = 0, expiries = 0, requeues = 0;
  bool operator==(const Outcome&) const = default;
};

struct FailureLine {
  DeliveryName delivery;
  std::optional<std::int64_t> delivery_id = {};
  Time failed_at = 0;
  std::optional<std::string> worker = {}, error = {};
  std::int64_t attempt = 0;
  auto operator<=>(const FailureLine&) const = default;
};

/// A partition key that a dead delivery holds; when it is requeued, until it ends otherwise.
struct Hold {
  std::string partition_key;
  bool requeued = false;
  bool operator==(const Hold&) const = default;
};

/// Everything a store holds.
struct State {
  std::map<Key, Fact> facts;
  std::map<DeliveryName, Work> work;
  std::map<DeliveryName, Outcome> outcomes;
  std::multiset<FailureLine> failures;
  std::map<DeliveryName, Hold> holds;
  bool operator==(const State&) const = default;

  [[nodiscard]] const DeliveryName* holder(const std::string& partition_key,
                                           const std::string& handler) const;
};

/// The lines in which two states differ; empty when they are equal.
std::string difference(const State& expected, const State& found);

struct Arrival {
  Key key;
  Content content;
  bool replaces = false;
};

struct Handler {
  std::string key;
  std::vector<std::string> legacy;
};

struct Answer {
  int state;  ///< 0 accepted, 1 duplicate_open, 2 duplicate_done, 3 duplicate_dead
  bool conflict;
  bool operator==(const Answer&) const = default;
};

struct Claimed {
  std::int64_t id, epoch;
  auto operator<=>(const Claimed&) const = default;
};

/// Whose lease, which one: without an epoch any claim of that owner will do.
struct Held {
  std::string owner;
  std::int64_t id;
  std::optional<std::int64_t> epoch;
};

struct Pruning {
  Time retention;
  bool dead, seen;
};

class Model : public State {
 public:
  Time now = 0;
  std::int64_t max_expiries = 0;
  bool hold_keys = false;  ///< what fails for ever holds its partition key

  Answer accept(const Arrival& arrival, const std::vector<Handler>& handlers);
  /// Done, and conflict.
  std::pair<bool, bool> observe(const Key& key, const std::optional<std::string>& hash);
  bool mark_processing(const Key& key);
  bool mark_processed(const Key& key);
  bool mark_dead(const Key& key, const std::string& error);
  bool try_claim(const Key& key, const std::string& topic, const std::string& handler);
  bool release_claim(const Key& key, const std::string& handler);
  /// -1 unknown, 0 seen, 1 open, 2 done, 3 dead.
  [[nodiscard]] int state_of(const Key& key) const;

  /// A claim that is cut short by its limit may choose among deliveries that became visible at the
  /// same time, and may or may not fill up after passing over those that go alone: every world that
  /// may follow, with its answer.
  struct World;
  [[nodiscard]] std::vector<World> claim(const std::string& owner, Time lease, std::size_t limit,
                                         std::optional<Time> visible_from) const;
  std::vector<Claimed> claim_message(const Key& key, const std::string& owner, Time lease);
  std::vector<std::int64_t> renew(const std::vector<Held>& held, Time lease);
  std::size_t ack(const std::vector<Held>& held);
  std::size_t abandon(const std::vector<Held>& held, const std::string& error,
                      std::optional<Time> delay);
  std::size_t fail(const std::vector<Held>& held, const std::string& error, bool counts,
                   const std::string& reason = "failed");
  std::size_t release(const std::vector<Held>& held, std::optional<Time> until);
  std::size_t release_by_operator(const std::vector<std::int64_t>& ids, std::optional<Time> until);
  /// The work under '' of a message id: 0 when there is none; empty when several sources share it.
  [[nodiscard]] std::optional<std::int64_t> work_of(const std::string& id) const;

  std::size_t reap();
  std::size_t expire();
  /// `numbers` says in which order the messages came.
  std::size_t prune(const Pruning& pruning, const std::map<Key, std::int64_t>& numbers);

  std::size_t requeue(const std::vector<DeliveryName>& deliveries, Time delay);
  std::size_t discard(const std::vector<DeliveryName>& deliveries, const std::string& reason);
  bool edit(const Key& key, const std::string& payload);

  /// Ids are the database's: takes over those of new work. What is wrong with them, or nothing.
  std::string learn_ids(const State& found);

 private:
  using Position = std::map<DeliveryName, Work>::iterator;

  Fact& touch(const Key& key, const Content& if_new, int version);
  void add_work(const DeliveryName& delivery, Time visible_at, std::optional<Time> expires_at,
                std::int64_t requeues);
  void finish(Position place, Outcome outcome);
  void promote(const std::string& partition_key, const std::string& handler);
  void release_key(const DeliveryName& delivery);
  [[nodiscard]] std::vector<Handler> missing(const Key& key,
                                             const std::vector<Handler>& handlers) const;
  [[nodiscard]] bool has_work(const Key& key) const;
  [[nodiscard]] bool has_outcome(const Key& key, std::optional<int> state = {}) const;
  Position find(std::int64_t id);
  Position find(const Held& held);
  Claimed lease(Position place, const std::string& owner, Time lease);
  [[nodiscard]] bool ready(const Work& work) const;
  /// A delivery that took down too many workers is dead instead of claimed.
  bool end_crash_loop(const std::string& owner, const Claimed& claimed);
  void claim_into(const std::string& owner, Time lease, std::size_t limit,
                  std::optional<Time> visible_from, std::vector<World>& worlds) const;

  static constexpr std::int64_t unknown_ids = std::int64_t{1} << 60;
  std::int64_t next_unknown_id_ = unknown_ids;
  std::int64_t highest_id_ = 0;
};

struct Model::World {
  Model model;
  std::vector<Claimed> answer;
};

}  // namespace twinbox::test::model
