// Several processes on one store, some of them killed while they work.
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

#include "end_to_end/concurrency/act_log.hpp"
#include "end_to_end/concurrency/role.hpp"
#include "end_to_end/concurrency/shared_store.hpp"

namespace twinbox::test {
namespace {

constexpr int producers = 2;
constexpr int workers = 4;
constexpr int messages_each = 150;
constexpr int kills = 12;          // of workers
constexpr int producer_kills = 4;  // after every third of them

/// What the processes of a round do.
struct Load {
  Role producer, worker;
  int messages_each = twinbox::test::messages_each;
  int acts_between_kills = 8;
  int log_pages = 0;                      ///< as in RoleOptions
  std::function<void()> after_kill = {};  ///< while the others go on
};

struct Pipe {
  int read_end = -1, write_end = -1;

  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close(read_end);
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void close_write() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
};

class Processes : public ::testing::TestWithParam<Backend> {
 protected:
  Processes() { skip_without_server(GetParam()); }

  /// Producers and workers run and are killed and replaced; a new producer sends everything once
  /// more, since nobody knows how far the last one had come. Returns what all of them noted.
  Acts run(const TestStore& test_store, const Load& load) {
    logs_ = std::filesystem::temp_directory_path() / ("acts_" + std::to_string(getpid()));
    std::filesystem::remove_all(logs_);
    std::filesystem::create_directories(logs_);
    Pipe control, progress;
    const auto start = [&](Role role, std::uint64_t seed) {
      return start_role(
          {role, test_store.address(), test_store.schema(),
           (logs_ / std::to_string(++started_)).string(), seed, load.messages_each, load.log_pages},
          control.read_end, progress.write_end);
    };
    std::map<std::uint64_t, pid_t> making;  // by seed
    std::vector<pid_t> working;
    while (making.size() < producers) {
      const std::uint64_t seed = chance_();
      making[seed] = start(load.producer, seed);
    }
    for (int i = 0; i < workers; ++i) working.push_back(start(load.worker, chance_()));
    for (int killed = 1; killed <= kills; ++killed) {
      wait_for_acts(progress.read_end, load.acts_between_kills);
      pid_t& chosen = working[chance_() % working.size()];
      kill(chosen, SIGKILL);
      EXPECT_EQ(ended(chosen), "signal 9");
      chosen = start(load.worker, chance_());
      if (load.after_kill) load.after_kill();
      if (killed % (kills / producer_kills) != 0) continue;
      auto& [seed, process] = *std::next(making.begin(), killed % producers);
      // One that has come to its end begins again, and is caught then.
      for (std::string end; end != "signal 9"; process = start(load.producer, seed)) {
        wait_for_acts(progress.read_end, 1);
        kill(process, SIGKILL);
        end = ended(process);
      }
    }
    for (const auto& [seed, process] : making) EXPECT_EQ(ended(process), "code 0");
    control.close_write();
    progress.close_write();
    drain(progress.read_end);
    for (const pid_t process : working) EXPECT_EQ(ended(process), "code 0");
    Acts acts;
    for (const auto& file : std::filesystem::directory_iterator(logs_)) acts.read(file.path());
    std::filesystem::remove_all(logs_);
    return acts;
  }

  /// How many deliveries are in which state: 0 open, 1 done, 2 dead.
  static std::map<std::int64_t, std::size_t> count_states(const TestStore& test_store,
                                                          Backend backend, const std::string& box) {
    std::map<std::int64_t, std::size_t> counts;
    Database database(test_store.address());
    const std::string table =
        (backend == Backend::sqlite_file ? "" : "\"" + test_store.schema() + "\".") + box;
    database.in_transaction([&](Session& session) {
      session.execute("select 0, count(*) from " + table +
                          "_work union all select state, count(*) from " + table +
                          "_outcome group by state",
                      {}, [&](const Row& row) {
                        counts[row.integer(0)] = static_cast<std::size_t>(row.integer(1));
                      });
    });
    return counts;
  }

  template <class Box>
  static void deploy(const TestStore& test_store) {
    Database database(test_store.address());
    BoxOptions options;
    options.schema = test_store.schema();
    options.deploy_schema = true;
    const Box box(database, options);
  }

  static void check_integrity(Session& session) {
    session.execute("pragma integrity_check", {},
                    [&](const Row& row) { EXPECT_EQ(row.text(0), "ok"); });
  }

  /// Nothing is damaged, and every payload is what was written.
  static void expect_sound(const TestStore& test_store) {
    Database database(test_store.address());
    database.in_transaction([&](Session& session) {
      check_integrity(session);
      session.execute(
          "select count(*) from outbox_message where trim(cast(payload as text), 'x') <> '' or "
          "length(payload) <> 262144",
          {}, [&](const Row& row) { EXPECT_EQ(row.integer(0), 0) << "payloads that changed"; });
    });
  }

  /// The table has every id of the ledger, no other one, and each payload as it was written.
  static void compare(const std::multiset<std::string>& noted, Database& database) {
    std::set<std::string> missing(noted.begin(), noted.end());
    database.in_transaction([&](Session& session) {
      check_integrity(session);
      session.execute("select id, payload from outbox_message", {}, [&](const Row& row) {
        const std::string id{row.text(0)};
        EXPECT_EQ(missing.erase(id), 1u) << id << " is in the table, but not in the ledger";
        EXPECT_EQ(row.text(1), payload_of(id)) << id;
      });
    });
    EXPECT_EQ(missing, std::set<std::string>{}) << "in the ledger, but not in the table";
  }

