#include "conformance/property/store.hpp"

#include <algorithm>

namespace twinbox::test {
namespace {

model::Time micros(Instant instant) { return instant.time_since_epoch().count(); }

std::optional<std::string> text(const Row& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return std::string{row.text(column)};
}

std::optional<std::string> bytes(const Row& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return std::string{row.bytes(column)};
}

std::optional<std::string> uuid(const Row& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return row.uuid(column).str();
}

std::optional<model::Time> instant(const Row& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return micros(row.instant(column));
}

bool same_time(const std::optional<Instant>& one, const std::optional<model::Time>& other) {
  return one.has_value() == other.has_value() && (!one || micros(*one) == *other);
}

std::optional<std::int64_t> integer(const Row& row, int column) {
  if (row.is_null(column)) return std::nullopt;
  return row.integer(column);
}

}  // namespace

Store::Store(Backend backend, Kind kind) : kind_(kind), test_store_(backend) {
  Environment environment{.clock = [this] { return clock_.now(); }, .log = [](const LogEvent&) {}};
  database_ = std::make_unique<Database>(test_store_.address(), DatabaseOptions{}, environment);
  BoxOptions options;
  options.schema = test_store_.schema();
  options.deploy_schema = true;
  options.max_expiries = 2;
  for (std::size_t i = 0; i < 2; ++i) {
    options.hold_keys = i == 1;
    if (kind == Kind::inbox) {
      inboxes_.at(i) = std::make_unique<Inbox>(*database_, options);
    } else {
      outboxes_.at(i) = std::make_unique<Outbox>(*database_, options);
    }
  }
  model_.max_expiries = options.max_expiries;
  callers_ = callers_of(backend, test_store_);
}

void Store::in_transaction(Way way, const std::function<void(Session&)>& work) {
  const bool kept = way == Way::session;
  if (turn_ < callers_.size()) return callers_[turn_]->run(kept, work);
  struct Undo {};
  try {
    database_->in_transaction([&](Session& session) {
      work(session);
      if (!kept) throw Undo{};
    });
  } catch (const Undo&) {
  }
}

WorkQueue& Store::queue() {
  if (inbox_) return *inbox_;
  return *outbox_;
}

void Store::clear(bool hold_keys) {
  inbox_ = inboxes_.at(hold_keys ? 1 : 0).get();
  outbox_ = outboxes_.at(hold_keys ? 1 : 0).get();
  admin_ = std::make_unique<Admin>(queue());
  model_.hold_keys = hold_keys;
  const std::string box = kind_ == Kind::inbox ? "inbox" : "outbox";
  const bool server = database_->dialect() != Dialect::sqlite;
  const std::string prefix = server ? "\"" + test_store_.schema() + "\"." : "";
  database_->in_transaction([&](Session& session) {
    for (const char* table : {"_failure", "_outcome", "_work", "_hold", "_audit", "_message"}) {
      session.execute("delete from " + prefix + box + table);
    }
  });
  static_cast<model::State&>(model_) = {};
  last_ = {};
  granted_.clear();
}

model::State Store::read_state() {
  const std::string box = kind_ == Kind::inbox ? "inbox" : "outbox";
  const bool server = database_->dialect() != Dialect::sqlite;
  const std::string table = (server ? "\"" + test_store_.schema() + "\"." : "") + box;
  model::State state;
  std::map<std::int64_t, model::Key> keys;
  numbers_.clear();
  const auto delivery = [&](const Row& row, int number, int handler) {
    return model::DeliveryName{keys.at(row.integer(number)), std::string{row.text(handler)}};
  };
  database_->in_transaction([&](Session& session) {
    session.execute(
        "select number, source, id, topic, payload, hash, partition_key, due_at, expires_at, "
        "created_at, last_seen_at, seen_count, content_version from " +
            table + "_message",
        {}, [&](const Row& row) {
          const model::Key key{std::string{row.text(1)}, std::string{row.text(2)}};
          keys.emplace(row.integer(0), key);
          numbers_.emplace(key, row.integer(0));
          state.facts[key] = {{text(row, 3), bytes(row, 4), bytes(row, 5), text(row, 6),
                               instant(row, 7), instant(row, 8)},
                              micros(row.instant(9)),
                              micros(row.instant(10)),
                              row.integer(11),
                              row.integer(12)};
        });
    session.execute(
        "select number, handler, id, visible_at, lease_until, expires_at, owner, partition_key, "
        "last_error, epoch, attempts, expiries, requeues, waiting from " +
            table + "_work",
        {}, [&](const Row& row) {
          state.work[delivery(row, 0, 1)] = {
              row.integer(2),  micros(row.instant(3)), instant(row, 4), instant(row, 5),
              uuid(row, 6),    text(row, 7),           text(row, 8),    row.integer(9),
              row.integer(10), row.integer(11),        row.integer(12), row.boolean(13)};
        });
    session.execute(
        "select number, handler, state, delivery_id, finished_at, finished_by, reason, last_error, "
        "attempts, expiries, requeues from " +
            table + "_outcome",
        {}, [&](const Row& row) {
          state.outcomes[delivery(row, 0, 1)] = {
              row.integer(2), integer(row, 3), micros(row.instant(4)), uuid(row, 5),   text(row, 6),
              text(row, 7),   row.integer(8),  row.integer(9),         row.integer(10)};
        });
    session.execute(
        "select number, handler, delivery_id, failed_at, worker, error, attempt from " + table +
            "_failure",
        {}, [&](const Row& row) {
          state.failures.insert({delivery(row, 0, 1), integer(row, 2), micros(row.instant(3)),
                                 uuid(row, 4), text(row, 5), row.integer(6)});
        });
    session.execute("select number, handler, partition_key, requeued from " + table + "_hold", {},
                    [&](const Row& row) {
                      state.holds[delivery(row, 0, 1)] = {std::string{row.text(2)}, row.boolean(3)};
                    });
  });
  return state;
}

void Store::compare() {
  model::State found = read_state();
  const std::string wrong_ids = model_.learn_ids(found);
  if (!wrong_ids.empty()) throw Disagreement(wrong_ids);
  if (!(static_cast<const model::State&>(model_) == found)) {
    throw Disagreement(model::difference(model_, found));
  }
  check_invariants(found);
  if (inbox_) {
    for (const auto& [key, fact] : found.facts) {
      const auto state = inbox_->state({Source{key.source}, MessageId{key.id}});
      if (!state || static_cast<int>(*state) != model_.state_of(key)) {
        throw Disagreement("the state of " + key.source + "/" + key.id + " differs");
      }
    }
  }
  last_ = std::move(found);
}

// What must hold whatever the model says.
void Store::check_invariants(const model::State& found) const {
  struct Head {
    std::int64_t lowest = INT64_MAX, promoted = 0;
    int free = 0;
  };
  std::map<std::pair<std::string, std::string>, Head> heads;
  for (const auto& [delivery, row] : found.work) {
    if (found.outcomes.contains(delivery))
      throw Disagreement("a delivery is open and finished at once");
    if (row.owner.has_value() != row.lease_until.has_value()) {
      throw Disagreement("an owner without a lease, or a lease without an owner");
    }
    if (!row.partition_key) {
      if (row.waiting) throw Disagreement("a delivery without a partition key waits");
      continue;
    }
    Head& head = heads[{*row.partition_key, delivery.handler}];
    head.lowest = std::min(head.lowest, row.id);
    if (!row.waiting) {
      ++head.free;
      head.promoted = row.id;
    }
  }
  for (const auto& [delivery, hold] : found.holds) {
    const auto open = found.work.find(delivery);
    const auto ended = found.outcomes.find(delivery);
    if (hold.requeued ? open == found.work.end() || open->second.waiting
                      : ended == found.outcomes.end() || ended->second.state != model::dead) {
      throw Disagreement("a partition key is held by what is neither dead nor its head");
    }
    const auto head = heads.find({hold.partition_key, delivery.handler});
    if (head == heads.end()) continue;
    if (head->second.free != (hold.requeued ? 1 : 0)) {
      throw Disagreement("somebody goes past the one that holds the key");
    }
    heads.erase(head);
  }
  for (const auto& [key, head] : heads) {
    if (head.free != 1) throw Disagreement("a partition key has no head, or several");
    if (head.promoted != head.lowest) throw Disagreement("the head of a key is not its oldest");
  }
  for (const auto& [delivery, outcome] : last_.outcomes) {
    if (outcome.state != model::done) continue;
    const auto now = found.outcomes.find(delivery);
    const bool kept = now != found.outcomes.end() && now->second.state == model::done;
    const bool gone = pruned_ && !found.facts.contains(delivery.key);
    if (!kept && !gone) throw Disagreement("what was done is no longer done");
  }
}

void Store::check_claimed(const model::Model& after, const std::vector<Message>& messages) const {
  for (const Message& message : messages) {
    const model::Key key{message.source.str(), message.id.str()};
    const model::Work& row = after.work.at({key, message.handler.str()});
    const model::Fact& fact = after.facts.at(key);
    const auto before = last_.work.find({key, message.handler.str()});
    if (before != last_.work.end() && before->second.held(model_.now)) {
      throw Disagreement("two live leases of one delivery");
    }
    const auto hash = message.hash ? std::optional{message.hash->bytes} : std::nullopt;
    const bool same =
        message.attempts == row.attempts && message.expiries == row.expiries &&
        message.requeues == row.requeues && micros(message.visible_at) == row.visible_at &&
        micros(message.lease_until) == row.lease_until &&
        message.last_error == row.last_error.value_or("") &&
        message.topic.str() == fact.content.topic && message.payload == fact.content.payload &&
        hash == fact.content.hash && same_time(message.due_at, fact.content.due_at) &&
        same_time(message.expires_at, fact.content.expires_at) &&
        micros(message.created_at) == fact.created_at &&
        micros(message.last_seen_at) == fact.last_seen_at &&
        message.seen_count == fact.seen_count && message.content_version == fact.content_version;
    if (!same) throw Disagreement("a claimed message does not show what is stored");
  }
}

}  // namespace twinbox::test
