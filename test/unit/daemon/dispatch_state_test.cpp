#include "daemon/dispatch/dispatch_state.hpp"

#include <fstream>
#include <iterator>
#include <unistd.h>

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

class DispatchStateFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("twinbox_switches_" + std::to_string(getpid()));
  const std::filesystem::path file_ = folder_ / "twinbox.dispatch_state";
};

const DispatchState some{.paused = true,
                         .stores = {"main"},
                         .topics = {"order.placed", "ä\"\\"},
                         .routes = {{{BoxKind::outbox, "r"}, "gone"}, {{BoxKind::inbox, "r"}, ""}}};

TEST_F(DispatchStateFileTest, what_is_written_is_read_at_the_next_start) {
  {
    DispatchStateFile board{file_, {}};
    EXPECT_EQ(board.now(), DispatchState{});
    board.change([](DispatchState& dispatch_state) { dispatch_state = some; });
  }
  EXPECT_EQ((DispatchStateFile{file_, {}}.now()), some);
  EXPECT_EQ(std::filesystem::status(file_).permissions() & std::filesystem::perms::others_all,
            std::filesystem::perms::none);
}

TEST_F(DispatchStateFileTest, nothing_is_written_unless_something_changes) {
  DispatchStateFile board{file_, {}};
  board.change([](DispatchState&) {});
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(DispatchStateFileTest, one_that_is_damaged_or_of_another_version_is_put_aside) {
  const std::string good = to_json(some);
  std::string other = good;
  other.replace(other.find("\"version\":1"), 11, "\"version\":2");
  for (const std::string& bad :
       {good.substr(0, good.size() / 2), other, std::string{"[]"}, std::string{""}}) {
    std::ofstream{file_} << bad;
    EXPECT_EQ((DispatchStateFile{file_, {}}.now()), DispatchState{}) << bad;
    EXPECT_FALSE(std::filesystem::exists(file_));
    std::ifstream aside{file_.string() + ".damaged"};
    EXPECT_EQ((std::string{std::istreambuf_iterator<char>{aside}, {}}), bad);
  }
}

TEST_F(DispatchStateFileTest, one_that_cannot_be_written_is_told_and_the_change_holds) {
  std::vector<std::string> told;
  Environment environment;
  environment.log = [&](const LogEvent& event) { told.emplace_back(event.name); };
  DispatchStateFile board{folder_ / "none" / "file", environment};
  board.change([](DispatchState& dispatch_state) { dispatch_state.paused = true; });
  EXPECT_TRUE(board.now().paused);
  EXPECT_EQ(told, std::vector<std::string>{"dispatch_state_not_saved"});
}

}  // namespace
}  // namespace twinbox::app
