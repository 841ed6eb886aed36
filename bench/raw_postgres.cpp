#include <array>
#include <map>
#include <stdexcept>
#include <utility>

#include "candidate.hpp"
#include "wire.hpp"

namespace twinbox::bench {
namespace {

using wire::Array;
using wire::Cells;
using wire::Result;

struct Finish {
  void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
};

/// An expression that is always 0 and tells those who wait on the channel. A notification lets
/// commits come one after the other: of those at the same time one tells.
std::string tell_sql(const std::string& channel) {
  if (channel.empty()) return "0";
  return "case when pg_try_advisory_xact_lock(20077) then length(pg_notify('" + channel +
         "', '')::text) else 0 end";
}

/// What a statement is given: arrays, or one message as it is, which starts sooner.
enum class Form { many, one };

/// $1 … $11: source, id, topic, payload, content type, headers, correlation id, hash, algorithm,
/// due, expiry. Many are taken apart side by side, without writing each column down first.
std::string arrived_sql(Form form) {
  if (form == Form::one) {
    return "(values ($1::text, $2::text, $3::text, $4::bytea, $5::text, $6::text, $7::text, "
           "$8::bytea, $9::text, $10::timestamptz, $11::timestamptz)) "
           "a(source, id, topic, payload, content_type, headers, correlation_id, hash, "
           "hash_algorithm, due_at, expires_at)";
  }
  return "(select unnest($1::text[]) as source, unnest($2::text[]) as id, unnest($3::text[]) as "
         "topic, unnest($4::bytea[]) as payload, unnest($5::text[]) as content_type, "
         "unnest($6::text[]) as headers, unnest($7::text[]) as correlation_id, unnest($8::bytea[]) "
         "as hash, unnest($9::text[]) as hash_algorithm, unnest($10::timestamptz[]) as due_at, "
         "unnest($11::timestamptz[]) as expires_at) a";
}

/// $1, $2: id, source.
std::string keys_sql(Form form) {
  return form == Form::one ? "(values ($1::text, $2::text)) k(id, source)"
                           : "unnest($1::text[], $2::text[]) k(id, source)";
}

/// A replacement of `{message}`, `{work}`, `{outcome}`, `{tell}`, `{arrived}` and `{keys}`.
std::string fill_in(std::string sql, const TableNames& tables, Form form = Form::many) {
  const std::array<std::pair<std::string_view, std::string>, 6> words{
      {{"{message}", tables.message},
       {"{work}", tables.work},
       {"{outcome}", tables.outcome},
       {"{tell}", tell_sql(tables.channel)},
       {"{arrived}", arrived_sql(form)},
       {"{keys}", keys_sql(form)}}};
  for (const auto& [word, text] : words) {
    for (auto at = sql.find(word); at != sql.npos; at = sql.find(word))
      sql.replace(at, word.size(), text);
  }
  return sql;
}

constexpr const char* steering =
    "set enable_seqscan=off; set enable_bitmapscan=off; set jit=off; set "
    "plan_cache_mode=force_generic_plan; set client_min_messages=warning";

constexpr const char* insert_sql = R"(
with fresh as (
  insert into {message} (source, id, topic, payload, content_type, headers, correlation_id, hash,
                         hash_algorithm, due_at, expires_at, created_at, last_seen_at, content_version)
  select a.*, statement_timestamp(), statement_timestamp(), 1
  from {arrived}
  on conflict (id, source) do nothing
  returning number, id, source, due_at, expires_at
), delivery as (
  insert into {work} (number, visible_at, expires_at)
  select number, greatest(due_at, statement_timestamp()), expires_at from fresh
  where number > (select {tell})
)
select id, source from fresh)";

// Ids that were made for the call need not be looked for.
constexpr const char* enqueue_sql = R"(
with fresh as (
  insert into {message} (source, id, topic, payload, content_type, headers, correlation_id, hash,
                         hash_algorithm, due_at, expires_at, created_at, last_seen_at, content_version)
  select a.*, statement_timestamp(), statement_timestamp(), 1
  from {arrived}
  returning number, due_at, expires_at
)
insert into {work} (number, visible_at, expires_at)
select number, greatest(due_at, statement_timestamp()), expires_at from fresh
where number > (select {tell}))";

constexpr const char* touch_sql = R"(
update {message} m
set last_seen_at = greatest(m.last_seen_at, statement_timestamp()), seen_count = m.seen_count + 1
where m.ctid = any(array(
  select d.ctid from {keys}
  cross join lateral (
    select ctid from {message} where id = k.id and source = k.source for update) d)))";

