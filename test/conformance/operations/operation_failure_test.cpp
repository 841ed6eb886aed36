// An act that a fault cuts off, at every place where it can, and the same act again.
#include "support/backend.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {
namespace {

using Kind = DatabaseError::Kind;

class OperationFailure : public BoxTest {
 protected:
  static constexpr int count = 7;

  OperationFailure()
      : faulty_(open_faulty(test_store().address(), plan_, {.retries = 0}, environment())),
        box_(faulty_, options()) {
    for (int i = 0; i < count; ++i) box_.enqueue(a_message());
    box_.fail(worker_a, box_.claim(worker_a, 30s, count), "boom");
  }

  /// What was sent again so far fails once more: it must not be sent a second time.
  void die_again() {
    plan_.clear();
    const auto held = box_.claim(worker_a, 30s, 100);
    died_again_ += box_.fail(worker_a, held, "again");
  }

  FaultPlan plan_;
  Database faulty_;
  Outbox box_;
  std::size_t died_again_ = 0;
};

TEST_P(OperationFailure, each_delivery_is_changed_once_wherever_a_commit_was_lost) {
  // Four batches; the answer to each commit is lost, whether it was carried out or not.
  for (const bool committed : {false, true}) {
    for (int nth = 1; nth <= 4; ++nth) {
      SCOPED_TRACE((committed ? "committed " : "not committed ") + std::to_string(nth));
      Admin admin{box_};
      const std::string id = std::to_string(nth) + (committed ? "y" : "n");
      const auto act = [&] {
        return admin.requeue(Filter{}, {}, {.batch = 2, .operation_id = id});
      };
      plan_.lose_commit_reply(nth, committed);
      EXPECT_THROW(act(), DatabaseError);
      EXPECT_EQ(plan_.pending(), 0u);
      clock().advance(1s);
      const std::size_t before = died_again_;
      die_again();
      EXPECT_EQ(act(), static_cast<std::size_t>(count));
      EXPECT_TRUE(admin.operation(id)->finished);
      EXPECT_EQ(admin.counts().all.ready, count - static_cast<std::int64_t>(died_again_ - before));
      // All of them are dead again for the next round.
      clock().advance(1s);
      die_again();
      ASSERT_EQ(admin.counts().all.dead, count);
    }
  }
}

TEST_P(OperationFailure, each_delivery_is_changed_once_whichever_statement_fails) {
  struct FaultPoint {
    const char* statement;
    int nth;           ///< time it is executed
    std::size_t sent;  ///< again, before it fails
  };
  for (const auto& [statement, nth, sent] : {FaultPoint{"operation_begin", 1, 0},
                                             {"list_dead", 1, 0},
                                             {"operation_move", 1, 0},
                                             {"operation_lock", 1, 2},
                                             {"list_dead", 2, 2},
                                             {"requeue", 2, 2},
                                             {"operation_move", 2, 2},
                                             {"operation_move", 4, 6}}) {
    SCOPED_TRACE(statement);
    Admin admin{box_};
    const std::string id = statement + std::to_string(nth);
    const auto act = [&] { return admin.requeue(Filter{}, {}, {.batch = 2, .operation_id = id}); };
    plan_.fail_statement(Kind::other, nth, statement);
    EXPECT_THROW(act(), DatabaseError);
    EXPECT_EQ(plan_.pending(), 0u);
    clock().advance(1s);
    const std::size_t before = died_again_;
    die_again();
    EXPECT_EQ(died_again_ - before, sent);
    EXPECT_EQ(act(), static_cast<std::size_t>(count));
    clock().advance(1s);
    die_again();
    ASSERT_EQ(admin.counts().all.dead, count);
  }
}

TWINBOX_ON_EVERY_BACKEND(OperationFailure);

}  // namespace
}  // namespace twinbox::test
