// A row that a chore cannot change: what lies behind it is swept all the same.
#include <functional>

#include "support/housekeeping_test.hpp"

namespace twinbox::test {
namespace {

/// A trigger of the user's own fails for one message; the number is the size of a batch.
class StuckPage : public HousekeepingTest {
 protected:
  static constexpr int messages = 9;

  static std::string id(int i) { return "evt_" + std::to_string(i); }
  /// The number of a message in the store.
  std::string number_of(const std::string& message) {
    const std::string column =
        on_sqlserver() ? "cast(number as nvarchar(20))" : "cast(number as text)";
    return read("select " + column + " from {schema}inbox_message where id = '" + message + "'");
  }

  /// From now on the database refuses `event` (`delete`, `update`, `insert`) on the rows of a
  /// message, or of all from one to another, in one of the tables.
  void refuse(const std::string& event, const std::string& table, const std::string& message,
              const std::string& last = {}) {
    const std::string number =
        number_of(message) + " and " + number_of(last.empty() ? message : last);
    const std::string row = event == "insert" ? "new" : "old";
    if (on_sqlite()) {
      write("create trigger stuck before " + event + " on inbox_" + table + " when " + row +
            ".number between " + number +
            " begin select raise(abort, 'refused by a trigger'); end");
    } else if (on_sqlserver()) {
      write("create trigger {schema}stuck on {schema}inbox_" + table + " after " + event +
            " as if exists (select 1 from " + (event == "insert" ? "inserted" : "deleted") +
            " where number between " + number + ") throw 50001, 'refused by a trigger', 1");
    } else {
      write(
          "create function {schema}stuck() returns trigger language plpgsql as $$ begin "
          "raise exception 'refused by a trigger'; end $$");
      write("create trigger stuck before " + event + " on {schema}inbox_" + table +
            " for each row when (" + row + ".number between " + number +
            ") execute function {schema}stuck()");
    }
    test_store().change();
  }
  void permit() {
    if (on_postgres()) {
      write("drop function {schema}stuck() cascade");
    } else {
      write("drop trigger " + std::string{on_sqlserver() ? "{schema}" : ""} + "stuck");
    }
  }

  static HousekeepingOptions sweeping(Chore chore, std::int64_t batch) {
    HousekeepingOptions options = only(chore);
    options.retention = 1h;
    options.reap.batch = options.expire.batch = options.prune.batch = batch;
    return options;
  }

  /// One line of the log for the message, with its error and a way out.
  void expect_told(const std::string& chore, const std::string& message) {
    const auto told = log().events("stuck_row");
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].level, LogLevel::error);
    EXPECT_EQ(told[0].field("box"), "inbox");
    EXPECT_EQ(told[0].field("chore"), chore);
    EXPECT_EQ(told[0].field("source"), "stripe");
    EXPECT_EQ(told[0].field("id"), message);
    EXPECT_NE(told[0].field("error").find("refused by a trigger"), std::string::npos);
    EXPECT_NE(told[0].field("advice").find("trigger"), std::string::npos);
  }

  void finish_all() {
    for (int i = 0; i < messages; ++i)
      inbox().ack(worker_a, inbox().accept_and_claim(an_arrival(id(i)), worker_a, 30s).messages);
    clock().advance(1h);
  }
  void lease_all() {
    for (int i = 0; i < messages; ++i) inbox().accept(an_arrival(id(i)));
    ASSERT_EQ(inbox().claim(worker_a, 10s, 100).size(), std::size_t{messages});
    clock().advance(10s);
  }
  void expire_all() {
    for (int i = 0; i < messages; ++i) {
      Arrival arrival = an_arrival(id(i));
      arrival.extras.expires_at = clock().now() + 10s + i * 1ms;
      inbox().accept(arrival);
    }
    clock().advance(11s);
  }

  /// Sweeps with one row refused, then again without the trigger.
  void expect_passed_over(Chore chore, std::int64_t batch) {
    const std::string name{to_string(chore)};
    Housekeeping house(inbox(), sweeping(chore, batch));
    EXPECT_EQ(line(house.step()), name + " done 8");
    expect_told(name, id(2));
    permit();
    clock().advance(1h);
    EXPECT_EQ(line(house.step()), name + " done 1");
    EXPECT_EQ(log().events("stuck_row").size(), 1u);
  }
};

/// One test for each size of a batch.
#define TWINBOX_STUCK(batch)                                          \
  TEST_P(StuckPage, prune_goes_on_behind_it_in_batches_of_##batch) {  \
    finish_all();                                                     \
    refuse("delete", "message", id(2));                               \
    expect_passed_over(Chore::prune, batch);                          \
    EXPECT_EQ(rows("message"), "0");                                  \
  }                                                                   \
  TEST_P(StuckPage, reap_goes_on_behind_it_in_batches_of_##batch) {   \
    lease_all();                                                      \
    refuse("update", "work", id(2));                                  \
    expect_passed_over(Chore::reap, batch);                           \
    EXPECT_EQ(rows("work where lease_until is not null"), "0");       \
  }                                                                   \
  TEST_P(StuckPage, expire_goes_on_behind_it_in_batches_of_##batch) { \
    expire_all();                                                     \
    refuse("insert", "outcome", id(2));                               \
    expect_passed_over(Chore::expire, batch);                         \
    EXPECT_EQ(rows("work"), "0");                                     \
  }
TWINBOX_STUCK(1)
TWINBOX_STUCK(2)
TWINBOX_STUCK(4)
TWINBOX_STUCK(1000)
#undef TWINBOX_STUCK