  /// How often the log of a SQLite file began anew since it was created: each time all of it had
  /// been checkpointed. SQLite counts it in the log's header.
  static std::uint32_t begun_anew(const TestStore& test_store) {
    std::ifstream log{test_store.file() + "-wal", std::ios::binary};
    std::uint32_t count = 0;
    log.seekg(12);
    for (int i = 0; i < 4; ++i) count = count << 8 | static_cast<std::uint32_t>(log.get());
    EXPECT_TRUE(log.good());
    return count;
  }

  static void check(const Acts& acts, std::map<std::int64_t, std::size_t> states,
                    std::size_t expected) {
    EXPECT_EQ(states[0], 0u) << "deliveries that are still open";
    EXPECT_EQ(states[1] + states[2], expected) << "deliveries that are done or dead";
    EXPECT_EQ(acts.double_leases(), std::vector<std::string>{});
    const std::set<std::int64_t> once(acts.finished.begin(), acts.finished.end());
    EXPECT_EQ(once.size(), acts.finished.size()) << "deliveries finished twice";
    // A worker that is killed may have finished one without noting it, never the other way round.
    EXPECT_LE(acts.finished.size(), expected);
    EXPECT_GE(acts.finished.size() + kills, expected);
  }

 private:
  static void wait_for_acts(int progress, int count) {
    for (int i = 0; i < count; ++i) {
      char byte = 0;
      ASSERT_EQ(read(progress, &byte, 1), 1);
    }
  }

  /// Reads until the last worker has gone, so that none of them waits for us.
  static void drain(int progress) {
    char bytes[4096];
    while (read(progress, bytes, sizeof bytes) > 0) {
    }
  }

  static std::string ended(pid_t process) {
    int status = 0;
    if (waitpid(process, &status, 0) != process) return "lost";
    if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
    return "code " + std::to_string(WEXITSTATUS(status));
  }

  std::filesystem::path logs_;
  std::mt19937_64 chance_{std::random_device{}()};
  int started_ = 0;
};

class SqliteProcesses : public Processes {};

TEST_P(Processes, OBX_017_share_an_outbox_while_workers_and_producers_are_killed) {
  REQUIREMENT("OBX-019,OBX-051,OBX-081");
  campaign([&] {
    const TestStore test_store(GetParam());
    deploy<Outbox>(test_store);
    const Acts acts = run(test_store, {Role::enqueuer, Role::outbox_worker});
    EXPECT_EQ(std::set(acts.enqueued.begin(), acts.enqueued.end()).size(),
              std::size_t{producers * messages_each});
    check(acts, count_states(test_store, GetParam(), "outbox"), producers * messages_each);
  });
}

// Sixteen large messages fill what is checkpointed at once, so that checkpoints of some
// processes meet writes of others, and the death of either.
TEST_P(Processes, share_an_outbox_of_large_messages_whose_file_stays_sound) {
  campaign([&] {
    const TestStore test_store(GetParam());
    deploy<Outbox>(test_store);
    const Acts acts = run(test_store, {Role::large_enqueuer, Role::outbox_worker});
    check(acts, count_states(test_store, GetParam(), "outbox"), producers * messages_each);
    if (GetParam() == Backend::sqlite_file) expect_sound(test_store);
  });
}

// The conditions of SQLite's WAL-reset bug: every few pages a process checkpoints, while the others
// write and begin the log anew. A page that is lost is a payload that changed, or a damaged file.
TEST_P(SqliteProcesses, share_a_file_that_is_checkpointed_all_the_time) {
  constexpr int each = 1000;
  constexpr int least = 30;  // a tenth of what a loaded machine reaches
  std::uint32_t all = 0;
  campaign([&] {
    const TestStore test_store(GetParam());
    deploy<Outbox>(test_store);
    Database observer(test_store.address());  // keeps the log, and with it the count
    const auto look = [&] { observer.in_transaction(check_integrity); };
    look();
    const Acts acts = run(test_store, {.producer = Role::ledger_enqueuer,
                                       .worker = Role::outbox_worker,
                                       .messages_each = each,
                                       .acts_between_kills = 150,
                                       .log_pages = 8,
                                       .after_kill = look});
    compare(acts.enqueued, observer);
    check(acts, count_states(test_store, GetParam(), "outbox"), producers * each);
    const std::uint32_t count = begun_anew(test_store);
    EXPECT_GE(count, least) << "the log hardly ever began anew: nothing was tried";
    all += count;
  });
  RecordProperty("log_begun_anew", std::to_string(all));
}

TEST_P(Processes, IBX_030_share_an_inbox_that_gets_everything_again_while_all_are_killed) {
  REQUIREMENT("IBX-033,IBX-070,IBX-103");
  campaign([&] {
    const TestStore test_store(GetParam());
    deploy<Inbox>(test_store);
    const Acts acts = run(test_store, {Role::accepter, Role::inbox_worker});
    EXPECT_EQ(std::set(acts.accepted.begin(), acts.accepted.end()).size(), acts.accepted.size())
        << "accepted twice";
    // One that is killed may have had a message accepted without noting it.
    EXPECT_LE(acts.accepted.size(), std::size_t{messages_each});
    EXPECT_GE(acts.accepted.size() + producer_kills, std::size_t{messages_each});
    check(acts, count_states(test_store, GetParam(), "inbox"), messages_each);
  });
}

TWINBOX_ON_EVERY_SHARED_BACKEND(Processes);
TWINBOX_ON_BACKENDS(SqliteProcesses, Backend::sqlite_file);

}  // namespace
}  // namespace twinbox::test
