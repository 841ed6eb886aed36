// What the SQL Server driver makes of addresses, errors and values; no server is needed for it.
#include <cstdlib>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "driver/sqlserver/address.hpp"
#include "driver/sqlserver/batch.hpp"
#include "driver/sqlserver/connect.hpp"
#include "driver/sqlserver/failure.hpp"
#include "driver/sqlserver/parameters.hpp"

namespace twinbox::sqlserver {
namespace {

using Kind = DatabaseError::Kind;

TEST(SqlServerAddress, a_url_becomes_a_connection_string) {
  const auto address = parse_address(
      "sqlserver://app:s%3Bcr%7Dt@db.example:1444/or%20ders?driver=FreeTDS&Encrypt=yes");
  EXPECT_EQ(address.connection_string,
            "Driver=FreeTDS;Server={db.example,1444};Database={or ders};UID=app;PWD={s;cr}}t};"
            "Encryption=require;TDS_Version=7.4;ClientCharset=UTF-8;APP=twinbox;");
  EXPECT_EQ(address.shown, "sqlserver://app@db.example:1444/or ders");
  EXPECT_EQ(address.server, "db.example:1444");
  EXPECT_EQ(address.database, "or ders");
}

TEST(SqlServerAddress, a_url_needs_no_port_no_user_and_no_database) {
  const auto address = parse_address("sqlserver://[::1]?driver=X&Trusted_Connection=yes");
  EXPECT_EQ(address.connection_string,
            "Driver=X;Server={[::1],1433};Trusted_Connection=yes;APP=twinbox;");
  EXPECT_EQ(address.shown, "sqlserver://@[::1]:1433/");
}

TEST(SqlServerAddress, a_connection_string_stays_what_it_is_and_hides_its_password) {
  const auto address = parse_address(
      "Driver={ODBC Driver 18 for SQL Server};Server=tcp:db,1433;UID=sa;PWD={a;}}b}; "
      "Database=orders;APP=mine");
  EXPECT_EQ(address.connection_string,
            "Driver={ODBC Driver 18 for SQL Server};Server={tcp:db,1433};UID=sa;PWD={a;}}b};"
            "Database=orders;APP=mine;");
  EXPECT_EQ(address.shown, "sqlserver://sa@db:1433/orders");
  EXPECT_EQ(parse_address("DSN=orders;PWD=x").shown, "sqlserver://@orders/");
}

TEST(SqlServerAddress, the_password_may_stand_in_a_file_or_in_the_environment) {
  const std::string file = ::testing::TempDir() + "twinbox_password";
  std::ofstream{file} << "from a file\n";
  const std::string url = "sqlserver://app@db/x?driver=X";
  EXPECT_NE(parse_address(url + "&twinbox_password_file=" + file)
                .connection_string.find("PWD={from a file}"),
            std::string::npos);
  std::remove(file.c_str());
  EXPECT_THROW(parse_address(url + "&twinbox_password_file=" + file), std::invalid_argument);
  ASSERT_EQ(::setenv("SQLCMDPASSWORD", "known", 1), 0);
  EXPECT_NE(parse_address(url).connection_string.find("PWD=known"), std::string::npos);
  EXPECT_EQ(parse_address("sqlserver://db/x?driver=X").connection_string.find("PWD"),
            std::string::npos)
      << "without a user there is nothing to log in with";
  ::unsetenv("SQLCMDPASSWORD");
}

TEST(SqlServerAddress, what_cannot_be_understood_is_refused_without_showing_it) {
  for (const char* wrong : {"sqlserver://", "sqlserver://secret@:1433/x",
                            "sqlserver://secret@host:port/x", "sqlserver://se%zzcret@host/x",
                            "sqlserver://host/x?secret", "Driver={secret", "Driver=X;secret"}) {
    try {
      parse_address(wrong);
      ADD_FAILURE() << wrong;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string_view{error.what()}.find("secret"), std::string_view::npos)
          << error.what();
    }
  }
}

TEST(SqlServerAddress, encryption_is_asked_for_in_the_words_of_the_driver) {
  const auto words = [](std::string_view driver, std::string_view setting) {
    const std::string head = "Driver={" + std::string{driver} + "};Server=db;";
    const std::string text = parse_address(head + std::string{setting}).connection_string;
    const auto at = text.find("Encrypt");
    return text.substr(at, text.find(';', at) - at);
  };
  EXPECT_EQ(words("FreeTDS", "encrypt=Mandatory"), "Encryption=require");
  EXPECT_EQ(words("libtdsodbc.so", "Encrypt=no"), "Encryption=request");
  EXPECT_EQ(words("FreeTDS", "Encrypt=strict"), "Encryption=strict");
  EXPECT_EQ(words("FreeTDS", "Encrypt=yes;TrustServerCertificate=yes"), "Encryption=require");
  EXPECT_EQ(words("ODBC Driver 18 for SQL Server", "Encrypt=strict"), "Encrypt=strict");
  EXPECT_EQ(words("ODBC Driver 18 for SQL Server", "Encrypt=yes;TrustServerCertificate=no"),
            "Encrypt=yes");
}

TEST(SqlServerAddress, a_section_of_freetds_conf_takes_the_place_of_the_server) {
  const auto address =
      parse_address("sqlserver://app:x@db/shop?driver=FreeTDS&Servername=Section&Encrypt=yes");
  EXPECT_EQ(address.connection_string,
            "Driver=FreeTDS;Database=shop;UID=app;PWD=x;Servername=Section;Encryption=require;"
            "TDS_Version=7.4;ClientCharset=UTF-8;APP=twinbox;");
  EXPECT_EQ(address.shown, "sqlserver://app@Section:1433/shop");
}

TEST(SqlServerAddress, a_check_of_the_certificate_that_freetds_would_pass_over_is_refused) {
  try {
    parse_address("sqlserver://app@db/x?driver=FreeTDS&Encrypt=yes&TrustServerCertificate=no");
    FAIL() << "it was taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string_view{error.what()}.find("Servername="), std::string_view::npos)
        << error.what();
  }
}

TEST(SqlServerAddress, is_told_from_the_addresses_of_others) {
  EXPECT_TRUE(is_address("sqlserver://host"));
  EXPECT_TRUE(is_address("server=x; DRIVER={FreeTDS}"));
  EXPECT_TRUE(is_address("dsn=orders"));
  EXPECT_FALSE(is_address("host=x dbname=driver=y"));
  EXPECT_FALSE(is_address("postgresql://host/x?application_name=driver"));
  EXPECT_FALSE(is_address("sqlite:driver.db"));
}

TEST(SqlServerFailure, the_servers_numbers_become_kinds) {
  const std::pair<std::int32_t, Kind> known[] = {
      {208, Kind::missing_schema},   {2812, Kind::missing_schema},   {1205, Kind::contention},
      {1222, Kind::contention},      {3960, Kind::contention},       {2627, Kind::invalid_request},
      {2601, Kind::invalid_request}, {547, Kind::invalid_request},   {515, Kind::invalid_request},
      {18456, Kind::permission},     {229, Kind::permission},        {9002, Kind::out_of_space},
      {3906, Kind::read_only},       {824, Kind::corrupt},           {40613, Kind::connection_lost},
      {51205, Kind::contention},     {51022, Kind::invalid_request}, {4060, Kind::connection_lost}};
  for (const auto& [native, kind] : known) {
    EXPECT_EQ(kind_of({.sqlstate = "42000", .native = native}), kind) << native;
  }
}

TEST(SqlServerFailure, odbc_states_decide_where_the_number_is_unknown) {
  const std::pair<const char*, Kind> known[] = {{"08S01", Kind::connection_lost},
                                                {"08001", Kind::connection_lost},
                                                {"", Kind::connection_lost},
                                                {"HYT00", Kind::cancelled},
                                                {"HY008", Kind::cancelled},
                                                {"40001", Kind::contention},
                                                {"28000", Kind::permission},
                                                {"23000", Kind::invalid_request},
                                                {"HY000", Kind::other}};
  for (const auto& [state, kind] : known) {
    EXPECT_EQ(kind_of({.sqlstate = state, .native = 33557097}), kind) << state;
  }
}

TEST(SqlServerFailure, a_handshake_that_fails_has_a_way_out) {
  const auto error =
      failure("connect", {"08001", 0, "Unable to connect to data source"}, "db", true);
  EXPECT_EQ(error.kind(), Kind::connection_lost);
  EXPECT_NE(std::string_view{error.what()}.find("certificate"), std::string_view::npos)
      << error.what();
}

TEST(SqlServerFailure, babelfish_tells_some_kinds_by_its_words) {
  EXPECT_EQ(kind_of({"42000", 33557097, "canceling statement due to lock timeout"}),
            Kind::contention);
  EXPECT_EQ(kind_of({"42000", 33557097, "permission denied for table x"}), Kind::permission);
  EXPECT_EQ(kind_of({"42000", 8134, "permission denied for table x"}), Kind::invalid_request);
  EXPECT_EQ(kind_of({"42000", 33557097, "relation \"infra.x\" does not exist"}),
            Kind::missing_schema);
  EXPECT_EQ(kind_of({"42000", 33557097, "syntax error near 'does not exist'"}),
            Kind::invalid_request);
}

TEST(SqlServerFailure, names_the_way_out_and_shows_no_value) {
  const auto missing =
      failure("claim", {"42S02", 208, "Invalid object name 'infra.outbox_work'."}, "db", true);
  EXPECT_EQ(std::string_view{missing.what()},
            "claim: Invalid object name 'infra.outbox_work'. deploy the schema first, or correct "
            "the schema and table names in the options (db)");
  EXPECT_EQ(missing.native_code(), "208");
  const auto twice = failure(
      "execute",
      {"23000", 2627, "Violation of PRIMARY KEY constraint 'k'. The duplicate key value is (joe)."},
      "db", false);
  EXPECT_EQ(std::string_view{twice.what()}.find("joe"), std::string_view::npos) << twice.what();
  EXPECT_NE(std::string_view{twice.what()}.find("'k'"), std::string_view::npos) << twice.what();
  const auto wrong =
      failure("execute",
              {"22018", 245, "Conversion failed when converting the nvarchar value 'joe' to int."},
              "", false);
  EXPECT_EQ(std::string_view{wrong.what()},
            "execute: Conversion failed when converting the nvarchar value '…' to int.");
}

TEST(SqlServerTransactionWords, are_refused_and_savepoints_are_not) {
  for (const char* refused :
       {"commit", " COMMIT TRANSACTION x", "/* x */ rollback", "rollback tran", "begin transaction",
        "Begin Tran", "rollback work -- all"}) {
    EXPECT_THROW(check_transaction_words(refused), UsageError) << refused;
  }
  for (const char* taken : {"save transaction x", "rollback transaction x", "begin select 1 end",
                            "select 'commit'", ""}) {
    EXPECT_NO_THROW(check_transaction_words(taken)) << taken;
  }
}

TEST(SqlServerRows, are_one_text_and_the_bytes_behind_each_other) {
  const Value ids[] = {std::int64_t{7}, std::int64_t{8}};
  const Value names[] = {std::string_view{"a\"b"}, Value{}};
  const Value payloads[] = {Bytes{std::string_view{"\0x", 2}}, Bytes{"yz"}};
  const Value hashes[] = {Value{}, Bytes{""}};
  const Value flags[] = {true, false};
  const Value times[] = {Instant{std::chrono::microseconds{1}}, Value{}};
  const Value owners[] = {Uuid::parse("00000000-0000-4000-8000-00000000000a"), Value{}};
  const Arg args[] = {{"id", ValueType::integer, ids},         {"name", ValueType::text, names},
                      {"payload", ValueType::bytes, payloads}, {"hash", ValueType::bytes, hashes},
                      {"flag", ValueType::boolean, flags},     {"at", ValueType::instant, times},
                      {"owner", ValueType::uuid, owners},      {"limit", 10}};
  const Rows rows{args, "claim"};
  EXPECT_EQ(rows.count, 2u);
  EXPECT_EQ(rows.json,
            R"([{"n":0,"id":7,"name":"a~qb","payload_at":1,"payload_size":2,"hash_at":null,)"
            R"("hash_size":null,"flag":true,"at":"1970-01-01T00:00:00.000001",)"
            R"("owner":"00000000-0000-4000-8000-00000000000a"},)"
            R"({"n":1,"id":8,"name":null,"payload_at":3,"payload_size":2,"hash_at":5,)"
            R"("hash_size":0,"flag":false,"at":null,"owner":null}])");
  EXPECT_EQ(rows.bytes, std::string_view("\0xyz", 4));
}

TEST(SqlServerRows, hold_no_text_that_JSON_must_escape) {
  const Value texts[] = {std::string_view{"~q \"\\\n\r\t~"}};
  const Arg args[] = {{"x", ValueType::text, texts}};
  EXPECT_EQ(Rows(args, "ack").json, R"([{"n":0,"x":"~tq ~q~b~n~r~i~t"}])");
}

TEST(SqlServerRows, columns_of_different_length_are_refused) {
  const Value two[] = {std::int64_t{7}, std::int64_t{8}};
  const Arg args[] = {{"id", ValueType::integer, two},
                      {"epoch", ValueType::integer, std::span{two}.first(1)}};
  EXPECT_THROW(Rows(args, "ack"), std::logic_error);
}

TEST(SqlServerTime, is_kept_to_the_microsecond_and_never_is_the_end_of_the_calendar) {
  const Instant moment{std::chrono::microseconds{1'794'797'400'123'456}};
  EXPECT_EQ(from_timestamp(to_timestamp(moment)), moment);
  EXPECT_EQ(to_text(to_timestamp(moment), 'T'), "2026-11-16T02:50:00.123456");
  const Instant before_1970{std::chrono::microseconds{-1}};
  EXPECT_EQ(to_text(to_timestamp(before_1970), ' '), "1969-12-31 23:59:59.999999");
  EXPECT_EQ(from_timestamp(to_timestamp(before_1970)), before_1970);
  EXPECT_EQ(from_timestamp(to_timestamp(Instant::max())), Instant::max());
  EXPECT_EQ(from_timestamp(to_timestamp(Instant::min())), Instant::min());
}

TEST(SqlServerText, goes_to_utf_16_and_back) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  std::string back;
  append_utf8(back, to_utf16(text));
  EXPECT_EQ(back, text);
  EXPECT_EQ(to_utf16(text).size(), 5u);
  std::string mended;
  append_utf8(mended, std::u16string{0xd83d, u'a', 0xde00});
  EXPECT_EQ(mended,
            "\xEF\xBF\xBD"
            "a"
            "\xEF\xBF\xBD");
}

}  // namespace
}  // namespace twinbox::sqlserver
