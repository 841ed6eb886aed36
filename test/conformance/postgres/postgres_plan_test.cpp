// What claim and the settles cost must depend neither on the backlog, nor on the history, nor on
// statistics.
#include "support/postgres_plan.hpp"

#include <cstdlib>
#include <tuple>

#include "support/backend.hpp"
#include "support/postgres.hpp"

namespace twinbox::test {
namespace {

constexpr std::int64_t batch = 50;
constexpr long small_store = 10'000;

/// The size of a large store, open and finished each: a million in a long run.
long large_store() {
  return std::getenv("TWINBOX_CAMPAIGN_SECONDS") == nullptr ? 200'000 : 1'000'000;
}

class PostgresPlan : public BoxTest {
 protected:
  /// Whose planner it is: our own connection's, or that of a caller's transaction.
  enum class Side { own, caller };

  PostgresPlan()
      : admin_(test_store().address()),
        database_(explained(test_store().address()), one_connection(), environment()) {}

  std::unique_ptr<Outbox> open(const std::string& table) {
    BoxOptions opened = options();
    opened.table = table;
    return std::make_unique<Outbox>(database_, opened);
  }

  void run(std::string sql, const std::string& table) {
    for (std::size_t at = sql.find("{box}"); at != std::string::npos; at = sql.find("{box}")) {
      sql.replace(at, 5, "\"" + test_store().schema() + "\"." + table);
    }
    admin_.run(sql);
  }

  /// Finished messages, then open ones that have long been due.
  void fill(const std::string& table, long open, long finished) {
    const std::string first = std::to_string(finished);
    run("insert into {box}_message (source, id, topic, payload, created_at, last_seen_at, "
        "content_version) "
        "select '-', gen_random_uuid()::text, 'order.placed', '~payload~', "
        "       timestamptz '2029-01-01' + i * interval '1 ms', timestamptz '2029-01-01', 1 "
        "from generate_series(1, " +
            std::to_string(open + finished) + ") i",
        table);
    run("insert into {box}_outcome (number, delivery_id, finished_at, state) "
        "select number, number, created_at, 1 from {box}_message where number <= " +
            first,
        table);
    run("insert into {box}_work (number, visible_at) "
        "select number, created_at from {box}_message where number > " +
            first,
        table);
  }

  template <class F>
  void on(Side side, const F& body) {
    if (side == Side::own) return body(nullptr);
    database_.in_transaction([&](Session& session) { body(&session); });
  }

  std::vector<Message> claim(Outbox& outbox, Side side) {
    std::vector<Message> claimed;
    on(side, [&](Session* session) {
      claimed = session == nullptr ? outbox.claim(worker_a, 30s, batch)
                                   : outbox.claim(*session, worker_a, 30s, batch);
    });
    return claimed;
  }

  std::size_t ack(Outbox& outbox, Side side, const Deliveries& deliveries) {
    std::size_t changed = 0;
    on(side, [&](Session* session) {
      changed = session == nullptr ? outbox.ack(worker_a, deliveries)
                                   : outbox.ack(*session, worker_a, deliveries);
    });
    return changed;
  }

  /// The statement that touches the work table itself, however it was reached.
  static ExecutedPlan only_plan(const std::string& table, const std::string& word,
                                const std::function<void()>& body) {
    auto plans = plans_of(word, body);
    std::erase_if(plans, [&](const ExecutedPlan& plan) {
      return plan.query.find(table + "_work") == std::string::npos;
    });
    EXPECT_EQ(plans.size(), 1u) << word;
    EXPECT_TRUE(!plans.empty() && plans.front().nodes.size() > 3 && plans.front().buffers > 0);
    return plans.empty() ? ExecutedPlan{} : plans.front();
  }

  ExecutedPlan plan_of_claim(const std::string& table, Outbox& outbox, Side side,
                             std::vector<Message>& claimed) {
    return only_plan(table, "with picked as", [&] { claimed = claim(outbox, side); });
  }

  ExecutedPlan plan_of_ack(const std::string& table, Outbox& outbox, Side side,
                           const Deliveries& deliveries, std::size_t& changed) {
    return only_plan(table, "with gone as", [&] { changed = ack(outbox, side, deliveries); });
  }

  static void expect_no_backlog(const ExecutedPlan& plan) {
    for (const std::string& node : plan.nodes) {
      EXPECT_EQ(node.find("Seq Scan"), std::string::npos) << plan.text;
      EXPECT_EQ(node.find("Bitmap"), std::string::npos) << plan.text;
    }
    EXPECT_LE(plan.most_rows, batch) << plan.text;
  }

  PgClient admin_;

 private:
  static DatabaseOptions one_connection() {
    DatabaseOptions chosen;
    chosen.pool_size = 1;
    return chosen;
  }