// Not "exists": without statistics the planner would hash the whole work table for it.
constexpr const char* look_sql = R"(
with arrived as materialized (
  select a.*, m.number, m.hash as known_hash,
         (select true from {work} w where w.number = m.number limit 1) is true as open,
         (select max(state) from {outcome} o where o.number = m.number) as state
  from {arrived}
  cross join lateral (
    select number, hash from {message} where id = a.id and source = a.source offset 0) m
), refreshed as (
  update {message} m
  set topic = a.topic, payload = a.payload, content_type = a.content_type, headers = a.headers,
      correlation_id = a.correlation_id, hash = a.hash, hash_algorithm = a.hash_algorithm,
      due_at = a.due_at, expires_at = a.expires_at, content_version = m.content_version + 1
  from arrived a
  where m.number = a.number and (a.open or a.state = 2)
), moved as (
  update {work} w
  set visible_at = case when w.attempts = 0 then greatest(a.due_at, statement_timestamp())
                        else greatest(w.visible_at, a.due_at) end,
      expires_at = a.expires_at
  from arrived a
  where w.number = a.number and (w.lease_until is null or w.lease_until <= statement_timestamp())
)
select id, source, case when open then 1 when state = 2 then 3 else 2 end,
       coalesce(known_hash <> hash, false)
from arrived
where (select case when exists (select 1 from arrived where open) then {tell} else 0 end) = 0)";

// $1 owner, $2 lease in microseconds, $3 limit.
constexpr const char* claim_sql = R"(
with taken as (
  update {work} w
  set owner = $1::uuid, epoch = w.epoch + 1,
      lease_until = statement_timestamp() + $2::bigint * interval '1 microsecond',
      expiries = case when w.lease_until is null then w.expiries else w.expiries + 1 end
  where w.ctid = any(array(
    select ctid from {work}
    where not waiting and visible_at <= statement_timestamp()
      and (lease_until is null or lease_until <= statement_timestamp())
      and (expires_at is null or expires_at > statement_timestamp())
    order by visible_at limit $3::bigint for update skip locked))
  returning w.*
)
select t.id, t.epoch, t.handler, t.attempts, t.expiries, t.requeues, t.visible_at, t.lease_until,
       t.last_error, m.source, m.id, m.topic, m.payload, m.content_type, m.headers,
       m.correlation_id, m.partition_key, m.hash, m.hash_algorithm, m.due_at, m.expires_at,
       m.created_at, m.last_seen_at, m.seen_count, m.content_version
from taken t
cross join lateral (select * from {message} where number = t.number offset 0) m
order by t.visible_at, t.id)";

// $1 ids, $2 epochs, $3 owner.
constexpr const char* ack_sql = R"(
with gone as (
  delete from {work} w using unnest($1::bigint[], $2::int[]) k(id, epoch)
  where w.id = k.id and w.epoch = k.epoch and w.owner = $3::uuid
  returning w.number, w.id, w.attempts, w.expiries, w.requeues, w.handler
)
insert into {outcome} (number, delivery_id, finished_at, finished_by, attempts, expiries, requeues,
                       state, handler)
select number, id, statement_timestamp(), $3::uuid, attempts, expiries, requeues, 1, handler
from gone)";

/// The arguments of one call, binary.
class Args {
 public:
  void add(const Array& array) { add(array.bytes()); }
  /// The one element of an array, or a null.
  void add_only(const Array& array) {
    if (const auto element = array.only()) {
      add(*element);
    } else {
      values_.push_back(nullptr);
      lengths_.push_back(0);
      formats_.push_back(1);
    }
  }
  void add(std::string_view bytes) {
    values_.push_back(bytes.data());
    lengths_.push_back(static_cast<int>(bytes.size()));
    formats_.push_back(1);
  }
  [[nodiscard]] int count() const { return static_cast<int>(values_.size()); }
  [[nodiscard]] const char* const* values() const { return values_.data(); }
  [[nodiscard]] const int* lengths() const { return lengths_.data(); }
  [[nodiscard]] const int* formats() const { return formats_.data(); }

 private:
  std::vector<const char*> values_;
  std::vector<int> lengths_;
  std::vector<int> formats_;
};

/// The names of a statement that is prepared in both forms.
struct Forms {
  const char* many;
  const char* one;
};
constexpr Forms enqueue_forms{"enqueue", "enqueue_one"};
constexpr Forms insert_forms{"insert", "insert_one"};
constexpr Forms touch_forms{"touch", "touch_one"};
constexpr Forms look_forms{"look", "look_one"};

/// The columns of a batch of messages.
class Batch {
 public:
  Batch(std::size_t count, std::size_t payload_size)
      : single_(count == 1),
        source_(wire::text, count, 16),
        id_(wire::text, count, 40),
        topic_(wire::text, count, 32),
        payload_(wire::bytea, count, payload_size),
        content_type_(wire::text, count, 24),
        headers_(wire::text, count, 96),
        correlation_id_(wire::text, count, 40),
        hash_(wire::bytea, count, 32),
        hash_algorithm_(wire::text, count, 8),
        due_at_(wire::timestamptz, count, 8),
        expires_at_(wire::timestamptz, count, 8) {}

