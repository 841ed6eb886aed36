// The at-most-once gate between processes.
#include <atomic>
#include <numeric>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "end_to_end/concurrency/shared_store.hpp"
#include <twinbox/inbox.hpp>

namespace twinbox::test {
namespace {

constexpr int processes = 4;
constexpr int threads = 2;
constexpr int messages = 40;

BoxOptions options_of(const TestStore& test_store) {
  BoxOptions options;
  options.schema = test_store.schema();
  options.deploy_schema = true;
  return options;
}

/// What one process does: its threads race for every message. Returns how many it has handled.
int handle_all(const TestStore& test_store) {
  Database database(test_store.address());
  Inbox inbox(database, options_of(test_store));
  AtMostOnce gate{inbox};
  std::atomic<int> handled = 0;
  {
    std::vector<std::jthread> consumers;
    for (int i = 0; i < threads; ++i) {
      consumers.emplace_back([&] {
        for (int id = 0; id < messages; ++id)
          gate.run({Source{"shop"}, MessageId{std::to_string(id)}}, [&] { ++handled; });
      });
    }
  }
  return handled;
}

class GateProcesses : public ::testing::TestWithParam<Backend> {
 protected:
  GateProcesses() { skip_without_server(GetParam()); }
};

TEST_P(GateProcesses, MBH_12_of_many_threads_in_many_processes_exactly_one_handles_a_message) {
  const TestStore test_store(GetParam());
  {
    Database database(test_store.address());
    const Inbox deployed(database, options_of(test_store));
  }
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int handled = 255;  // an error
      try {
        handled = handle_all(test_store);
      } catch (...) {
      }
      _exit(handled);
    }
    children.push_back(child);
  }
  std::vector<int> handled;
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    handled.push_back(WEXITSTATUS(status));
  }
  EXPECT_EQ(std::accumulate(handled.begin(), handled.end(), 0), messages);
}

TWINBOX_ON_BACKENDS(GateProcesses, Backend::sqlite_file, Backend::postgres, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
