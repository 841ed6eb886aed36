// What may happen between the two steps in which PostgreSQL takes a message that is known.
#include <array>
#include <thread>

#include "postgres_driver_test.hpp"
#include "twinbox/database.hpp"
#include "twinbox/inbox.hpp"

namespace twinbox {
namespace {

using namespace postgres_test;

const Arrival arrival{Source{"stripe"}, MessageId{"evt_1"}, Topic{"payment"}, "{}"};

/// One step of `again` for that arrival; returns how many answers it gave.
std::size_t run_step(Session& session, const Step& step) {
  static std::uint32_t numbers = 2'000'000;
  const Statement statement{"accept_known", numbers++, {step}};
  const std::array<Value, 6> values{arrival.source.view(),  arrival.id.view(), arrival.topic.view(),
                                    Bytes{arrival.payload}, std::int64_t{0},   true};
  const Value nothing;
  const auto column = [](std::string_view name, ValueType type, const Value& value) {
    return Arg{name, type, std::span{&value, 1}};
  };
  const std::vector<Arg> args{column("source", ValueType::text, values[0]),
                              column("id", ValueType::text, values[1]),
                              column("topic", ValueType::text, values[2]),
                              column("payload", ValueType::bytes, values[3]),
                              column("position", ValueType::integer, values[4]),
                              column("replaces", ValueType::boolean, values[5]),
                              column("content_type", ValueType::text, nothing),
                              column("headers", ValueType::text, nothing),
                              column("correlation_id", ValueType::text, nothing),
                              column("hash", ValueType::bytes, nothing),
                              column("hash_algorithm", ValueType::text, nothing),
                              column("due_at", ValueType::instant, nothing),
                              column("expires_at", ValueType::instant, nothing),
                              {"handlers", R"([{"key": "", "legacy": []}])"},
                              {"now", Value{}}};
  std::size_t answers = 0;
  session.execute(statement, args, [&](const Row&) { ++answers; });
  return answers;
}

class PostgresAcceptKnown : public PostgresDriver {
 protected:
  void SetUp() override {
    PostgresDriver::SetUp();
    if (IsSkipped()) return;
    database_.emplace(address_);
    inbox_.emplace(*database_, BoxOptions{.schema = schema, .deploy_schema = true});
  }
  void TearDown() override {
    inbox_.reset();
    if (!database_) return;
    database_->in_transaction(
        [](Session& session) { session.execute("drop schema again_test cascade"); });
  }

  std::string seen_count() {
    std::string count;
    database_->in_transaction([&](Session& session) {
      count = text_of(session, "select seen_count from again_test.inbox_message");
    });
    return count;
  }

  static constexpr auto schema = "again_test";
  std::optional<Database> database_;
  std::optional<Inbox> inbox_;
  const StatementSet statements_{Dialect::postgres, {schema, "inbox"}};
  const std::vector<Step>& steps_ = statements_["accept_known"].steps;
};

TEST_F(PostgresAcceptKnown, answers_for_what_it_has_locked) {
  inbox_->accept(arrival);
  database_->in_transaction([&](Session& session) {
    EXPECT_EQ(run_step(session, steps_.at(0)), 0u);
    EXPECT_EQ(run_step(session, steps_.at(1)), 1u);
  });
  EXPECT_EQ(seen_count(), "2");
}

TEST_F(PostgresAcceptKnown, leaves_a_message_to_accept_that_came_after_its_locks) {
  database_->in_transaction([&](Session& session) {
    run_step(session, steps_.at(0));
    std::jthread{[&] { inbox_->accept(arrival); }}.join();
    EXPECT_EQ(run_step(session, steps_.at(1)), 0u);
  });
  EXPECT_EQ(seen_count(), "1");
}

TEST_F(PostgresAcceptKnown, leaves_what_it_has_locked_behind_a_savepoint_to_accept) {
  inbox_->accept(arrival);
  database_->in_transaction([&](Session& session) {
    session.execute("savepoint mine");
    EXPECT_EQ(inbox_->accept(session, arrival).state, Acceptance::duplicate_open);
  });
  EXPECT_EQ(seen_count(), "2");
}

}  // namespace
}  // namespace twinbox
