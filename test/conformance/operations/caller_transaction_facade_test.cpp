// What an operator and the plain stores do in a caller's transaction: its commit keeps it, its
// rollback leaves nothing, and without a transaction it is refused.
#include <functional>
#include <tuple>

#include "support/outbox_test.hpp"
#include <twinbox/event_bus.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/outbox.hpp>

namespace twinbox::test {
namespace {

/// A session on a connection that is in no transaction.
class Idle final : public Session {
 public:
  explicit Idle(Dialect dialect) : dialect_(dialect) {}
  using Session::execute;
  [[nodiscard]] Dialect dialect() const noexcept override { return dialect_; }
  std::size_t execute(const Statement&, std::span<const Arg>, RowSink) override {
    ADD_FAILURE() << "a statement was executed outside of a transaction";
    return 0;
  }
  [[nodiscard]] bool in_transaction() const override { return false; }

 private:
  std::size_t execute_text(std::string_view, std::span<const Arg>, RowSink) override { return 0; }

  Dialect dialect_;
};

class CallerTransactionOf : public OutboxTest {
 protected:
  struct Undo {};

  /// All that can be seen of the boxes.
  std::string picture() {
    std::string seen;
    const auto look = [&](WorkQueue& box) {
      Admin admin{box};
      for (const DeliveryEntry& entry : admin.list({}, 100).entries) {
        seen += entry.message.id.str() + ' ' + std::string{to_string(entry.delivery.state)} + ' ' +
                std::to_string(entry.delivery.attempts) + ' ' +
                std::to_string(entry.delivery.requeues) + ' ' + entry.delivery.reason + ' ' +
                entry.delivery.last_error;
        if (entry.delivery.visible_at)
          seen += ' ' + std::to_string(entry.delivery.visible_at->time_since_epoch().count());
        seen += '\n';
      }
      for (const AuditEntry& line : admin.audit().entries)
        seen += line.action + ' ' + line.operation_id + ' ' + std::to_string(line.affected) + '\n';
    };
    look(outbox());
    look(inbox());
    return seen;
  }

  /// Makes the call without a transaction, in one that is rolled back, and in one that is kept;
  /// each time it must answer `expected`.
  template <class Call, class Answer>
  void check(const char* operation, Call call, Answer expected, bool changes = true) {
    const std::string before = picture();
    Idle idle{database().dialect()};
    EXPECT_THROW(std::ignore = call(idle), UsageError) << operation;
    EXPECT_THROW(database().in_transaction([&](Session& session) {
      EXPECT_EQ(call(session), expected) << operation;
      EXPECT_TRUE(session.in_transaction()) << operation;
      throw Undo{};
    }),
                 Undo);
    EXPECT_EQ(picture(), before) << operation;
    database().in_transaction(
        [&](Session& session) { EXPECT_EQ(call(session), expected) << operation; });
    EXPECT_EQ(picture() != before, changes) << operation;
  }