  void add(std::string_view source, std::string_view id, std::string_view topic,
           std::string_view payload, const MessageExtras& extras) {
    source_.add(source);
    id_.add(id);
    topic_.add(topic);
    payload_.add(payload);
    content_type_.add(extras.content_type);
    headers_.add(extras.headers);
    correlation_id_.add(extras.correlation_id);
    if (extras.hash) {
      hash_.add(std::string_view{extras.hash->bytes});
      hash_algorithm_.add(std::string_view{extras.hash->algorithm});
    } else {
      hash_.add_null();
      hash_algorithm_.add_null();
    }
    due_at_.add(extras.due_at);
    expires_at_.add(extras.expires_at);
  }
  void add(const Arrival& arrival) {
    add(arrival.source.view(), arrival.id.view(), arrival.topic.view(), arrival.payload,
        arrival.extras);
  }

  [[nodiscard]] Args args() const {
    return args_of({&source_, &id_, &topic_, &payload_, &content_type_, &headers_, &correlation_id_,
                    &hash_, &hash_algorithm_, &due_at_, &expires_at_});
  }
  [[nodiscard]] Args keys() const { return args_of({&id_, &source_}); }
  /// The statement for as many as there are.
  [[nodiscard]] const char* of(const Forms& forms) const {
    return single_ ? forms.one : forms.many;
  }

 private:
  [[nodiscard]] Args args_of(std::initializer_list<const Array*> arrays) const {
    Args args;
    for (const Array* array : arrays) single_ ? args.add_only(*array) : args.add(*array);
    return args;
  }

  bool single_;
  Array source_, id_, topic_, payload_, content_type_, headers_, correlation_id_, hash_,
      hash_algorithm_, due_at_, expires_at_;
};

Message read_message(const Cells& row) {
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
                  .payload = row.text(12),
                  .content_type = row.maybe_text(13),
                  .headers = row.maybe_text(14),
                  .correlation_id = {},
                  .partition_key = {},
                  .hash = {},
                  .due_at = row.maybe_instant(19),
                  .expires_at = row.maybe_instant(20),
                  .created_at = row.instant(21),
                  .last_seen_at = row.instant(22),
                  .seen_count = row.number(23),
                  .content_version = row.number(24)};
  if (!row.is_null(15)) message.correlation_id.emplace(row.text(15), Unchecked{});
  if (!row.is_null(16)) message.partition_key.emplace(row.text(16), Unchecked{});
  if (!row.is_null(17)) message.hash = ContentHash{row.text(17), row.text(18)};
  return message;
}

class RawPostgres final : public RawConnection {
 public:
  using RawConnection::enqueue;