  Database database_;
};

TEST_P(PostgresPlan, OBX_100_claim_reads_an_index_range_whatever_the_backlog_and_the_history) {
  const auto small = open("small");
  const auto large = open("large");
  fill("small", small_store, small_store);
  fill("large", large_store(), large_store());
  for (const char* table : {"small", "large"}) {
    for (const char* part : {"_message", "_work", "_outcome"}) {
      run("vacuum analyze {box}" + std::string{part}, table);
    }
  }
  for (const Side side : {Side::own, Side::caller}) {
    for (int round = 0; round < 7; ++round) {
      std::vector<Message> few;
      std::vector<Message> many;
      const ExecutedPlan from_small = plan_of_claim("small", *small, side, few);
      const ExecutedPlan from_large = plan_of_claim("large", *large, side, many);
      ASSERT_EQ(few.size(), static_cast<std::size_t>(batch));
      ASSERT_EQ(many.size(), static_cast<std::size_t>(batch));
      expect_no_backlog(from_large);
      EXPECT_NE(from_large.text.find("large_work_visible"), std::string::npos) << from_large.text;
      EXPECT_LE(from_large.buffers, from_small.buffers * 3 / 2) << from_small.text << "\n"
                                                                << from_large.text;
      RecordProperty(side == Side::own ? "buffers_of_claim" : "buffers_of_claim_by_a_caller",
                     std::to_string(from_large.buffers) + " of " + std::to_string(large_store()) +
                         ", " + std::to_string(from_small.buffers) + " of " +
                         std::to_string(small_store));
      std::size_t changed = 0;
      const ExecutedPlan ack_small = plan_of_ack("small", *small, side, few, changed);
      const ExecutedPlan ack_large = plan_of_ack("large", *large, side, many, changed);
      EXPECT_EQ(changed, static_cast<std::size_t>(batch));
      expect_no_backlog(ack_large);
      EXPECT_LE(ack_large.buffers, ack_small.buffers * 3 / 2) << ack_small.text << "\n"
                                                              << ack_large.text;
    }
  }
}

TEST_P(PostgresPlan, claim_and_ack_first_used_on_empty_tables_keep_their_plans_when_a_burst_comes) {
  const auto usual = open("usual");
  fill("usual", small_store, small_store);
  for (const char* part : {"_message", "_work", "_outcome"}) {
    run("vacuum analyze {box}" + std::string{part}, "usual");
  }
  for (const bool analysed : {false, true}) {
    for (const Side side : {Side::own, Side::caller}) {
      const std::string table =
          std::string{analysed ? "analysed" : "fresh"} + (side == Side::own ? "_own" : "_caller");
      SCOPED_TRACE(table);
      const auto trap = open(table);
      for (const char* part : {"_message", "_work", "_outcome"}) {
        run("alter table {box}" + std::string{part} + " set (autovacuum_enabled = off)", table);
        if (analysed) run("analyze {box}" + std::string{part}, table);
      }
      std::vector<Message> claimed;
      std::size_t changed = 0;
      ExecutedPlan empty_claim;
      ExecutedPlan empty_ack;
      for (int round = 0; round < 8; ++round) {
        empty_claim = plan_of_claim(table, *trap, side, claimed);
        empty_ack = plan_of_ack(table, *trap, side, Lease{DeliveryId{1}, 1}, changed);
      }
      std::vector<Message> some;
      const ExecutedPlan usual_claim = plan_of_claim("usual", *usual, side, some);
      const ExecutedPlan usual_ack = plan_of_ack("usual", *usual, side, some, changed);
      fill(table, 100'000, 0);
      for (int round = 0; round < 3; ++round) {
        const ExecutedPlan full_claim = plan_of_claim(table, *trap, side, claimed);
        ASSERT_EQ(claimed.size(), static_cast<std::size_t>(batch));
        EXPECT_EQ(full_claim.nodes, empty_claim.nodes) << full_claim.text;
        expect_no_backlog(full_claim);
        EXPECT_LE(full_claim.buffers, usual_claim.buffers * 3 / 2) << usual_claim.text << "\n"
                                                                   << full_claim.text;
        const ExecutedPlan full_ack = plan_of_ack(table, *trap, side, claimed, changed);
        EXPECT_EQ(changed, static_cast<std::size_t>(batch));
        EXPECT_EQ(full_ack.nodes, empty_ack.nodes) << full_ack.text;
        expect_no_backlog(full_ack);
        EXPECT_LE(full_ack.buffers, usual_ack.buffers * 3 / 2) << usual_ack.text << "\n"
                                                               << full_ack.text;
      }
    }
  }
}

TEST_P(PostgresPlan, a_duplicate_and_every_settle_find_their_rows_by_index) {
  const auto box = open("other");
  fill("other", 20'000, 0);
  NewMessage known = a_message();
  known.id = MessageId{"known"};
  box->enqueue(known);
  for (const Side side : {Side::own, Side::caller}) {
    const auto held = claim(*box, side);
    ASSERT_EQ(held.size(), static_cast<std::size_t>(batch));
    const auto plans = plans_of("other_", [&] {
      on(side, [&](Session* session) {
        if (session == nullptr) {
          box->enqueue(known);
          std::ignore = box->renew(worker_a, held, 60s);
          box->abandon(worker_a, held[0], "error");
          box->fail(worker_a, held[1], "error");
          box->release(worker_a, held[2]);
        } else {
          box->enqueue(*session, known);
          box->abandon(*session, worker_a, held[0], "error");
          box->fail(*session, worker_a, held[1], "error");
        }
      });
    });
    EXPECT_GE(plans.size(), 4u);
    for (const ExecutedPlan& plan : plans) expect_no_backlog(plan);
  }
}

TEST_P(PostgresPlan, expire_reads_neither_the_backlog_nor_the_history) {
  const auto beside = open("beside");
  BoxOptions mortal = options();
  mortal.table = "mortal";
  mortal.max_age = 24h * 3650;
  Outbox box{beside->database(), mortal};
  fill("mortal", 20'000, 20'000);
  const auto plans = plans_of("mortal_", [&] { EXPECT_EQ(box.expire(batch), 0u); });
  EXPECT_EQ(plans.size(), 3u);
  for (const ExecutedPlan& plan : plans) expect_no_backlog(plan);
}

TEST_P(PostgresPlan, prune_reads_neither_what_must_stay_nor_what_is_young) {
  constexpr long old_kept = 20'000;
  constexpr long young = 20'000;
  constexpr long prunable = 100;
  for (const bool analysed : {false, true}) {
    const std::string table = analysed ? "known" : "fresh";
    SCOPED_TRACE(table);
    const auto box = open(table);
    // In front: a quarter each dead, only seen, open, and under mark_processing.
    run("insert into {box}_message (source, id, topic, payload, created_at, last_seen_at) "
        "select '-', i::text, 'order.placed', '~payload~', timestamptz '2029-01-01', "
        "       timestamptz '2029-01-01' "
        "from generate_series(1, " +
            std::to_string(old_kept + young + prunable) + ") i",
        table);
    run("insert into {box}_outcome (number, delivery_id, finished_at, state) "
        "select number, case when number % 4 = 0 then number end, timestamptz '2029-01-01', "
        "       case when number % 4 = 0 then 2 else 4 end from {box}_message "
        "where number <= " +
            std::to_string(old_kept) + " and number % 4 in (0, 1)",
        table);
    run("insert into {box}_work (number, visible_at) "
        "select number, timestamptz '2029-01-01' from {box}_message where number <= " +
            std::to_string(old_kept) + " and number % 4 = 2",
        table);
    run("insert into {box}_outcome (number, delivery_id, finished_at, state) "
        "select number, number, case when number > " +
            std::to_string(old_kept + young) +
            " then timestamptz '2029-01-02' else timestamptz '2030-01-14' end, 1 "
            "from {box}_message where number > " +
            std::to_string(old_kept),
        table);
    for (const char* part : {"_message", "_work", "_outcome"}) {
      if (analysed) run("vacuum analyze {box}" + std::string{part}, table);
    }
    const auto plans = plans_of(table + "_message", [&] {
      EXPECT_EQ(box->prune({.older_than = 7 * 24h}), static_cast<std::size_t>(prunable));
    });
    ASSERT_EQ(plans.size(), 2u) << "one page: its pick, and its deletion";
    for (const ExecutedPlan& plan : plans) {
      EXPECT_GT(plan.buffers, 0);
      EXPECT_LE(plan.most_rows, 2 * prunable) << plan.text;
      EXPECT_LE(plan.buffers, 50 * prunable) << plan.text;
    }
  }
}

TEST_P(PostgresPlan, IBX_122_IBX_125_an_inbox_claims_and_knows_its_messages_by_index) {
  const auto beside = open("beside");
  BoxOptions chosen = options();
  chosen.table = "arrivals";
  Inbox box{beside->database(), chosen};
  fill("arrivals", 20'000, 0);
  box.mark_processed(an_arrival("known"));
  const auto claims = plans_of("with picked as", [&] {
    EXPECT_EQ(box.claim(worker_a, 30s, batch).size(), static_cast<std::size_t>(batch));
  });
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_NE(claims[0].text.find("arrivals_work_visible"), std::string::npos) << claims[0].text;
  const auto lookups = plans_of("arrivals_", [&] {
    EXPECT_EQ(box.accept(an_arrival("known")).state, Acceptance::duplicate_done);
    EXPECT_TRUE(box.already_processed(a_key("known")));
  });
  EXPECT_FALSE(lookups.empty());
  bool by_key = false;
  for (const ExecutedPlan& plan : lookups) {
    expect_no_backlog(plan);
    by_key = by_key || plan.text.find("arrivals_message_key") != std::string::npos;
  }
  EXPECT_TRUE(by_key);
  for (const ExecutedPlan& plan : claims) expect_no_backlog(plan);
}

TWINBOX_ON_BACKENDS(PostgresPlan, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
