#include <cstdint>

#include <twinbox/database.hpp>

int main() {
  twinbox::Database database{"sqlite::memory:"};
  std::int64_t total = 0;
  database.in_transaction([&](twinbox::Session& session) {
    session.execute("create table purchase (amount integer)");
    session.execute("insert into purchase values (@amount)", {{"amount", 42}});
    session.execute("select sum(amount) from purchase", {},
                    [&](const twinbox::Row& row) { total = row.integer(0); });
  });
  return total == 42 ? 0 : 1;
}
