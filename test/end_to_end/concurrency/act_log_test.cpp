// The ledger itself: a double lease must not escape it.
#include "end_to_end/concurrency/act_log.hpp"

#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>

namespace twinbox::test {
namespace {

class Ledger : public ::testing::Test {
 protected:
  ~Ledger() override { std::filesystem::remove(file_); }

  /// One more process that claimed work 7, and perhaps began to settle it.
  void process(int epoch, int begin, int end, bool settles = false) {
    std::filesystem::remove(file_);
    const std::string name = "7 " + std::to_string(epoch);
    {
      const ActLog log(file_);
      log.write(Line::claimed, name + " " + std::to_string(begin) + " " + std::to_string(end));
      if (settles) log.write(Line::settling, name);
    }
    acts_.read(file_);
  }

  Acts acts_;

 private:
  const std::string file_ =
      std::filesystem::temp_directory_path() / ("ledger_" + std::to_string(getpid()));
};

using Found = std::vector<std::string>;

TEST_F(Ledger, knows_leases_that_follow_each_other) {
  process(1, 0, 100);
  process(2, 100, 200, true);
  process(3, 150, 250);
  EXPECT_EQ(acts_.double_leases(), Found{});
}

TEST_F(Ledger, finds_a_lease_that_began_before_the_last_had_ended) {
  process(1, 0, 100);
  process(2, 99, 199);
  EXPECT_EQ(acts_.double_leases(), Found{"work 7, epoch 2"});
}

TEST_F(Ledger, finds_a_lease_that_two_processes_were_given) {
  process(1, 0, 100, true);
  process(1, 300, 400, true);
  EXPECT_EQ(acts_.double_leases(), Found{"work 7, epoch 1, given twice"});
}

}  // namespace
}  // namespace twinbox::test
