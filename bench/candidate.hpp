// Who is measured: Twinbox, and hand-written loops that do the same job on the same tables.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "twinbox/inbox.hpp"
#include "twinbox/outbox.hpp"
#include "twinbox/schema.hpp"

namespace twinbox::bench {

/// One box, seen by one worker or, where that is said, by many.
class Candidate {
 public:
  Candidate() = default;
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;
  virtual ~Candidate() = default;

  /// Durable once it returns. Throws when it was not new.
  virtual void enqueue(const NewMessage& message) = 0;
  /// One transaction.
  virtual void enqueue(std::span<const NewMessage> messages) = 0;
  virtual Accepted accept(const Arrival& arrival) = 0;
  virtual std::vector<Accepted> accept(std::span<const Arrival> arrivals) = 0;
  virtual std::vector<Message> claim(std::int64_t limit) = 0;
  virtual std::size_t ack(const std::vector<Message>& messages) = 0;
};

/// A hand-written loop over a connection of its own.
class RawConnection : public Candidate {
 public:
  using Candidate::enqueue;
  /// What a writer thread has collected, in one transaction.
  virtual void enqueue(std::span<const NewMessage* const> messages) = 0;

  void enqueue(const NewMessage& message) final {
    const NewMessage* one = &message;
    enqueue(std::span{&one, 1});
  }
  void enqueue(std::span<const NewMessage> messages) final {
    std::vector<const NewMessage*> pointers;
    pointers.reserve(messages.size());
    for (const NewMessage& message : messages) pointers.push_back(&message);
    enqueue(std::span{pointers});
  }
};

/// Where the tables of one box are.
struct TableNames {
  std::string message;
  std::string work;
  std::string outcome;
  std::string channel = {};  ///< of PostgreSQL: who adds a message tells of it here, unless empty
};

/// Thread-safe: its calls take turns on one connection, as a file has one writer.
std::unique_ptr<RawConnection> open_raw_sqlite(const std::string& file, const TableNames& tables);
/// For one thread.
std::unique_ptr<RawConnection> open_raw_postgres(const std::string& address,
                                                 const TableNames& tables);

/// Where a store is: what another process needs to work on it as well.
struct StoreAddress {
  Dialect dialect;
  std::string address;
  std::string schema;

  [[nodiscard]] BoxOptions options() const;
  [[nodiscard]] TableNames tables(BoxKind kind) const;
  /// Of SQLite.
  [[nodiscard]] std::string file() const { return address.substr(address.find(':') + 1); }
};

std::unique_ptr<RawConnection> open_raw(const StoreAddress& site, BoxKind kind);

/// A store of its own, deployed by Schema and removed in the end.
class BenchStore {
 public:
  /// Throws std::runtime_error when no server is known for PostgreSQL.
  BenchStore(Dialect dialect, BoxKind kind);
  BenchStore(const BenchStore&) = delete;
  BenchStore& operator=(const BenchStore&) = delete;
  ~BenchStore();

  /// Thread-safe.
  std::shared_ptr<Candidate> twinbox();
  /// Tells of what it adds, as Twinbox does, where the database can: others may wait for it.
  std::shared_ptr<RawConnection> raw();
  /// One for each worker; the same one for all where a file has one writer.
  std::vector<std::shared_ptr<Candidate>> raw_group(int workers);

  [[nodiscard]] const StoreAddress& site() const noexcept { return site_; }
  Database& database();

 private:
  StoreAddress site_;
  BoxKind kind_;
  std::unique_ptr<Database> database_;
};

/// The server's address, from TWINBOX_TEST_POSTGRES; empty: there is none.
std::string server_address();

constexpr Duration lease = std::chrono::seconds{60};

}  // namespace twinbox::bench
