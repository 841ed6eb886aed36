#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <unistd.h>

#include "candidate.hpp"

namespace twinbox::bench {
namespace {

std::string unique_name() {
  static std::atomic<int> last = 0;
  return "bench_" + std::to_string(getpid()) + "_" + std::to_string(++last);
}

/// Lets the write-ahead log reach the size at which it is checkpointed: a commit that makes a file
/// longer takes longer, and neither side should pay for what comes once.
void grow_log(Database& database) {
  const auto execute = [&](const char* sql) {
    database.in_transaction([&](Session& session) { session.execute(sql); });
  };
  execute("create table filler as select zeroblob(8 << 20)");
  execute("drop table filler");
}

/// Only one of the two boxes is used; the other act would be a mistake of the benchmark.
class Twinbox final : public Candidate {
 public:
  Twinbox(Database& database, BoxKind kind, const BoxOptions& options)
      : owner_(OwnerToken::make(database.environment())) {
    if (kind == BoxKind::outbox) {
      outbox_ = std::make_unique<Outbox>(database, options);
      queue_ = outbox_.get();
    } else {
      inbox_ = std::make_unique<Inbox>(database, options);
      queue_ = inbox_.get();
    }
  }

  void enqueue(const NewMessage& message) override { outbox_->enqueue(message); }
  void enqueue(std::span<const NewMessage> messages) override { outbox_->enqueue(messages); }
  Accepted accept(const Arrival& arrival) override { return inbox_->accept(arrival); }
  std::vector<Accepted> accept(std::span<const Arrival> arrivals) override {
    return inbox_->accept(arrivals);
  }
  std::vector<Message> claim(std::int64_t limit) override {
    return queue_->claim(owner_, lease, limit);
  }
  std::size_t ack(const std::vector<Message>& messages) override {
    return queue_->ack(owner_, messages);
  }

 private:
  OwnerToken owner_;
  std::unique_ptr<Outbox> outbox_;
  std::unique_ptr<Inbox> inbox_;
  WorkQueue* queue_ = nullptr;
};

}  // namespace

std::string server_address() {
  const char* address = std::getenv("TWINBOX_TEST_POSTGRES");
  return address == nullptr ? std::string{} : std::string{address};
}

BoxOptions StoreAddress::options() const {
  BoxOptions options;
  options.schema = schema;
  return options;
}

TableNames StoreAddress::tables(BoxKind kind) const {
  const std::string prefix = dialect == Dialect::sqlite ? std::string{} : schema + ".";
  const std::string box = prefix + std::string{to_string(kind)};
  return {box + "_message", box + "_work", box + "_outcome"};
}

std::unique_ptr<RawConnection> open_raw(const StoreAddress& site, BoxKind kind) {
  if (site.dialect == Dialect::sqlite) return open_raw_sqlite(site.file(), site.tables(kind));
  return open_raw_postgres(site.address, site.tables(kind));
}

BenchStore::BenchStore(Dialect dialect, BoxKind kind) : site_{dialect, {}, "infra"}, kind_(kind) {
  if (dialect == Dialect::sqlite) {
    // A directory of its own: whoever watches the file is told of its neighbours as well.
    const auto directory = std::filesystem::temp_directory_path() / unique_name();
    std::filesystem::create_directory(directory);
    site_.address = "sqlite:" + (directory / "store.db").string();
  } else {
    site_.address = server_address();
    if (site_.address.empty()) {
      throw std::runtime_error(
          "TWINBOX_TEST_POSTGRES is not set: measure by ./dev bench, which starts a server");
    }
    site_.schema = unique_name();
  }
  Schema(database(), kind, site_.options()).deploy();
  if (dialect == Dialect::sqlite) grow_log(database());
}

BenchStore::~BenchStore() {
  if (site_.dialect == Dialect::sqlite) {
    database_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(std::filesystem::path{site_.file()}.parent_path(), ignored);
    return;
  }
  try {
    database().in_transaction([&](Session& session) {
      session.execute("set local client_min_messages = error");
      session.execute("drop schema if exists " + site_.schema + " cascade");
    });
  } catch (const DatabaseError&) {  // the server goes away with the benchmark
  }
}

Database& BenchStore::database() {
  // Without the warnings about batches as large as these.
  const Environment errors_only{.log_level = LogLevel::error};
  if (!database_)
    database_ = std::make_unique<Database>(site_.address, DatabaseOptions{}, errors_only);
  return *database_;
}

std::shared_ptr<Candidate> BenchStore::twinbox() {
  return std::make_shared<Twinbox>(database(), kind_, site_.options());
}

std::shared_ptr<RawConnection> BenchStore::raw() {
  if (site_.dialect == Dialect::sqlite) return open_raw(site_, kind_);
  TableNames tables = site_.tables(kind_);
  tables.channel = site_.schema + "." + std::string{to_string(kind_)};
  return open_raw_postgres(site_.address, tables);
}

std::vector<std::shared_ptr<Candidate>> BenchStore::raw_group(int workers) {
  std::vector<std::shared_ptr<Candidate>> crew;
  for (int i = 0; i < workers; ++i) {
    const bool shared = site_.dialect == Dialect::sqlite && !crew.empty();
    crew.push_back(shared ? crew.front() : raw());
  }
  return crew;
}

}  // namespace twinbox::bench
