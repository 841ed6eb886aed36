#include "daemon/config/secrets.hpp"

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

TEST(Secrets, of_an_address_scheme_and_host_are_shown) {
  remember_secret("https://hooks.test/services/AB12CD34/x?key=5up3r");
  EXPECT_EQ(without_secrets("POST https://hooks.test/services/AB12CD34/x?key=5up3r: 500"),
            "POST https://hooks.test/…: 500");
  EXPECT_EQ(without_secrets("https://hooks.test/services/AB12CD34/x: refused"),
            "https://hooks.test/…: refused");
  EXPECT_EQ(without_secrets("no key=5up3r for AB12CD34"), "no [secret] for [secret]");
  EXPECT_EQ(without_secrets("topic=services"), "topic=services");
}

TEST(Secrets, a_path_of_letters_is_cut_whole_and_so_are_its_secret_segments) {
  remember_secret("https://a.test/hooks/AbCdEfGhIjKl");
  EXPECT_EQ(without_secrets("Cannot POST /hooks/AbCdEfGhIjKl"), "Cannot POST /…");
  EXPECT_EQ(without_secrets("no hook AbCdEfGhIjKl"), "no hook [secret]");
  remember_secret("https://b.test/hooks/zyxwvuts");
  EXPECT_EQ(without_secrets("Cannot POST /hooks/zyxwvuts"), "Cannot POST /…");
  EXPECT_EQ(without_secrets("Cannot POST /hooks/zyxw… (cut)"), "Cannot POST /…… (cut)");
  remember_secret("https://c.test/hooks/qwertzuiopas?page=onetwothree");
  EXPECT_EQ(without_secrets("no hook qwertzuiopas"), "no hook [secret]");
  EXPECT_EQ(without_secrets("/hooks/qwertzuiopas?page=onetwothree"), "/…?[secret]");
  remember_secret("https://d.test/x/Ab%43dEf");
  EXPECT_EQ(without_secrets("Cannot POST /x/AbCdEf"), "Cannot POST /…");
  remember_secret("https://e.test/orders");
  EXPECT_EQ(without_secrets("no route for orders at /orders"), "no route for orders at /orders");
  remember_secret("https://f.test/Webhook//x");
  EXPECT_EQ(without_secrets("Webhook at /Webhook//x"), "Webhook at /…");
}

TEST(Secrets, a_password_is_cut_in_both_its_forms_and_a_user_is_shown) {
  remember_secret("postgresql://keeper:w%40rd9@db.test:5432/app");
  EXPECT_EQ(without_secrets("keeper: w%40rd9 or w@rd9"), "keeper: [secret] or [secret]");
  EXPECT_EQ(without_secrets("postgresql://keeper:w%40rd9@db.test:5432/app"),
            "postgresql://db.test:5432/…");
  remember_secret("Driver=x;UID=me;Pwd = 0dbc-pw;");
  EXPECT_EQ(without_secrets("login of me with 0dbc-pw"), "login of me with [secret]");
  remember_secret("nats://t0k3nt0k3n@nats.test");
  EXPECT_EQ(without_secrets("t0k3nt0k3n"), "[secret]");
}

TEST(Secrets, of_an_authorization_the_credential_is_cut_without_its_scheme) {
  remember_secret("Bearer c0ffee-c0ffee");
  EXPECT_EQ(without_secrets("no such token: c0ffee-c0ffee"), "no such token: [secret]");
  EXPECT_EQ(without_secrets("Authorization: Bearer c0ffee-c0ffee"), "Authorization: [secret]");
  EXPECT_EQ(without_secrets("Bearer of news"), "Bearer of news");
  remember_secret("Basic YW5uYTpwdzEyMzQ1Ng==");
  EXPECT_EQ(without_secrets("got YW5uYTpwdzEyMzQ1Ng=="), "got [secret]");
}

TEST(Secrets, the_beginning_of_one_does_not_stay_where_an_error_was_cut) {
  remember_secret("b3ginn1ng-of-a-secret");
  EXPECT_EQ(without_secrets("401: b3ginn1ng-of-… (cut)"), "401: [secret]… (cut)");
  EXPECT_EQ(without_secrets("401: b3gi… (cut)"), "401: [secret]… (cut)");
  EXPECT_EQ(without_secrets("401: b3ginn1ng-of-"), "401: b3ginn1ng-of-");
  EXPECT_EQ(without_secrets("401: nothing… (cut)"), "401: nothing… (cut)");
  remember_secret("https://cut.test/services/Z9Y8X7W6?key=5up3r5up3r");
  EXPECT_EQ(without_secrets("POST https… (cut)"), "POST https… (cut)");
  EXPECT_EQ(without_secrets("no Z9Y8X… (cut)"), "no [secret]… (cut)");
}

TEST(Secrets, a_short_value_is_cut_where_it_stands_alone) {
  remember_secret("q7");
  EXPECT_EQ(without_secrets("q7 is no q77"), "[secret] is no q77");
}

}  // namespace
}  // namespace twinbox::app
