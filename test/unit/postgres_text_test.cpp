#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "driver/postgres/address.hpp"
#include "driver/postgres/text_format.hpp"

namespace twinbox {
namespace {

using postgres::parse_address;
using postgres::Pooler;
using postgres::read_bytes;
using postgres::read_instant;

Instant at(std::int64_t micros) { return Instant{std::chrono::microseconds{micros}}; }

std::string as_text(const Value& value) {
  std::string text;
  postgres::append_text(text, value);
  return text;
}

TEST(PostgresAddress, keeps_the_pooler_word_from_libpq) {
  const auto uri =
      parse_address("postgresql://u:secret@h:1/d?twinbox_pooler=transaction&sslmode=verify-full");
  EXPECT_EQ(uri.pooler, Pooler::transaction);
  EXPECT_EQ(uri.settings.at("sslmode"), "verify-full");
  EXPECT_FALSE(uri.settings.contains("twinbox_pooler"));
  const auto pairs =
      parse_address("host=h dbname='a b' twinbox_pooler = transaction user=u password='it\\'s'");
  EXPECT_EQ(pairs.pooler, Pooler::transaction);
  EXPECT_EQ(pairs.settings.at("dbname"), "a b");
  EXPECT_EQ(parse_address("postgresql://h/d").pooler, Pooler::unknown);
  EXPECT_EQ(parse_address("host=h twinbox_pooler=session").pooler, Pooler::session);
  EXPECT_THROW(parse_address("host=h twinbox_pooler=statement"), std::invalid_argument);
}

TEST(PostgresAddress, shows_no_password) {
  EXPECT_EQ(parse_address("postgresql://u:secret@h:1/d").shown, "postgresql://u@h:1/d");
  try {
    parse_address("postgresql://u:sec%ret@h:1/d");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(std::string_view{error.what()}.find("sec%"), std::string_view::npos) << error.what();
  }
}

TEST(PostgresAddress,
     a_server_that_has_gone_silently_is_noticed_unless_the_address_says_otherwise) {
  const auto settings = parse_address("postgresql://h/d").settings;
  EXPECT_EQ(settings.at("tcp_user_timeout"), "15000");
  EXPECT_EQ(settings.at("keepalives_idle"), "15");
  EXPECT_EQ(settings.at("keepalives_interval"), "5");
  EXPECT_EQ(settings.at("keepalives_count"), "3");
  const auto own = parse_address("postgresql://h/d?tcp_user_timeout=0&keepalives_idle=60").settings;
  EXPECT_EQ(own.at("tcp_user_timeout"), "0");
  EXPECT_EQ(own.at("keepalives_idle"), "60");
}

TEST(PostgresAddress, has_defaults_that_can_be_overridden) {
  const auto plain = parse_address("postgresql://h/d").settings;
  EXPECT_EQ(plain.at("connect_timeout"), "10");
  EXPECT_EQ(plain.at("fallback_application_name"), "twinbox");
  EXPECT_EQ(plain.at("client_encoding"), "UTF8");
  EXPECT_EQ(parse_address("postgresql://h/d?connect_timeout=3").settings.at("connect_timeout"),
            "3");
}

/// A variable of the environment, while it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST(PostgresAddress, has_no_connect_timeout_of_its_own_where_the_environment_sets_one) {
  const Variable timeout{"PGCONNECT_TIMEOUT", "3"};
  EXPECT_FALSE(parse_address("postgresql://h/d").settings.contains("connect_timeout"));
  EXPECT_EQ(parse_address("postgresql://h/d?connect_timeout=5").settings.at("connect_timeout"),
            "5");
}

TEST(PostgresAddress, has_no_defaults_that_a_service_file_could_set) {
  const auto expect_none = [](const std::string& address) {
    const auto settings = parse_address(address).settings;
    for (const char* key : {"connect_timeout", "keepalives_idle", "keepalives_interval",
                            "keepalives_count", "tcp_user_timeout"})
      EXPECT_FALSE(settings.contains(key)) << address << ": " << key;
  };
  expect_none("service=north");
  expect_none("postgresql:///d?service=north");
  const Variable service{"PGSERVICE", "north"};
  expect_none("postgresql://h/d");
}

TEST(PostgresText, instants_are_written_and_read_over_the_whole_calendar) {
  for (const std::int64_t micros : {0L, 1L, -1L, 951'782'400'000'000L, -62'135'596'800'000'001L,
                                    253'402'300'800'000'000L, 9'000'000'000'000'000'000L}) {
    EXPECT_EQ(read_instant(as_text(at(micros))), at(micros)) << as_text(at(micros));
  }
  EXPECT_EQ(as_text(at(-1)), "1969-12-31 23:59:59.999999+00");
  EXPECT_EQ(as_text(Instant::max()), "infinity");
  EXPECT_EQ(read_instant("-infinity"), Instant::min());
  EXPECT_EQ(read_instant("2000-01-01 05:30:00.5+05:30"), at(946'684'800'500'000));
  EXPECT_EQ(read_instant("2000-01-01 00:00:00-00:00:01"), at(946'684'801'000'000));
  EXPECT_EQ(read_instant("0001-01-01 00:00:00+00 BC"), at(-62'167'219'200'000'000));
}

TEST(PostgresText, another_date_style_is_not_taken_for_iso) {
  for (const auto* text :
       {"01/02/2000 00:00:00 UTC", "Sat Jan 01 00:00:00 2000 UTC", "01.02.2000 00:00:00 UTC", "",
        "2000-01-01 00:00:00 UTC", "2000-13-01 00:00:00+00"}) {
    EXPECT_FALSE(read_instant(text)) << text;
  }
}

TEST(PostgresText, bytes_are_read_in_both_forms) {
  EXPECT_EQ(read_bytes("\\x00ff41"), (std::string{"\0\377A", 3}));
  EXPECT_EQ(read_bytes("a\\\\b\\000\\377"), (std::string{"a\\b\0\377", 5}));
  EXPECT_FALSE(read_bytes("\\x0"));
  EXPECT_FALSE(read_bytes("\\9"));
}

TEST(PostgresText, arrays_are_quoted) {
  const std::vector<Value> values{std::string_view{"a\"b\\c,{}"}, Value{},
                                  std::string_view{"NULL"}};
  std::string text;
  postgres::append_array_literal(text, Arg{"x", ValueType::text, values});
  EXPECT_EQ(text, R"({"a\"b\\c,{}",NULL,"NULL"})");
  text.clear();
  postgres::append_array_literal(text, Arg{"x", ValueType::text, {}});
  EXPECT_EQ(text, "{}");
}

}  // namespace
}  // namespace twinbox
