#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "database/open_driver.hpp"

namespace twinbox {
namespace {

Driver::Location location_of(const std::string& address) {
  auto location = open_driver(address, {}, {})->location();
  EXPECT_EQ((location.server + location.database).find("hidden"), std::string::npos);
  return location;
}

#if TWINBOX_POSTGRES
TEST(PostgresLocation, is_host_and_port_and_the_name_of_the_database) {
  for (const char* address :
       {"postgresql://me:hidden@db1:5433/orders", "postgres://you@db1:5433/orders?sslmode=require",
        "host=db1 port=5433 dbname=orders user=me password=hidden"}) {
    const auto location = location_of(address);
    EXPECT_EQ(location.server, "db1:5433") << address;
    EXPECT_EQ(location.database, "orders") << address;
  }
  EXPECT_EQ(location_of("postgresql://me@db1/orders?port=5433").server, "db1:5433");
  EXPECT_NE(location_of("postgresql://me@db1:5434/orders").server, "db1:5433");
}

TEST(PostgresLocation, is_the_service_where_only_libpq_knows_more) {
  const auto location = location_of("service=orders user=me password=hidden");
  EXPECT_EQ(location.server, "service orders");
  EXPECT_EQ(location.database, "") << "two services may lead to different databases";
}
#endif

#if TWINBOX_SQLITE
TEST(SqliteLocation, is_the_file_by_whatever_path) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("twinbox_place_" + std::to_string(std::random_device{}()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "orders.db").flush();
  std::filesystem::create_symlink(folder / "orders.db", folder / "link.db");
  const auto location = location_of("sqlite:" + (folder / "orders.db").string());
  EXPECT_EQ(location.server, "files");
  EXPECT_EQ(location_of("sqlite:" + (folder / "link.db").string()).database, location.database);
  EXPECT_EQ(location_of("sqlite:" + (folder / "x" / ".." / "orders.db").string()).database,
            location.database);
  EXPECT_NE(location_of("sqlite:" + (folder / "other.db").string()).database, location.database);
  std::filesystem::remove_all(folder);
}

TEST(SqliteLocation, is_nowhere_in_memory) {
  EXPECT_EQ(location_of("sqlite::memory:").server, "");
  EXPECT_EQ(location_of("sqlite::memory:").database, "");
}
#endif

}  // namespace
}  // namespace twinbox
