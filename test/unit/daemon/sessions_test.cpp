#include "daemon/access/sessions.hpp"

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

class SessionsTest : public testing::Test {
 protected:
  Sessions::Clock::time_point now_ = {};
  Sessions sessions_{[this] { return now_; }};
};

TEST_F(SessionsTest, one_stands_for_its_token_until_it_ends) {
  const std::string id = sessions_.begin("hash");
  EXPECT_EQ(id.size(), 64u);  // 256 bits
  EXPECT_NE(sessions_.begin("hash"), id);
  EXPECT_EQ(sessions_.find(id), "hash");
  EXPECT_FALSE(sessions_.find("hash"));
  EXPECT_FALSE(sessions_.find(""));
  sessions_.end(id);
  EXPECT_FALSE(sessions_.find(id));
}

TEST_F(SessionsTest, one_that_is_not_used_ends_and_one_that_is_used_ends_later) {
  sessions_.set({.session_time = 24h, .session_idle = 1h});
  const std::string idle = sessions_.begin("hash");
  const std::string busy = sessions_.begin("hash");
  for (int i = 0; i < 47; ++i) {
    now_ += 30min;
    ASSERT_TRUE(sessions_.find(busy)) << i;
  }
  EXPECT_FALSE(sessions_.find(idle));
  now_ += 30min;
  EXPECT_FALSE(sessions_.find(busy));
}

TEST_F(SessionsTest, one_that_is_only_looked_at_ends_as_if_it_were_not_used) {
  sessions_.set({.session_time = 24h, .session_idle = 1h});
  const std::string id = sessions_.begin("hash");
  now_ += 50min;
  EXPECT_EQ(sessions_.peek(id), "hash");
  now_ += 10min;
  EXPECT_FALSE(sessions_.peek(id));
  EXPECT_FALSE(sessions_.find(id));
}

TEST_F(SessionsTest, logins_that_fail_are_refused_when_they_are_too_many) {
  int tried = 0;
  using enum Sessions::Failed;
  while (sessions_.count_failed_login() == counted) ASSERT_LT(++tried, 100);
  EXPECT_EQ(tried, Sessions::max_failed_at_once);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(sessions_.count_failed_login(), rejected);
  now_ += Sessions::time_per_failed_login;
  EXPECT_EQ(sessions_.count_failed_login(), counted);
  EXPECT_EQ(sessions_.count_failed_login(), first_rejected);
  EXPECT_EQ(sessions_.count_failed_login(), rejected);
  now_ += 1h;
  for (int i = 0; i < Sessions::max_failed_at_once; ++i) {
    EXPECT_EQ(sessions_.count_failed_login(), counted) << i;
  }
  EXPECT_EQ(sessions_.count_failed_login(), first_rejected);
}

TEST_F(SessionsTest, a_login_that_succeeds_gives_no_credit_to_those_that_fail) {
  for (int i = 0; i < 100; ++i) sessions_.begin("hash");
  for (int i = 0; i < Sessions::max_failed_at_once; ++i) {
    EXPECT_EQ(sessions_.count_failed_login(), Sessions::Failed::counted) << i;
  }
  EXPECT_EQ(sessions_.count_failed_login(), Sessions::Failed::first_rejected);
}

TEST_F(SessionsTest, a_token_has_so_many_and_takes_none_from_others) {
  const std::string other = sessions_.begin("other");
  std::vector<std::string> ids;
  for (std::size_t i = 0; i <= Sessions::max_per_token; ++i) {
    now_ += 1s;
    ids.push_back(sessions_.begin("hash"));
  }
  EXPECT_FALSE(sessions_.find(ids[0]));
  EXPECT_TRUE(sessions_.find(ids[1]));
  EXPECT_TRUE(sessions_.find(ids.back()));
  EXPECT_TRUE(sessions_.find(other));
}

TEST_F(SessionsTest, those_of_a_token_that_is_gone_end) {
  const std::string kept = sessions_.begin("a"), gone = sessions_.begin("b");
  const std::string code = sessions_.make_code("b");
  sessions_.keep_only({{"x", Role::read, "a"}});
  EXPECT_TRUE(sessions_.find(kept));
  EXPECT_FALSE(sessions_.find(gone));
  EXPECT_FALSE(sessions_.redeem_code(code));
}

TEST_F(SessionsTest, a_code_counts_once) {
  const std::string code = sessions_.make_code("hash");
  EXPECT_FALSE(sessions_.redeem_code("once_"));
  EXPECT_FALSE(sessions_.find(code));
  EXPECT_EQ(sessions_.redeem_code(code), "hash");
  EXPECT_FALSE(sessions_.redeem_code(code));
}

TEST_F(SessionsTest, a_code_is_worth_nothing_after_a_quarter_of_an_hour) {
  const std::string used = sessions_.make_code("hash"), late = sessions_.make_code("hash");
  now_ += 15min - 1s;
  EXPECT_EQ(sessions_.redeem_code(used), "hash");
  now_ += 1s;
  EXPECT_FALSE(sessions_.redeem_code(late));
}

}  // namespace
}  // namespace twinbox::app
