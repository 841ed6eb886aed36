// The doctor finds what is wrong, and says what to do: each thing is made wrong and looked at.
#include <filesystem>
#include <fstream>
#include <memory>

#include <sqlite3.h>

#include "support/inbox_test.hpp"
#include "support/reused_schema.hpp"
#include <twinbox/health.hpp>
#include <twinbox/session.hpp>

namespace twinbox::test {
namespace {

using Level = Finding::Level;

class Doctor : public InboxTest {
 protected:
  std::vector<Finding> box() {
    BoxOptions looked_at = options();
    looked_at.deploy_schema = false;
    return examine_box(database(), BoxKind::inbox, looked_at);
  }
  /// The worst of a check, or ok with nothing found.
  static Finding worst(const std::vector<Finding>& findings, std::string_view check) {
    Finding result{std::string{check}, Level::ok, "nothing"};
    for (const Finding& one : findings) {
      if (one.check == check && (one.level > result.level || result.found == "nothing"))
        result = one;
    }
    return result;
  }
};

TEST_P(Doctor, finds_nothing_in_tables_that_are_new) {
  if (on_sqlserver() && is_stand_in()) GTEST_SKIP() << "the stand-in has other names for indexes";
  inbox();
  for (const Finding& finding : box()) {
    EXPECT_EQ(finding.level, Level::ok) << finding.check << ": " << finding.found;
    EXPECT_EQ(finding.fix, "");
  }
  EXPECT_EQ(worst(examine_database(database()), "reach").level, Level::ok);
}

TEST_P(Doctor, names_a_box_in_which_nothing_is_finished) {
  inbox().accept(an_arrival());
  EXPECT_EQ(worst(box(), "progress").level, Level::ok);
  clock().advance(5min);
  EXPECT_EQ(worst(box(), "progress").level, Level::warning);
}

TEST_P(Doctor, reads_the_clock_of_the_database) {
  const Instant first = clock_of(database());
  EXPECT_GT(first, Instant{std::chrono::sys_days{std::chrono::January / 1 / 2020}});
  EXPECT_LE(first, clock_of(database()));
}

TEST_P(Doctor, names_missing_tables_and_a_version_that_is_older_or_newer) {
  database();
  EXPECT_EQ(worst(box(), "schema").found, "the tables are missing");
  inbox();
  const std::string versions = in_schema("{schema}twinbox_schema");
  write("update " + versions +
        " set version = 99 where box = 'inbox' and version = (select max(version) from " +
        versions + ")");
  EXPECT_EQ(worst(box(), "schema").level, Level::error);
  EXPECT_NE(worst(box(), "schema").found.find("newer than this program"), std::string::npos);
  write("delete from " + versions + " where version = 99 and box = 'inbox'");
  EXPECT_EQ(worst(box(), "schema").level, Level::error);
  EXPECT_EQ(worst(box(), "schema").fix, "twinbox schema deploy");
}

TEST_P(Doctor, names_a_missing_index_and_the_statement_that_mends_it) {
  if (on_sqlserver() && is_stand_in()) GTEST_SKIP() << "the stand-in has other names for indexes";
  inbox();
  write(on_sqlserver() ? "drop index inbox_work_visible on {schema}inbox_work"
                       : "drop index {schema}inbox_work_visible");
  const Finding finding = worst(box(), "index");
  EXPECT_EQ(finding.level, Level::error);
  EXPECT_EQ(finding.found, "inbox_work_visible is missing");
  write(finding.fix.substr(0, finding.fix.size() - 1));
  EXPECT_EQ(worst(box(), "index").level, Level::ok);
}

TEST_P(Doctor, names_a_missing_trigger) {
  if (on_sqlserver() && is_stand_in()) GTEST_SKIP() << "the stand-in has other names for indexes";
  inbox();
  write(on_postgres() ? "drop trigger inbox_work_promote on {schema}inbox_work"
                      : "drop trigger {schema}inbox_work_promote");
  EXPECT_EQ(worst(box(), "index").found, "inbox_work_promote is missing");
}

TEST_P(Doctor, tells_a_backlog_that_nobody_works_on_from_one_that_grows_and_one_that_is_worked_on) {
  StateCounts idle{.ready = 10};
  idle.oldest_pending = 2min;
  EXPECT_EQ(compare_backlog(idle, idle, 2s).level, Level::error);
  StateCounts busy = idle;
  busy.leased = 3;
  EXPECT_EQ(compare_backlog(busy, busy, 2s).level, Level::ok);
  StateCounts more = busy;
  more.ready = 25;
  EXPECT_EQ(compare_backlog(busy, more, 2s).level, Level::warning);
  EXPECT_NE(compare_backlog(busy, more, 2s).found.find("15 more"), std::string::npos);
  more.oldest_pending = 1s;
  EXPECT_EQ(compare_backlog(busy, more, 2s).level, Level::ok) << "a burst that is young";
  EXPECT_EQ(compare_backlog({}, {}, 2s).level, Level::ok);
}

TWINBOX_ON_EVERY_BACKEND(Doctor);

class SqliteDoctor : public Doctor {};

TEST_P(SqliteDoctor, finds_a_file_that_everybody_reads_and_a_disk_that_is_full) {
  inbox();
  using std::filesystem::perms;
  std::filesystem::permissions(test_store().file(), perms::owner_read | perms::owner_write);
  EXPECT_EQ(worst(examine_database(database()), "file").level, Level::ok);
  std::filesystem::permissions(test_store().file(), perms::others_read,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(worst(examine_database(database()), "file").level, Level::warning);
  std::filesystem::permissions(test_store().file(), perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(worst(examine_database(database()), "file").level, Level::error);
  DoctorLimits greedy;
  greedy.free_share = 2;
  greedy.log_bytes = 0;
  EXPECT_NE(worst(examine_database(database(), greedy), "disk").level, Level::ok);
  EXPECT_EQ(worst(examine_database(database(), greedy), "log").level, Level::warning);
  for (const Finding& finding : examine_database(database(), greedy)) {
    EXPECT_EQ(finding.fix.find("wal_checkpoint"), std::string::npos)
        << "outside the write lock, that is what the WAL-reset bug needs: " << finding.fix;
  }
}

TEST_P(SqliteDoctor, tells_how_durable_the_commits_of_a_program_s_own_connection_are) {
  inbox();
  sqlite3* opened = nullptr;
  ASSERT_EQ(sqlite3_open(test_store().file().c_str(), &opened), SQLITE_OK);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> handle{opened, sqlite3_close};
  SqliteSession session{opened};
  const auto run = [&](const char* sql) {
    EXPECT_EQ(sqlite3_exec(opened, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sql;
  };
  const auto found = [&](const char* pragma) {
    run(pragma);
    run("begin");
    const Finding finding = worst(examine_session(session), "durability");
    run("rollback");
    return finding;
  };
  EXPECT_EQ(found("pragma synchronous = full").level, Level::ok);
  const Finding normal = found("pragma synchronous = normal");
  EXPECT_EQ(normal.level, Level::warning);
  EXPECT_EQ(normal.found, "synchronous is normal: a power cut can undo the last commits");
  const Finding off = found("pragma synchronous = off");
  EXPECT_EQ(off.level, Level::error);
  EXPECT_EQ(off.found, "synchronous is off: a power cut can ruin the file");
  EXPECT_EQ(off.fix, "pragma synchronous = full; on the connection that writes");
}

TEST_P(SqliteDoctor, finds_a_file_that_cannot_be_opened) {
  Database broken("sqlite:" + test_store().file() + "/not/there", {}, environment());
  const Finding finding = worst(examine_database(broken), "reach");
  EXPECT_EQ(finding.level, Level::error);
  EXPECT_EQ(finding.fix, "check the address, and whether the database runs");
}

TEST_P(SqliteDoctor, finds_a_file_that_is_no_database) {
  const std::string file = test_store().file() + ".txt";
  std::ofstream{file} << std::string(10'000, 'x');
  Database broken("sqlite:" + file, {}, environment());
  const Finding finding = worst(examine_database(broken), "reach");
  std::filesystem::remove(file);
  EXPECT_EQ(finding.level, Level::error);
  EXPECT_EQ(finding.fix, "check the address; if it is the right one, restore a backup");
}

TEST_P(SqliteDoctor, names_the_version_and_what_other_programs_must_do) {
  inbox();
  const Finding finding = worst(examine_database(database()), "version");
  EXPECT_EQ(finding.level, Level::ok);
  EXPECT_EQ(finding.found.find(std::string{"SQLite "} + sqlite3_libversion()), 0u) << finding.found;
  const bool affected = sqlite3_libversion_number() < 3'044'000;
  EXPECT_TRUE(!affected || finding.found.find("wal_autocheckpoint = 0") != std::string::npos);
}

TWINBOX_ON_BACKENDS(SqliteDoctor, Backend::sqlite_file);

}  // namespace
}  // namespace twinbox::test