TEST_P(StuckPage, expire_goes_on_behind_deliveries_without_a_message) {
  expire_all();
  write("delete from {schema}inbox_message where id in ('evt_0', 'evt_1')");
  Housekeeping house(inbox(), sweeping(Chore::expire, 2));
  EXPECT_EQ(line(house.step()), "expire done 9");
  EXPECT_EQ(rows("work"), "0");
}

TEST_P(StuckPage, a_chore_that_meets_a_hundred_such_rows_fails_and_goes_on_behind_them_next_time) {
  for (int i = 0; i < 150; ++i)
    inbox().ack(worker_a, inbox().accept_and_claim(an_arrival(id(i)), worker_a, 30s).messages);
  clock().advance(1h);
  refuse("delete", "message", id(0), id(119));
  Housekeeping house(inbox(), sweeping(Chore::prune, 1000));
  const HousekeepingReport first = house.step();
  EXPECT_EQ(line(first), "prune failed 0");
  EXPECT_EQ(first.chores.at(0).skipped, 100u);
  EXPECT_NE(first.chores.at(0).error.find("refused by a trigger"), std::string::npos);
  EXPECT_EQ(house.stats(Chore::prune).skipped, 100u);
  clock().advance(1h);
  const HousekeepingReport second = house.step();
  EXPECT_EQ(line(second), "prune done 30");
  EXPECT_EQ(second.chores.at(0).skipped, 20u);
  EXPECT_EQ(rows("message"), "120");
}

/// The direct calls: they change what they can, then throw the first row's error.
class StuckDirectCall : public StuckPage {
 protected:
  /// With the message `id(2)` refused.
  static void expect_refused(const std::function<void()>& call, const std::string& changed) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const DatabaseError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("1 row was passed over"), std::string::npos) << text;
      EXPECT_NE(text.find("(" + changed + ")"), std::string::npos) << text;
      EXPECT_NE(text.find("id \"evt_2\""), std::string::npos) << text;
      EXPECT_NE(text.find("refused by a trigger"), std::string::npos) << text;
    }
  }
};

TEST_P(StuckDirectCall, prune_deletes_what_lies_behind_it) {
  for (const std::int64_t batch : {1, 4, 1000}) {
    finish_all();
    refuse("delete", "message", id(2));
    const PruneOptions options{.older_than = 30min, .batch = batch};
    expect_refused([&] { inbox().prune(options); }, "8");
    EXPECT_EQ(rows("message"), "1") << "batch " << batch;
    permit();
    EXPECT_EQ(inbox().prune(options), 1u);
  }
}

TEST_P(StuckDirectCall, reap_clears_what_lies_behind_it) {
  lease_all();
  refuse("update", "work", id(2));
  expect_refused([&] { inbox().reap(); }, "8");
  EXPECT_EQ(rows("work where lease_until is not null"), "1");
  permit();
  EXPECT_EQ(inbox().reap(), 1u);
}

TEST_P(StuckDirectCall, reap_of_one_batch_goes_on_behind_it) {
  lease_all();
  refuse("update", "work", id(2));
  expect_refused([&] { inbox().reap(4); }, "4");
  EXPECT_EQ(rows("work where lease_until is not null"), "5");
  permit();
  EXPECT_EQ(inbox().reap(100), 5u);
}

TEST_P(StuckDirectCall, expire_ends_what_lies_behind_it) {
  expire_all();
  refuse("insert", "outcome", id(2));
  expect_refused([&] { inbox().expire(); }, "8");
  EXPECT_EQ(rows("work"), "1");
  expect_refused([&] { inbox().expire(std::stop_token{}); }, "0");
  permit();
  EXPECT_EQ(inbox().expire(), 1u);
}

TEST_P(StuckDirectCall, expire_of_one_batch_goes_on_behind_it) {
  expire_all();
  refuse("insert", "outcome", id(2));
  expect_refused([&] { inbox().expire(4); }, "4");
  EXPECT_EQ(rows("work"), "5");
  permit();
  EXPECT_EQ(inbox().expire(std::stop_token{}), 5u);
}

TWINBOX_ON_EVERY_BACKEND(StuckDirectCall);
TWINBOX_ON_EVERY_BACKEND(StuckPage);

/// A chore that is stopped as soon as it has passed over a row.
class StoppedPage : public StuckPage {
 protected:
  StoppedPage() {
    Environment telling = environment();
    telling.log = [this, write = telling.log](const LogEvent& event) {
      write(event);
      if (event.name == "stuck_row") stop_.request_stop();
    };
    database_ = std::make_unique<Database>(test_store().address(), DatabaseOptions{}, telling);
    inbox_ = std::make_unique<Inbox>(*database_, options());
  }

  void expect_it_goes_on(Chore chore) {
    const std::string name{to_string(chore)};
    Housekeeping house(*inbox_, sweeping(chore, 1));
    EXPECT_EQ(line(house.step(stop_.get_token())), name + " stopped 2");
    EXPECT_EQ(line(house.step()), name + " done 6");
    expect_told(name, id(2));
    permit();
    clock().advance(1h);
    EXPECT_EQ(line(house.step()), name + " done 1") << "and begins at the first row again";
  }

 private:
  std::stop_source stop_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Inbox> inbox_;
};

TEST_P(StoppedPage, prune_goes_on_where_it_was) {
  finish_all();
  refuse("delete", "message", id(2));
  expect_it_goes_on(Chore::prune);
}

TEST_P(StoppedPage, reap_goes_on_where_it_was) {
  lease_all();
  refuse("update", "work", id(2));
  expect_it_goes_on(Chore::reap);
}

TEST_P(StoppedPage, expire_goes_on_where_it_was) {
  expire_all();
  refuse("insert", "outcome", id(2));
  expect_it_goes_on(Chore::expire);
}

TWINBOX_ON_BACKENDS(StoppedPage, Backend::sqlite_file, Backend::postgres, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
