// Expire beside transactions that hold a partition key or a row: their deliveries wait for the next
// time, and hide nothing.
#include "support/housekeeping_test.hpp"
#include "support/postgres.hpp"

namespace twinbox::test {
namespace {

class PostgresHeldKey : public HousekeepingTest {
 protected:
  PostgresHeldKey() : other_(test_store().address()) {
    DatabaseOptions impatient;
    impatient.wait_timeout = 50ms;
    database_ = std::make_unique<Database>(test_store().address(), impatient, environment());
    inbox_ = std::make_unique<Inbox>(*database_, options());
    other_.begin();
  }

  void accept(const std::string& id, const std::string& key) {
    Arrival arrival = an_arrival(id);
    if (!key.empty()) arrival.extras.partition_key = PartitionKey{key};
    arrival.extras.expires_at = clock().now() + 10s;
    clock().advance(1ms);
    inbox_->accept(arrival);
  }
  void hold_key(const std::string& key) {
    other_.run(in_schema("select pg_advisory_xact_lock(hashtextextended('" + key +
                         "', '{schema}inbox_work'::regclass::oid::bigint))"));
  }
  static HousekeepingOptions expiring(std::int64_t batch) {
    HousekeepingOptions options = only(Chore::expire);
    options.expire.batch = batch;
    return options;
  }
  std::string open() {
    return read(
        "select coalesce(string_agg(m.id, ' ' order by m.id), '') from {schema}inbox_work w "
        "join {schema}inbox_message m using (number)");
  }

  PgClient other_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Inbox> inbox_;
};

TEST_P(PostgresHeldKey, expire_leaves_out_the_rows_of_a_key_that_another_transaction_holds) {
  for (const std::int64_t batch : {1, 2, 1000}) {
    const std::string n = std::to_string(batch);
    for (const char* id : {"a", "b"}) accept(id + n, "held" + n);
    for (const char* id : {"c", "d"}) accept(id + n, "free" + n);
    accept("e" + n, "");
    clock().advance(30s);
    hold_key("held" + n);
    Housekeeping house(*inbox_, expiring(batch));
    EXPECT_EQ(line(house.step()), "expire done 3") << batch;
    EXPECT_EQ(open(), "a" + n + " b" + n);
    other_.rollback();
    clock().advance(30s);
    EXPECT_EQ(line(house.step()), "expire done 2") << batch;
    EXPECT_EQ(open(), "");
    clock().advance(30s);
    other_.begin();
  }
  EXPECT_TRUE(log().events("stuck_row").empty());
}

TEST_P(PostgresHeldKey, expire_takes_no_row_whose_key_it_has_not_locked) {
  accept("a", "a");
  accept("b", "b");
  accept("c", "");
  clock().advance(30s);
  other_.run(in_schema("select 1 from {schema}inbox_work where partition_key = 'a' for update"));
  hold_key("b");
  Housekeeping house(*inbox_, expiring(1));
  EXPECT_EQ(line(house.step()), "expire done 1");
  EXPECT_EQ(open(), "a b");
}

TEST_P(PostgresHeldKey, prune_leaves_out_a_message_whose_mark_another_transaction_holds) {
  for (const char* id : {"a", "b", "c"}) inbox_->mark_processed(an_arrival(id));
  write("update {schema}inbox_outcome set state = 4, reason = 'gate'");
  clock().advance(2h);
  other_.run(
      in_schema("select 1 from {schema}inbox_outcome o join {schema}inbox_message m using "
                "(number) where m.id = 'a' for update of o"));
  Housekeeping house(*inbox_, pruning(1h, 1));
  EXPECT_EQ(line(house.step()), "prune done 2");
  EXPECT_EQ(read("select string_agg(id, ' ') from {schema}inbox_message"), "a");
  other_.rollback();
  clock().advance(1h);
  EXPECT_EQ(line(house.step()), "prune done 1");
  EXPECT_TRUE(log().events("stuck_row").empty());
}

TWINBOX_ON_BACKENDS(PostgresHeldKey, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