  Message held(std::string id) {
    NewMessage message = a_message();
    message.id = MessageId{std::move(id)};
    outbox().enqueue(message);
    return outbox().claim(worker_a, 30s, 1).at(0);
  }
  void make_dead(const std::string& id) { outbox().fail(worker_a, held(id), "error 17"); }
  std::int64_t number_of(const std::string& id) {
    return Admin{outbox()}.get(MessageId{id})->message.number;
  }
  static EventRecord an_event(std::string id) {
    return {MessageId::event_id(std::move(id)), Topic::event_name("order.created"), payload()};
  }
};

TEST_P(CallerTransactionOf, OBX_003_settles_by_message_id) {
  const auto settle = [&](auto call) {
    return [=](Session& session) { return call(session).changed; };
  };
  for (const char* id : {"a", "b", "c"}) std::ignore = held(id);
  const std::vector<MessageId> a{MessageId{"a"}}, b{MessageId{"b"}}, c{MessageId{"c"}};
  check("ack", settle([&](Session& s) { return outbox().ack(s, worker_a, a); }), 1u);
  check("abandon", settle([&](Session& s) { return outbox().abandon(s, worker_a, b, "no"); }), 1u);
  check("fail", settle([&](Session& s) { return outbox().fail(s, worker_a, c, "no"); }), 1u);
}

TEST_P(CallerTransactionOf, OBX_003_releases_or_postpones_without_an_owner) {
  const Message message = held("a");
  ASSERT_EQ(outbox().release(worker_a, message), 1u);
  const DeliveryId id = message.delivery_id;
  const Instant later = clock().now() + 1h;
  check(
      "postpone", [&](Session& s) { return outbox().postpone(s, id, later); }, 1u);
  check(
      "release", [&](Session& s) { return outbox().release(s, id); }, 1u);
}

TEST_P(CallerTransactionOf, reads_a_message_as_the_transaction_sees_it) {
  outbox();
  Admin admin{outbox()};
  Idle idle{database().dialect()};
  EXPECT_THROW(std::ignore = admin.get(idle, MessageId{"a"}), UsageError);
  NewMessage message = a_message();
  message.id = MessageId{"a"};
  database().in_transaction([&](Session& session) {
    outbox().enqueue(session, message);
    ASSERT_TRUE(admin.get(session, MessageId{"a"}));
    EXPECT_EQ(admin.get(session, MessageKey{Source::none(), *message.id})->payload, payload());
    EXPECT_FALSE(admin.get(session, MessageId{"b"}));
  });
}

TEST_P(CallerTransactionOf, an_operators_operations_by_filter_and_group) {
  for (const char* id : {"a", "b", "c", "d", "e"}) make_dead(id);
  Admin admin{outbox()};
  const Filter dead{.state = StateFilter::dead};
  const Operation two{.limit = 2, .batch = 1, .operation_id = "two"};
  check(
      "dry run", [&](Session& s) { return admin.requeue(s, dead, {}, Operation{.dry_run = true}); },
      5u, false);
  check(
      "requeue", [&](Session& s) { return admin.requeue(s, dead, {}, two); }, 2u);
  const std::optional<AuditEntry> operation = admin.operation("two");
  ASSERT_TRUE(operation);
  EXPECT_TRUE(operation->finished);
  EXPECT_EQ(operation->affected, 2);
  check(
      "the same again", [&](Session& s) { return admin.requeue(s, dead, {}, two); }, 2u, false);
  const Filter ready{.state = StateFilter::ready};
  check(
      "postpone", [&](Session& s) { return admin.postpone(s, ready, Duration{1h}); }, 2u);
  const DeadGroup group = admin.dead_groups().groups.at(0);
  const Operation one{.reason = "obsolete", .limit = 1};
  check(
      "requeue", [&](Session& s) { return admin.requeue(s, group, {}, one); }, 1u);
  check(
      "discard", [&](Session& s) { return admin.discard(s, group, one); }, 1u);
  check(
      "discard", [&](Session& s) { return admin.discard(s, dead, one); }, 1u);
  const Filter discarded{.state = StateFilter::discarded};
  const std::vector<std::int64_t> numbers{
      number_of(admin.list(discarded).entries.at(0).message.id.str())};
  check(
      "prune", [&](Session& s) { return admin.prune(s, numbers); }, 1u);
  check(
      "prune", [&](Session& s) { return admin.prune(s, discarded); }, 1u);
}

TEST_P(CallerTransactionOf, an_operation_that_stops_in_it_goes_on_where_it_stood) {
  for (const char* id : {"a", "b", "c"}) make_dead(id);
  Admin admin{outbox()};
  const Filter dead{.state = StateFilter::dead};
  Operation operation{
      .batch = 1, .operation_id = "all", .on_progress = [](std::size_t) { return false; }};
  check(
      "first", [&](Session& s) { return admin.requeue(s, dead, {}, operation); }, 1u);
  EXPECT_FALSE(admin.operation("all")->finished);
  operation.on_progress = {};
  check(
      "rest", [&](Session& s) { return admin.requeue(s, dead, {}, operation); }, 3u);
  EXPECT_TRUE(admin.operation("all")->finished);
}

TEST_P(CallerTransactionOf, an_operation_whose_caller_throws_leaves_nothing_of_it) {
  for (const char* id : {"a", "b", "c"}) make_dead(id);
  Admin admin{outbox()};
  const std::string before = picture();
  const Operation operation{
      .batch = 1, .operation_id = "all", .on_progress = [](std::size_t changed) {
        if (changed == 2) throw Undo{};
        return true;
      }};
  database().in_transaction([&](Session& session) {
    EXPECT_THROW(admin.requeue(session, Filter{.state = StateFilter::dead}, {}, operation), Undo);
  });
  EXPECT_EQ(picture(), before);
  EXPECT_FALSE(admin.operation("all"));
}

TEST_P(CallerTransactionOf, OBX_003_the_plain_store) {
  for (const char* id : {"a", "b", "c"}) {
    NewMessage message = a_message();
    message.id = MessageId{id};
    outbox().enqueue(message);
  }
  OutboxStore store{outbox(), worker_a};
  std::vector<DeliveryId> ids;
  check(
      "claim_due",
      [&](Session& s) {
        ids = ids_of(store.claim_due(s, 3));
        return ids.size();
      },
      3u);
  check(
      "mark_dispatched", [&](Session& s) { return store.mark_dispatched(s, ids[0]); }, true);
  check(
      "reschedule", [&](Session& s) { return store.reschedule(s, ids[1], 5s, "no"); }, true);
  check(
      "fail", [&](Session& s) { return store.fail(s, ids[2], "no"); }, true);
}

TEST_P(CallerTransactionOf, EVB_04_the_events_going_out) {
  EventOutboxStore store{outbox(), worker_a};
  for (const char* id : {"a", "b", "c"}) store.store(an_event(id));
  std::vector<StoredEvent> events;
  check(
      "unprocessed",
      [&](Session& s) {
        events = store.unprocessed(s, 3, 1);
        return events.size();
      },
      3u);
  const auto update = [&](std::size_t i, EventStatus status) {
    const EventUpdate change{.status = status, .error = "no", .retry_after = Duration{1s}};
    check(
        "update", [&](Session& s) { return store.update(s, events.at(i), change); }, true);
  };
  update(0, EventStatus::processed);
  update(1, EventStatus::discarded);
  update(2, EventStatus::pending);
  clock().advance(1s);
  check(
      "unprocessed", [&](Session& s) { return store.unprocessed(s, 3, 1).size(); }, 0u);
  EXPECT_EQ(Admin{outbox()}.counts().all.dead, 1) << "it has failed often enough";
  const Instant now = clock().now();
  check(
      "processed", [&](Session& s) { return store.processed(s, now, 10).size(); }, 2u, false);
  const auto old = store.processed(now, 10);
  check(
      "remove", [&](Session& s) { return store.remove(s, old); }, 2u);
}

TEST_P(CallerTransactionOf, EVB_05_the_events_coming_in) {
  EventInboxStore store{inbox(), worker_a};
  const EventRecord a = an_event("a"), b = an_event("b"), c = an_event("c");
  const auto done = [](auto call) {
    return [call](Session& s) {
      call(s);
      return true;
    };
  };
  check("insert", done([&](Session& s) { store.insert(s, a); }), true);
  check("mark_processed", done([&](Session& s) { store.mark_processed(s, b); }), true);
  check(
      "has_processed", [&](Session& s) { return store.has_processed(s, b.id); }, true, false);
  check(
      "get", [&](Session& s) { return store.get(s, a.id).has_value(); }, true, false);
  const auto update = [&](const EventRecord& event, EventStatus status) {
    const EventUpdate change{.status = status, .error = "no", .retry_after = Duration{1s}};
    check(
        "update", [&](Session& s) { return store.update(s, event, change); }, true);
  };
  update(c, EventStatus::pending);
  update(c, EventStatus::processed);
  update(a, EventStatus::discarded);
  const Instant now = clock().now();
  check(
      "for_cleanup", [&](Session& s) { return store.for_cleanup(s, now, 10).size(); }, 3u, false);
  const auto old = store.for_cleanup(now, 10);
  check(
      "remove", [&](Session& s) { return store.remove(s, old); }, 3u);
}

TWINBOX_ON_EVERY_BACKEND(CallerTransactionOf);

}  // namespace
}  // namespace twinbox::test
