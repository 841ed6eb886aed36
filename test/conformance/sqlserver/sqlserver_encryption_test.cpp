// Encrypted connections to SQL Server; where the variables name a server that has a certificate
// (docs/contributing/add_a_dialect.md).
#include <cstdlib>

#include "support/outbox_test.hpp"
#include <twinbox/inbox.hpp>

namespace twinbox::test {
namespace {

using Kind = DatabaseError::Kind;

class SqlServerEncryption : public OutboxTest {
 protected:
  void SetUp() override {
    if (std::getenv("TWINBOX_TEST_SQLSERVER_TLS") == nullptr ||
        std::getenv("TWINBOX_TEST_SQLSERVER_TLS_WRONG_CA") == nullptr) {
      GTEST_SKIP() << "TWINBOX_TEST_SQLSERVER_TLS and TWINBOX_TEST_SQLSERVER_TLS_WRONG_CA are "
                      "not set";
    }
  }

  void is_used_encrypted(const std::string& address) {
    Database database(address, {}, environment());
    Outbox outbox(database, options());
    outbox.enqueue(a_message());
    EXPECT_EQ(outbox.claim(worker_a, 30s, 10).size(), 1u);
    Inbox inbox(database, options());
    EXPECT_EQ(inbox.accept(an_arrival()).state, Acceptance::accepted);
    std::string encrypted;
    database.in_transaction([&](Session& session) {
      session.execute(
          "select encrypt_option from sys.dm_exec_connections where session_id = @@spid", {},
          [&](const Row& row) { encrypted = row.text(0); });
    });
    EXPECT_EQ(encrypted, "TRUE");
  }
};

TEST_P(SqlServerEncryption, OBX_107_a_connection_with_a_checked_certificate_works) {
  REQUIREMENT("IBX-128");
  is_used_encrypted(std::getenv("TWINBOX_TEST_SQLSERVER_TLS"));
}

TEST_P(SqlServerEncryption, OBX_107_an_address_that_asks_for_it_gets_it) {
  REQUIREMENT("IBX-128");
  is_used_encrypted(test_store().address() + ";Encrypt=yes;TrustServerCertificate=yes");
}

TEST_P(SqlServerEncryption, OBX_107_a_certificate_of_somebody_else_is_refused) {
  REQUIREMENT("IBX-128");
  Database database(std::getenv("TWINBOX_TEST_SQLSERVER_TLS_WRONG_CA"), {.retries = 0});
  try {
    database.in_transaction([](Session&) {});
    FAIL() << "it was taken";
  } catch (const DatabaseError& error) {
    EXPECT_EQ(error.kind(), Kind::connection_lost) << error.what();
    EXPECT_NE(std::string_view{error.what()}.find("certificate"), std::string_view::npos)
        << error.what();
  }
}

TWINBOX_ON_BACKENDS(SqlServerEncryption, Backend::sqlserver);

}  // namespace
}  // namespace twinbox::test
