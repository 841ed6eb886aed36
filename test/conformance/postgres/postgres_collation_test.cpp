// A database that sorts text by a language, where every way in still locks in one order.
#include "support/backend.hpp"
#include "support/postgres.hpp"

namespace twinbox::test {
namespace {

/// A database of the test's own in which `a` comes before `B`. Dropped by the destructor.
class EnglishDatabase {
 public:
  EnglishDatabase(const std::string& address, std::string name)
      : admin_(address), name_(std::move(name)), address_(address) {
    admin_.run("create database " + name_ +
               " template template0 encoding 'UTF8' locale 'C.UTF-8' locale_provider icu "
               "icu_locale 'en'");
    const std::size_t begin = address_.find('/', address_.find("://") + 3) + 1;
    address_.replace(begin, address_.find('?') - begin, name_);
  }
  ~EnglishDatabase() { admin_.run("drop database " + name_ + " with (force)"); }
  EnglishDatabase(const EnglishDatabase&) = delete;
  EnglishDatabase& operator=(const EnglishDatabase&) = delete;

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  PgClient admin_;
  std::string name_;
  std::string address_;
};

class PostgresCollation : public BoxTest {
 protected:
  EnglishDatabase english_{test_store().address(), test_store().schema() + "_english"};
};

TEST_P(PostgresCollation, OBX_082_every_way_in_locks_messages_in_the_same_order) {
  Database database(english_.address(), {}, environment());
  Inbox inbox(database, options());
  const std::vector<HandlerName> handlers{{HandlerKey{"mail"}}, {HandlerKey{"ledger"}}};
  PgClient holder(english_.address());
  PgClient batch(english_.address());
  PgClient watcher(english_.address());
  ASSERT_EQ(watcher.value("select 'a' < 'B'"), "t");
  for (const bool plain : {true, false}) {
    SCOPED_TRACE(plain);
    holder.begin();
    inbox.accept(holder.session(), an_arrival("B"));
    batch.begin();
    Call both([&] {
      const std::vector<Arrival> arrivals{an_arrival("a"), an_arrival("B")};
      inbox.accept(batch.session(), arrivals,
                   plain ? std::span<const HandlerName>{} : std::span{handlers});
      batch.rollback();
      return true;
    });
    EXPECT_TRUE(waits_for(both, holder, watcher));
    PgClient other(english_.address());
    other.begin();
    Call one([&] {
      inbox.accept(other.session(), an_arrival("a"));
      other.rollback();
      return true;
    });
    EXPECT_FALSE(waits_for(one, batch, watcher)) << "the batch has locked a before B";
    holder.rollback();
    EXPECT_NO_THROW(both.get());
    EXPECT_NO_THROW(one.get());
  }
}

TWINBOX_ON_BACKENDS(PostgresCollation, Backend::postgres);

}  // namespace
}  // namespace twinbox::test
