#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "database/open_driver.hpp"

namespace twinbox {
namespace {

Driver::Place place_of(const std::string& address) {
  auto place = open_driver(address, {}, {})->place();
  EXPECT_EQ((place.server + place.database).find("hidden"), std::string::npos);
  return place;
}

#if TWINBOX_POSTGRES
TEST(PostgresPlace, is_host_and_port_and_the_name_of_the_database) {
  for (const char* address :
       {"postgresql://me:hidden@db1:5433/orders", "postgres://you@db1:5433/orders?sslmode=require",
        "host=db1 port=5433 dbname=orders user=me password=hidden"}) {
    const auto place = place_of(address);
    EXPECT_EQ(place.server, "db1:5433") << address;
    EXPECT_EQ(place.database, "orders") << address;
  }
  EXPECT_EQ(place_of("postgresql://me@db1/orders?port=5433").server, "db1:5433");
  EXPECT_NE(place_of("postgresql://me@db1:5434/orders").server, "db1:5433");
}

TEST(PostgresPlace, is_the_service_where_only_libpq_knows_more) {
  const auto place = place_of("service=orders user=me password=hidden");
  EXPECT_EQ(place.server, "service orders");
  EXPECT_EQ(place.database, "") << "two services may lead to different databases";
}
#endif

#if TWINBOX_SQLITE
TEST(SqlitePlace, is_the_file_by_whatever_path) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("twinbox_place_" + std::to_string(std::random_device{}()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "orders.db").flush();
  std::filesystem::create_symlink(folder / "orders.db", folder / "link.db");
  const auto place = place_of("sqlite:" + (folder / "orders.db").string());
  EXPECT_EQ(place.server, "files");
  EXPECT_EQ(place_of("sqlite:" + (folder / "link.db").string()).database, place.database);
  EXPECT_EQ(place_of("sqlite:" + (folder / "x" / ".." / "orders.db").string()).database,
            place.database);
  EXPECT_NE(place_of("sqlite:" + (folder / "other.db").string()).database, place.database);
  std::filesystem::remove_all(folder);
}

TEST(SqlitePlace, is_nowhere_in_memory) {
  EXPECT_EQ(place_of("sqlite::memory:").server, "");
  EXPECT_EQ(place_of("sqlite::memory:").database, "");
}
#endif

}  // namespace
}  // namespace twinbox
