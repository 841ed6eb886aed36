#include <chrono>
#include <mutex>
#include <stdexcept>
#include <utility>

#include <sqlite3.h>

#include "candidate.hpp"

namespace twinbox::bench {
namespace {

std::int64_t now_micros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

struct Finalize {
  void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
};

struct Close {
  void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
};

/// One prepared statement; parameters are bound by position.
class Prepared {
 public:
  Prepared(sqlite3* db, const std::string& sql) : db_(db) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v3(db, sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr));
    statement_.reset(statement);
  }

  void bind(int index, std::int64_t number) { sqlite3_bind_int64(get(), index, number); }
  void bind(int index, std::string_view text) {
    sqlite3_bind_text64(get(), index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  void bind_blob(int index, std::string_view bytes) {
    sqlite3_bind_blob64(get(), index, bytes.data(), bytes.size(), SQLITE_STATIC);
  }
  void bind_null(int index) { sqlite3_bind_null(get(), index); }
  void bind(int index, const std::optional<InstantArg>& instant) {
    instant ? bind(index, std::int64_t{Instant{*instant}.time_since_epoch().count()})
            : bind_null(index);
  }
  void bind(int index, const std::optional<std::string>& text) {
    text ? bind(index, std::string_view{*text}) : bind_null(index);
  }
  template <class Tag>
  void bind(int index, const std::optional<Tag>& name) {
    name ? bind(index, name->view()) : bind_null(index);
  }

  /// True while there is a row.
  bool step() {
    const int code = sqlite3_step(get());
    if (code == SQLITE_ROW) return true;
    sqlite3_reset(get());
    if (code != SQLITE_DONE) throw std::runtime_error(sqlite3_errmsg(db_));
    return false;
  }
  void run() {
    while (step()) {
    }
  }
  void reset() { sqlite3_reset(get()); }

  [[nodiscard]] std::int64_t integer(int column) { return sqlite3_column_int64(get(), column); }
  [[nodiscard]] int number(int column) { return sqlite3_column_int(get(), column); }
  [[nodiscard]] bool is_null(int column) {
    return sqlite3_column_type(get(), column) == SQLITE_NULL;
  }
  [[nodiscard]] std::string text(int column) {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(get(), column));
    return data == nullptr ? std::string{} : std::string(data, size(column));
  }
  [[nodiscard]] std::string blob(int column) {
    const auto* data = static_cast<const char*>(sqlite3_column_blob(get(), column));
    return data == nullptr ? std::string{} : std::string(data, size(column));
  }
  [[nodiscard]] Instant instant(int column) {
    return Instant{std::chrono::microseconds{integer(column)}};
  }

 private:
  [[nodiscard]] sqlite3_stmt* get() { return statement_.get(); }
  [[nodiscard]] std::size_t size(int column) {
    return static_cast<std::size_t>(sqlite3_column_bytes(get(), column));
  }
  void check(int code) {
    if (code != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(db_));
  }

  sqlite3* db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

Message read_message(Prepared& row) {
  const auto maybe = [&](int column) {
    return row.is_null(column) ? std::optional<std::string>{} : row.text(column);
  };
  const auto maybe_instant = [&](int column) {
    return row.is_null(column) ? std::optional<Instant>{} : row.instant(column);
  };
  Message message{.delivery_id = DeliveryId{row.integer(0)},
                  .epoch = row.number(1),
                  .handler = HandlerKey{row.text(2), Unchecked{}},
                  .attempts = row.number(3),
                  .expiries = row.number(4),
                  .requeues = row.number(5),
                  .visible_at = row.instant(6),
                  .lease_until = row.instant(7),
                  .last_error = row.text(8),
                  .source = Source{row.text(9), Unchecked{}},
                  .id = MessageId{row.text(10), Unchecked{}},
                  .topic = Topic{row.text(11), Unchecked{}},
                  .payload = row.blob(12),
                  .content_type = maybe(13),
                  .headers = maybe(14),
                  .correlation_id = {},
                  .partition_key = {},
                  .hash = {},
                  .due_at = maybe_instant(19),
                  .expires_at = maybe_instant(20),
                  .created_at = row.instant(21),
                  .last_seen_at = row.instant(22),
                  .seen_count = row.number(23),
                  .content_version = row.number(24)};
  if (!row.is_null(15)) message.correlation_id.emplace(row.text(15), Unchecked{});
  if (!row.is_null(16)) message.partition_key.emplace(row.text(16), Unchecked{});
  if (!row.is_null(17)) message.hash = ContentHash{row.blob(17), row.text(18)};
  return message;
}

class RawSqlite final : public RawConnection {
 public:
  using RawConnection::enqueue;

  RawSqlite(const std::string& file, const TableNames& t)
      : db_(open(file)),
        insert_own_(db_.get(), insert_sql(t)),
        insert_message_(db_.get(), insert_sql(t) + " on conflict (id, source) do nothing"),
        insert_work_(db_.get(),
                     "insert into " + t.work +
                         " (number, visible_at, expires_at) values (?1, max(coalesce(?2, ?3), ?3), "
                         "?4)"),
        touch_(db_.get(),
               "update " + t.message +
                   " set last_seen_at = max(last_seen_at, ?3), seen_count = seen_count + 1 where "
                   "id = ?1 and source = ?2 returning number, hash <> ?4"),
        look_(db_.get(), "select exists (select 1 from " + t.work +
                             " where number = ?1), (select max(state) from " + t.outcome +
                             " where number = ?1)"),
        refresh_(db_.get(), "update " + t.message +
                                " set topic = ?2, payload = ?3, content_type = ?4, headers = ?5, "
                                "correlation_id = ?6, hash = ?7, hash_algorithm = ?8, due_at = ?9, "
                                "expires_at = ?10, content_version = content_version + 1 where "
                                "number = ?1"),
        move_(db_.get(), "update " + t.work +
                             " set visible_at = case when attempts = 0 then max(coalesce(?2, ?3), "
                             "?3) else max(visible_at, coalesce(?2, visible_at)) end, expires_at = "
                             "?4 where number = ?1 and (lease_until is null or lease_until <= ?3)"),
        select_(db_.get(),
                "select w.id, w.epoch + 1, w.handler, w.attempts, w.expiries, w.requeues, "
                "w.visible_at, ?1 + ?2, w.last_error, m.source, m.id, m.topic, m.payload, "
                "m.content_type, m.headers, m.correlation_id, m.partition_key, m.hash, "
                "m.hash_algorithm, m.due_at, m.expires_at, m.created_at, m.last_seen_at, "
                "m.seen_count, m.content_version from " +
                    t.work + " w join " + t.message +
                    " m on m.number = w.number where w.waiting = 0 and w.visible_at <= ?1 and "
                    "(w.lease_until is null or w.lease_until <= ?1) and (w.expires_at is null or "
                    "w.expires_at > ?1) order by w.visible_at, w.id limit ?3"),
        lease_(db_.get(), "update " + t.work +
                              " set owner = ?2, epoch = epoch + 1, lease_until = ?3, expiries = "
                              "expiries + (lease_until is not null) where id = ?1"),
        finish_(
            db_.get(),
            "insert into " + t.outcome +
                " (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues, "
                "state, handler) select w.number, w.id, ?3, w.owner, w.attempts, w.expiries, "
                "w.requeues, 1, w.handler from " +
                held(t)),
        remove_(db_.get(),
                "delete from " + t.work + " where id in (select w.id from " + held(t) + ")"),
        begin_(db_.get(), "begin immediate"),
        commit_(db_.get(), "commit") {
    owner_ = OwnerToken::make(environment_).uuid();
  }

  void enqueue(std::span<const NewMessage* const> messages) override {
    const std::scoped_lock lock(mutex_);
    begin("full");
    const std::int64_t now = now_micros();
    for (const NewMessage* message : messages) {
      const MessageId id = message->id ? *message->id : MessageId::make(environment_);
      const std::string_view source = message->source ? message->source->view() : "-";
      insert(insert_own_, source, id.view(), message->topic.view(), message->payload,
             message->extras, now);
    }
    commit_.run();
  }

  Accepted accept(const Arrival& arrival) override {
    return std::move(accept(std::span{&arrival, 1}).front());
  }

  std::vector<Accepted> accept(std::span<const Arrival> arrivals) override {
    const std::scoped_lock lock(mutex_);
    begin("full");
    const std::int64_t now = now_micros();
    std::vector<Accepted> answers;
    answers.reserve(arrivals.size());
    for (const Arrival& arrival : arrivals) {
      const bool fresh = insert(insert_message_, arrival.source.view(), arrival.id.view(),
                                arrival.topic.view(), arrival.payload, arrival.extras, now);
      answers.push_back(fresh ? Accepted{Acceptance::accepted} : look_again(arrival, now));
    }
    commit_.run();
    return answers;
  }

  std::vector<Message> claim(std::int64_t limit) override {
    const std::scoped_lock lock(mutex_);
    begin("normal");
    const std::int64_t now = now_micros();
    std::vector<Message> messages;
    messages.reserve(static_cast<std::size_t>(limit));
    select_.bind(1, now);
    select_.bind(2, std::int64_t{lease.count()});
    select_.bind(3, limit);
    while (select_.step()) messages.push_back(read_message(select_));
    lease_.bind_blob(2, owner());
    lease_.bind(3, now + lease.count());
    for (const Message& message : messages) {
      lease_.bind(1, message.delivery_id.number());
      lease_.run();
    }
    commit_.run();
    return messages;
  }

  /// To start a statement costs more than to find a row: both run once, for all.
  std::size_t ack(const std::vector<Message>& messages) override {
    const std::scoped_lock lock(mutex_);
    begin("full");
    std::string rows = "{";
    for (const Message& message : messages) {
      if (rows.size() > 1) rows += ',';
      rows.append("\"").append(std::to_string(message.delivery_id.number())).append("\":");
      rows.append(std::to_string(message.epoch));
    }
    rows += '}';
    finish_.bind(3, now_micros());
    for (Prepared* statement : {&finish_, &remove_}) {
      statement->bind(1, std::string_view{rows});
      statement->bind_blob(2, owner());
      statement->run();
    }
    const auto changed = static_cast<std::size_t>(sqlite3_changes(db_.get()));
    commit_.run();
    return changed;
  }

 private:
  /// The work that ?2 has leased, of the object ?1: {"<id>": epoch, …}.
  static std::string held(const TableNames& t) {
    return "json_each(?1) r cross join " + t.work +
           " w on w.id = cast(r.key as integer) where w.owner = ?2 and w.epoch = r.value";
  }

  static std::string insert_sql(const TableNames& t) {
    return "insert into " + t.message +
           " (source, id, topic, payload, content_type, headers, correlation_id, hash, "
           "hash_algorithm, due_at, expires_at, created_at, last_seen_at, content_version) values "
           "(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?12,1)";
  }

  static std::unique_ptr<sqlite3, Close> open(const std::string& file) {
    sqlite3* db = nullptr;
    sqlite3_open_v2(file.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    std::unique_ptr<sqlite3, Close> owned{db};
    sqlite3_busy_timeout(db, 60'000);
    if (sqlite3_exec(db, "pragma journal_mode = wal", nullptr, nullptr, nullptr) != SQLITE_OK)
      throw std::runtime_error(sqlite3_errmsg(db));
    return owned;
  }

  /// A claim need not survive a power cut. The pragma acts when it is compiled.
  void begin(std::string_view synchronous) {
    if (synchronous != synchronous_) {
      const std::string sql = "pragma synchronous = " + std::string{synchronous};
      sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr);
      synchronous_ = synchronous;
    }
    begin_.run();
  }

  [[nodiscard]] std::string_view owner() const {
    return {reinterpret_cast<const char*>(owner_.bytes.data()), owner_.bytes.size()};
  }

  static void bind_hash(Prepared& statement, int index, const std::optional<ContentHash>& hash) {
    if (hash) {
      statement.bind_blob(index, hash->bytes);
      statement.bind(index + 1, std::string_view{hash->algorithm});
    } else {
      statement.bind_null(index);
      statement.bind_null(index + 1);
    }
  }

  /// False: it is known.
  bool insert(Prepared& s, std::string_view source, std::string_view id, std::string_view topic,
              std::string_view payload, const MessageExtras& extras, std::int64_t now) {
    s.bind(1, source);
    s.bind(2, id);
    s.bind(3, topic);
    s.bind_blob(4, payload);
    s.bind(5, extras.content_type);
    s.bind(6, extras.headers);
    s.bind(7, extras.correlation_id);
    bind_hash(s, 8, extras.hash);
    s.bind(10, extras.due_at);
    s.bind(11, extras.expires_at);
    s.bind(12, now);
    s.run();
    if (sqlite3_changes(db_.get()) == 0) return false;
    insert_work_.bind(1, std::int64_t{sqlite3_last_insert_rowid(db_.get())});
    insert_work_.bind(2, extras.due_at);
    insert_work_.bind(3, now);
    insert_work_.bind(4, extras.expires_at);
    insert_work_.run();
    return true;
  }

  Accepted look_again(const Arrival& arrival, std::int64_t now) {
    touch_.bind(1, arrival.id.view());
    touch_.bind(2, arrival.source.view());
    touch_.bind(3, now);
    arrival.extras.hash ? touch_.bind_blob(4, arrival.extras.hash->bytes) : touch_.bind_null(4);
    touch_.step();
    const std::int64_t number = touch_.integer(0);
    const bool conflict = touch_.number(1) != 0;
    touch_.run();
    look_.bind(1, number);
    look_.step();
    const bool open = look_.number(0) != 0;
    const int outcome = look_.number(1);
    look_.reset();
    if (!open && outcome != 2) return {Acceptance::duplicate_done, conflict};
    refresh(number, arrival);
    move_.bind(1, number);
    move_.bind(2, arrival.extras.due_at);
    move_.bind(3, now);
    move_.bind(4, arrival.extras.expires_at);
    move_.run();
    return {open ? Acceptance::duplicate_open : Acceptance::duplicate_dead, conflict};
  }

  void refresh(std::int64_t number, const Arrival& arrival) {
    Prepared& s = refresh_;
    s.bind(1, number);
    s.bind(2, arrival.topic.view());
    s.bind_blob(3, arrival.payload);
    s.bind(4, arrival.extras.content_type);
    s.bind(5, arrival.extras.headers);
    s.bind(6, arrival.extras.correlation_id);
    bind_hash(s, 7, arrival.extras.hash);
    s.bind(9, arrival.extras.due_at);
    s.bind(10, arrival.extras.expires_at);
    s.run();
  }

  std::mutex mutex_;
  Environment environment_;
  Uuid owner_;
  std::unique_ptr<sqlite3, Close> db_;
  Prepared insert_own_, insert_message_, insert_work_, touch_, look_, refresh_, move_, select_,
      lease_, finish_, remove_, begin_, commit_;
  std::string_view synchronous_ = "";
};

}  // namespace

std::unique_ptr<RawConnection> open_raw_sqlite(const std::string& file, const TableNames& tables) {
  return std::make_unique<RawSqlite>(file, tables);
}

}  // namespace twinbox::bench
