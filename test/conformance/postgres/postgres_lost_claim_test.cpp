// A claim that a PostgreSQL server has committed, but whose answer is lost on the wire.
#include <map>
#include <optional>

#include "support/backend.hpp"
#include "support/postgres_wire.hpp"
#include <twinbox/dispatcher.hpp>
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

class PostgresLostClaim : public BoxTest {
 protected:
  PostgresLostClaim() { outbox(); }

  Outbox& box() { return box_; }
  /// The server commits what the next step claims, and the wire breaks as it says so.
  void lose_claim(Dispatcher& dispatcher) {
    EXPECT_EQ(dispatcher.step(), 0u);  // logs in and prepares: the next answer is the claim's
    wire_.cut_at_answer();
  }

  Handlers counting() {
    Handlers handlers;
    handlers.on(Topic{"order.placed"}, [this](const Message& message) {
      ++calls_[message.id.str()];
      EXPECT_EQ(message.expiries, 0);
      EXPECT_EQ(message.attempts, 0);
    });
    return handlers;
  }
  [[nodiscard]] const std::map<std::string, int>& calls() const { return calls_; }

  std::string leased() {
    return read("select count(*) from {schema}outbox_work where owner is not null");
  }

 private:
  PostgresWire wire_{test_store().address()};
  // The wire carries one connection at a time.
  Database database_{wire_.address(), {.name = "cut", .pool_size = 1}, environment()};
  Outbox box_{database_, options()};
  std::map<std::string, int> calls_;
};

TEST_P(PostgresLostClaim, is_handled_by_the_next_step_of_its_living_owner) {
  Dispatcher dispatcher{box(), counting()};
  lose_claim(dispatcher);
  for (int i = 0; i < 3; ++i) outbox().enqueue(a_message());
  std::optional<DatabaseError::Kind> kind;
  try {
    dispatcher.step();
  } catch (const DatabaseError& error) {
    kind = error.kind();
  }
  EXPECT_EQ(kind, DatabaseError::Kind::commit_in_doubt);
  EXPECT_EQ(leased(), "3") << "the server did not commit the claim";
  EXPECT_TRUE(calls().empty());
  EXPECT_EQ(dispatcher.step(), 3u);  // the clock stands still: no lease has ended
  EXPECT_EQ(calls().size(), 3u);
  for (const auto& [id, count] : calls()) EXPECT_EQ(count, 1) << id;
  EXPECT_EQ(Admin{outbox()}.counts(true).all.done, 3);
}

TEST_P(PostgresLostClaim, leaves_what_another_worker_leased_to_it) {
  Dispatcher dispatcher{box(), counting()};
  outbox().enqueue(a_message());
  const auto others = outbox().claim(worker_b, 30s, 10);
  ASSERT_EQ(others.size(), 1u);
  lose_claim(dispatcher);
  outbox().enqueue(a_message());
  EXPECT_THROW(dispatcher.step(), DatabaseError);
  EXPECT_EQ(leased(), "2");
  EXPECT_EQ(dispatcher.drain(), 1u);
  EXPECT_FALSE(calls().contains(others[0].id.str()));
  EXPECT_EQ(outbox().ack(worker_b, others), 1u);
}

TWINBOX_ON_BACKENDS(PostgresLostClaim, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
