#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <unistd.h>

#include "contestant.hpp"

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
class Twinbox final : public Contestant {
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

Place::Place(Dialect dialect, BoxKind kind) : dialect_(dialect), kind_(kind) {
  std::string prefix;
  if (dialect == Dialect::sqlite) {
    file_ = std::filesystem::temp_directory_path() / (unique_name() + ".db");
    address_ = "sqlite:" + file_;
  } else {
    address_ = server_address();
    if (address_.empty()) {
      throw std::runtime_error(
          "TWINBOX_TEST_POSTGRES is not set: measure by ./dev bench, which starts a server");
    }
    schema_ = unique_name();
    prefix = schema_ + ".";
  }
  const std::string box = prefix + std::string{to_string(kind)};
  tables_ = {box + "_message", box + "_work", box + "_outcome"};
  Schema(database(), kind, options()).deploy();
  if (dialect == Dialect::sqlite) grow_log(database());
}

Place::~Place() {
  if (dialect_ == Dialect::sqlite) {
    database_.reset();
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::error_code ignored;
      std::filesystem::remove(file_ + suffix, ignored);
    }
    return;
  }
  try {
    database().in_transaction([&](Session& session) {
      session.execute("set local client_min_messages = error");
      session.execute("drop schema if exists " + schema_ + " cascade");
    });
  } catch (const DatabaseError&) {  // the server goes away with the benchmark
  }
}

Database& Place::database() {
  if (!database_) database_ = std::make_unique<Database>(address_);
  return *database_;
}

BoxOptions Place::options() const {
  BoxOptions options;
  options.schema = schema_;
  return options;
}

std::shared_ptr<Contestant> Place::twinbox() {
  return std::make_shared<Twinbox>(database(), kind_, options());
}

std::shared_ptr<RawConnection> Place::raw() {
  if (dialect_ == Dialect::sqlite) return open_raw_sqlite(file_, tables_);
  return open_raw_postgres(address_, tables_);
}

std::vector<std::shared_ptr<Contestant>> Place::raw_crew(int workers) {
  std::vector<std::shared_ptr<Contestant>> crew;
  for (int i = 0; i < workers; ++i) {
    const bool shared = dialect_ == Dialect::sqlite && !crew.empty();
    crew.push_back(shared ? crew.front() : raw());
  }
  return crew;
}

}  // namespace twinbox::bench