  RawPostgres(const std::string& address, const TableNames& tables)
      : connection_(PQconnectdb(address.c_str())), owner_(OwnerToken::make(environment_).uuid()) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) fail();
    command(steering);
    prepare(enqueue_forms, enqueue_sql, tables);
    prepare(insert_forms, insert_sql, tables);
    prepare(touch_forms, touch_sql, tables);
    prepare(look_forms, look_sql, tables);
    prepare("claim", fill_in(claim_sql, tables));
    prepare("ack", fill_in(ack_sql, tables));
  }

  void enqueue(std::span<const NewMessage* const> messages) override {
    Batch batch(messages.size(), messages.front()->payload.size());
    for (const NewMessage* message : messages) {
      const MessageId id = message->id ? *message->id : MessageId::make(environment_);
      batch.add(message->source ? message->source->view() : "-", id.view(), message->topic.view(),
                message->payload, message->extras);
    }
    execute(batch.of(enqueue_forms), batch.args());
  }

  Accepted accept(const Arrival& arrival) override {
    return std::move(accept(std::span{&arrival, 1}).front());
  }

  std::vector<Accepted> accept(std::span<const Arrival> arrivals) override {
    std::vector<Accepted> answers(arrivals.size(), Accepted{Acceptance::accepted});
    Batch batch(arrivals.size(), arrivals.front().payload.size());
    for (const Arrival& arrival : arrivals) batch.add(arrival);
    // All of a batch or nothing of it, as with Twinbox; one arrival needs no more than statements.
    const bool several = arrivals.size() > 1;
    const char* insert = batch.of(insert_forms);
    const Result inserted =
        several ? begin_and_execute(insert, batch.args()) : execute(insert, batch.args());
    Cells row(inserted.get());
    if (static_cast<std::size_t>(row.rows()) == arrivals.size()) {
      if (several) command("commit");
      return answers;
    }

    std::map<std::string_view, std::size_t> known;
    for (std::size_t i = 0; i < arrivals.size(); ++i) known.emplace(arrivals[i].id.view(), i);
    for (; row.row < row.rows(); ++row.row) known.erase(row.bytes(0));
    look_again(arrivals, known, several, answers);
    return answers;
  }

  std::vector<Message> claim(std::int64_t limit) override {
    std::string lease_bytes;
    std::string limit_bytes;
    wire::put64(lease_bytes, lease.count());
    wire::put64(limit_bytes, limit);
    Args args;
    args.add(owner());
    args.add(lease_bytes);
    args.add(limit_bytes);
    const Result result = execute("claim", args);
    std::vector<Message> messages;
    Cells row(result.get());
    messages.reserve(static_cast<std::size_t>(row.rows()));
    for (; row.row < row.rows(); ++row.row) messages.push_back(read_message(row));
    return messages;
  }

  std::size_t ack(const std::vector<Message>& messages) override {
    Array ids(wire::int8, messages.size(), 8);
    Array epochs(wire::int4, messages.size(), 4);
    for (const Message& message : messages) {
      ids.add(message.delivery_id.number());
      epochs.add(message.epoch);
    }
    Args args;
    args.add(ids);
    args.add(epochs);
    args.add(owner());
    return changed(execute("ack", args).get());
  }

 private:
  [[noreturn]] void fail() const { throw std::runtime_error(PQerrorMessage(connection_.get())); }

  void command(const char* sql) {
    const Result result{PQexec(connection_.get(), sql)};
    if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) fail();
  }

  void prepare(const char* name, const std::string& sql) {
    const Result result{PQprepare(connection_.get(), name, sql.c_str(), 0, nullptr)};
    if (PQresultStatus(result.get()) != PGRES_COMMAND_OK) fail();
  }

  void prepare(const Forms& forms, const char* sql, const TableNames& tables) {
    prepare(forms.many, fill_in(sql, tables, Form::many));
    prepare(forms.one, fill_in(sql, tables, Form::one));
  }

  Result execute(const char* name, const Args& args) {
    Result result{PQexecPrepared(connection_.get(), name, args.count(), args.values(),
                                 args.lengths(), args.formats(), 1)};
    check(result.get());
    return result;
  }

  void check(const PGresult* result) const {
    const auto status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) fail();
  }

  static std::size_t changed(PGresult* result) {
    return static_cast<std::size_t>(std::stoul(PQcmdTuples(result)));
  }

  [[nodiscard]] std::string_view owner() const {
    return {reinterpret_cast<const char*>(owner_.bytes.data()), owner_.bytes.size()};
  }

  Result begin_and_execute(const char* name, const Args& args) {
    PQenterPipelineMode(connection_.get());
    send_command("begin");
    send(name, args);
    PQpipelineSync(connection_.get());
    next_result();
    Result result = next_result();
    const Result end{PQgetResult(connection_.get())};
    PQexitPipelineMode(connection_.get());
    return result;
  }

  /// Locks what is known and looks in a second statement, all in one flight and one transaction:
  /// a flight without a begin of its own is one.
  void look_again(std::span<const Arrival> arrivals,
                  const std::map<std::string_view, std::size_t>& known, bool commits,
                  std::vector<Accepted>& answers) {
    Batch batch(known.size(), arrivals.front().payload.size());
    for (const auto& [id, position] : known) batch.add(arrivals[position]);
    PGconn* connection = connection_.get();
    PQenterPipelineMode(connection);
    send(batch.of(touch_forms), batch.keys());
    send(batch.of(look_forms), batch.args());
    if (commits) send_command("commit");
    PQpipelineSync(connection);
    next_result();
    const Result found = next_result();
    if (commits) next_result();
    const Result end{PQgetResult(connection)};
    PQexitPipelineMode(connection);
    for (Cells row(found.get()); row.row < row.rows(); ++row.row) {
      answers[known.at(row.bytes(0))] = {static_cast<Acceptance>(row.number(2)),
                                         row.number(3) != 0};
    }
  }

  void send(const char* name, const Args& args) {
    if (PQsendQueryPrepared(connection_.get(), name, args.count(), args.values(), args.lengths(),
                            args.formats(), 1) != 1)
      fail();
  }

  void send_command(const char* sql) {
    if (PQsendQueryParams(connection_.get(), sql, 0, nullptr, nullptr, nullptr, nullptr, 0) != 1)
      fail();
  }

  Result next_result() {
    Result result{PQgetResult(connection_.get())};
    check(result.get());
    const Result end{PQgetResult(connection_.get())};
    return result;
  }

  Environment environment_;
  std::unique_ptr<PGconn, Finish> connection_;
  Uuid owner_;
};

}  // namespace

std::unique_ptr<RawConnection> open_raw_postgres(const std::string& address,
                                                 const TableNames& tables) {
  return std::make_unique<RawPostgres>(address, tables);
}

}  // namespace twinbox::bench
