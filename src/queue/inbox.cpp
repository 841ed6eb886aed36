#include "twinbox/inbox.hpp"

#include <stdexcept>

#include "core/text.hpp"
#include "queue/claimed.hpp"
#include "queue/delay.hpp"
#include "queue/message_writer.hpp"

namespace twinbox {
namespace {

Incoming incoming(const Arrival& arrival, DueTimes& due_times) {
  return {.source = arrival.source.view(),
          .id = arrival.id.view(),
          .topic = arrival.topic.view(),
          .payload = arrival.payload,
          .extras = due_times.of(arrival.extras),
          .replaces = arrival.on_duplicate == OnDuplicate::replace};
}

void check_arrival(const Arrival& arrival, bool per_handler) {
  check_extras(arrival.extras);
  if (per_handler && utf16_length(arrival.id.view()) > 200) {
    throw std::invalid_argument("message id: " + std::to_string(utf16_length(arrival.id.view())) +
                                " characters, at most 200 are allowed where handlers have keys");
  }
}

void log_accept(const Box& box, const Arrival& arrival, const Accepted& accepted) {
  if (box.logs(LogLevel::info)) {
    box.log(LogLevel::info, "accept",
            {{"topic", arrival.topic.view()},
             {"source", arrival.source.view()},
             {"id", arrival.id.view()},
             {"answer", to_string(accepted.state)}});
  }
  if (accepted.conflict) {
    box.log(LogLevel::warning, "conflict",
            {{"source", arrival.source.view()}, {"id", arrival.id.view()}});
  }
}

void log_accepts(const Box& box, std::span<const Arrival> arrivals,
                 std::span<const Accepted> answers) {
  for (std::size_t i = 0; i < answers.size(); ++i) log_accept(box, arrivals[i], answers[i]);
}

std::vector<Incoming> checked_items(std::span<const Arrival> arrivals,
                                    std::span<const HandlerName> handlers, DueTimes& due_times) {
  std::vector<Incoming> items;
  items.reserve(arrivals.size());
  for (const Arrival& arrival : arrivals) {
    check_arrival(arrival, !handlers.empty());
    items.push_back(incoming(arrival, due_times));
  }
  return items;
}

std::vector<Accepted> write_items(Box& box, Session& session, std::span<const Incoming> items,
                                  const TargetHandlers& targets) {
  return write_messages(
      box, [&](const auto& work) { work(session); }, items, targets);
}

Arg id_arg(const MessageKey& key) { return {"id", key.id.view()}; }
Arg source_arg(const MessageKey& key) { return {"source", key.source.view()}; }

}  // namespace

std::string_view to_string(MessageState state) noexcept {
  switch (state) {
    case MessageState::seen: return "seen";
    case MessageState::open: return "open";
    case MessageState::done: return "done";
    case MessageState::dead: return "dead";
  }
  return "unknown";
}

std::string_view to_string(Acceptance acceptance) noexcept {
  switch (acceptance) {
    case Acceptance::accepted: return "accepted";
    case Acceptance::duplicate_open: return "duplicate_open";
    case Acceptance::duplicate_done: return "duplicate_done";
    case Acceptance::duplicate_dead: return "duplicate_dead";
  }
  return "unknown";
}

Inbox::Inbox(Database& database, BoxOptions options)
    : WorkQueue(std::make_unique<Box>(database, BoxKind::inbox, std::move(options))),
      writer_(std::make_unique<MessageWriter>(*box_)) {}

Inbox::~Inbox() = default;

Accepted Inbox::accept(const Arrival& arrival) {
  check_arrival(arrival, false);
  pool_of(box_->database()).check_reentry(Access::write);
  DueTimes due_times{*box_, nullptr};
  const Accepted accepted = writer_->submit(incoming(arrival, due_times), arrival.payload.size());
  box_->wake();
  log_accept(*box_, arrival, accepted);
  return accepted;
}

Accepted Inbox::accept(const Arrival& arrival, std::span<const HandlerName> handlers) {
  return handlers.empty() ? accept(arrival) : accept(std::span{&arrival, 1}, handlers).front();
}

std::vector<Accepted> Inbox::accept(std::span<const Arrival> arrivals,
                                    std::span<const HandlerName> handlers) {
  DueTimes due_times{*box_, nullptr};
  const std::vector<Incoming> items = checked_items(arrivals, handlers, due_times);
  const TargetHandlers targets{handlers};
  if (items.empty()) return {};
  const WriteRefusalReset storing{*box_};
  const std::vector<Accepted> answers = box_->in_own_transaction(
      Access::write, Scope::transaction,
      [&](Session& session) { return write_items(*box_, session, items, targets); });
  storing.committed(answers);
  box_->wake();
  log_accepts(*box_, arrivals, answers);
  return answers;
}

Accepted Inbox::accept(Session& session, const Arrival& arrival,
                       std::span<const HandlerName> handlers) {
  return accept(session, std::span{&arrival, 1}, handlers).front();
}

std::vector<Accepted> Inbox::accept(Session& session, std::span<const Arrival> arrivals,
                                    std::span<const HandlerName> handlers) {
  DueTimes due_times{*box_, &box_->require_usable(session)};
  const std::vector<Incoming> items = checked_items(arrivals, handlers, due_times);
  const TargetHandlers targets{handlers};
  if (items.empty()) return {};
  const std::vector<Accepted> answers =
      all_or_nothing(session, [&] { return write_items(*box_, session, items, targets); });
  log_accepts(*box_, arrivals, answers);
  return answers;
}

/// A message that has crashed too many workers becomes dead instead of being handed out again.
static std::vector<Message> without_crash_looped(Inbox& inbox, Session& session,
                                                 const OwnerToken& owner,
                                                 std::vector<Message> messages) {
  std::erase_if(messages, [&](const Message& message) {
    return crash_looped(message, inbox.options().max_expiries) &&
           inbox.fail(session, owner, message, crash_text(message), crash_loop) > 0;
  });
  return messages;
}

static Inbox::AcceptedAndClaimed write_and_claim(Inbox& inbox, Session& session,
                                                 const Arrival& arrival, const OwnerToken& owner,
                                                 Duration lease,
                                                 std::span<const HandlerName> handlers) {
  Box& box = box_of(inbox);
  DueTimes due_times{box, &session};
  const std::vector<Incoming> items = checked_items(std::span{&arrival, 1}, handlers, due_times);
  const Accepted accepted = write_items(box, session, items, TargetHandlers{handlers}).front();
  // The stored message differs from the caller's, and may have another topic.
  if (accepted.conflict && arrival.on_duplicate == OnDuplicate::keep_first) return {accepted, {}};
  std::vector<Message> claimed;
  box.run(session, box.sql().claim_message,
          {{"owner", Value{owner.uuid()}},
           {"lease", micros(lease)},
           {"source", arrival.source.view()},
           {"message_id", arrival.id.view()},
           {"due_only", Value{true}},
           box.now()},
          [&](const Row& row) { claimed.push_back(read_claimed(row)); });
  return {accepted, without_crash_looped(inbox, session, owner, std::move(claimed))};
}

static void log_accept_and_claim(const Box& box, const Arrival& arrival,
                                 const Inbox::AcceptedAndClaimed& both) {
  log_accept(box, arrival, both.accepted);
  box.log(LogLevel::debug, "claim", {{"count", static_cast<std::int64_t>(both.messages.size())}});
}

Inbox::AcceptedAndClaimed Inbox::accept_and_claim(const Arrival& arrival, OwnerToken owner,
                                                  Duration lease,
                                                  std::span<const HandlerName> handlers) {
  require_lease(lease);
  const WriteRefusalReset storing{*box_};
  AcceptedAndClaimed both =
      box_->in_own_transaction(Access::write, Scope::transaction, [&](Session& session) {
        return write_and_claim(*this, session, arrival, owner, lease, handlers);
      });
  storing.committed(std::span{&both.accepted, 1});
  if (both.messages.empty()) box_->wake();  // it may be due later, and dispatchers wait for it
  log_accept_and_claim(*box_, arrival, both);
  return both;
}

Inbox::AcceptedAndClaimed Inbox::accept_and_claim(Session& session, const Arrival& arrival,
                                                  OwnerToken owner, Duration lease,
                                                  std::span<const HandlerName> handlers) {
  require_lease(lease);
  AcceptedAndClaimed both = all_or_nothing(box_->require_usable(session), [&] {
    return write_and_claim(*this, session, arrival, owner, lease, handlers);
  });
  log_accept_and_claim(*box_, arrival, both);
  return both;
}

bool Inbox::already_processed(const MessageKey& key, const std::optional<ContentHash>& hash) {
  return observe(key, hash).done;
}

bool Inbox::already_processed(Session& session, const MessageKey& key,
                              const std::optional<ContentHash>& hash) {
  return observe(session, key, hash).done;
}

Observed Inbox::observe(const MessageKey& key, const std::optional<ContentHash>& hash) {
  return box_->write([&](Session& session) { return observe(session, key, hash); });
}

Observed Inbox::observe(Session& session, const MessageKey& key,
                        const std::optional<ContentHash>& hash) {
  check_hash(hash);
  Observed observed{};
  box_->run(box_->require_usable(session), box_->sql().observe,
            {id_arg(key),
             source_arg(key),
             {"topic", Value{}},
             {"hash", hash ? Value{Bytes{hash->bytes}} : Value{}},
             {"hash_algorithm", hash ? Value{std::string_view{hash->algorithm}} : Value{}},
             box_->now()},
            [&](const Row& row) {
              observed = {row.boolean(0), row.boolean(1)};
            });
  box_->log(LogLevel::debug, "observe",
            {{"source", key.source.view()}, {"id", key.id.view()}, {"done", observed.done}});
  if (observed.conflict) {
    box_->log(LogLevel::warning, "conflict",
              {{"source", key.source.view()}, {"id", key.id.view()}});
  }
  return observed;
}

bool Inbox::has_processed(const MessageKey& key) { return state(key) == MessageState::done; }

bool Inbox::has_processed(Session& session, const MessageKey& key) {
  return state(session, key) == MessageState::done;
}

std::optional<MessageState> Inbox::state(const MessageKey& key) {
  return box_->in_own_transaction(Access::read, Scope::statement,
                                  [&](Session& session) { return state(session, key); });
}

std::optional<MessageState> Inbox::state(Session& session, const MessageKey& key) {
  std::optional<MessageState> found;
  box_->run(box_->require_usable(session), box_->sql().state, {id_arg(key), source_arg(key)},
            [&](const Row& row) { found = static_cast<MessageState>(row.integer(0)); });
  return found;
}

bool Inbox::mark_processing(const MessageKey& key) {
  return box_->in_own_transaction(Access::write, Scope::transaction,
                                  [&](Session& session) { return mark_processing(session, key); });
}

bool Inbox::mark_processing(Session& session, const MessageKey& key) {
  box_->run(box_->require_usable(session), box_->sql().lock_message,
            {id_arg(key), source_arg(key)});
  const bool changed = box_->run(session, box_->sql().mark_processing,
                                 {id_arg(key), source_arg(key), box_->now()}) > 0;
  box_->log(LogLevel::debug, "mark_processing",
            {{"source", key.source.view()}, {"id", key.id.view()}, {"changed", changed}});
  return changed;
}

static bool mark_done(const Box& box, Session& session, const MessageKey& key) {
  box.run(session, box.sql().lock_message, {id_arg(key), source_arg(key)});
  bool changed = false;
  box.run(session, box.sql().mark_processed, {id_arg(key), source_arg(key), box.now()},
          [&](const Row&) { changed = true; });
  return changed;
}

/// Logged when the call is over: a repeated or failed call is not logged as done.
static bool log_mark(const Box& box, LogLevel level, std::string_view action, const MessageKey& key,
                     bool changed) {
  box.log(level, action,
          {{"source", key.source.view()}, {"id", key.id.view()}, {"changed", changed}});
  return changed;
}

bool Inbox::mark_processed(const MessageKey& key) {
  const bool changed =
      box_->in_own_transaction(Access::write, Scope::transaction,
                               [&](Session& session) { return mark_done(*box_, session, key); });
  return log_mark(*box_, LogLevel::debug, "mark_processed", key, changed);
}

bool Inbox::mark_processed(Session& session, const MessageKey& key) {
  const bool changed = mark_done(*box_, box_->require_usable(session), key);
  return log_mark(*box_, LogLevel::debug, "mark_processed", key, changed);
}

/// Accepted and marked at once: the result of the arrival, and whether this call made it done.
static std::pair<Accepted, bool> write_and_mark(Box& box, Session& session,
                                                const Arrival& arrival) {
  DueTimes due_times{box, &session};
  const std::vector<Incoming> items = checked_items(std::span{&arrival, 1}, {}, due_times);
  const Accepted accepted = write_items(box, session, items, TargetHandlers{{}}).front();
  return {accepted, mark_done(box, session, arrival.key())};
}

static bool log_marked(const Box& box, const Arrival& arrival,
                       const std::pair<Accepted, bool>& marked) {
  log_accept(box, arrival, marked.first);
  return log_mark(box, LogLevel::debug, "mark_processed", arrival.key(), marked.second);
}

bool Inbox::mark_processed(const Arrival& arrival) {
  return log_marked(
      *box_, arrival,
      box_->in_own_transaction(Access::write, Scope::transaction, [&](Session& session) {
        return write_and_mark(*box_, session, arrival);
      }));
}

bool Inbox::mark_processed(Session& session, const Arrival& arrival) {
  return log_marked(*box_, arrival, all_or_nothing(box_->require_usable(session), [&] {
    return write_and_mark(*box_, session, arrival);
  }));
}

static bool mark_dead_in(const Box& box, Session& session, const MessageKey& key,
                         std::string_view error) {
  box.run(session, box.sql().lock_message, {id_arg(key), source_arg(key)});
  const std::string cut = truncate_error(error);
  bool changed = false;
  box.run(session, box.sql().mark_dead,
          {id_arg(key),
           source_arg(key),
           {"reason", "marked dead"},
           {"error", cut.empty() ? Value{} : Value{std::string_view{cut}}},
           box.now()},
          [&](const Row&) { changed = true; });
  return changed;
}

bool Inbox::mark_dead(const MessageKey& key, std::string_view error) {
  const bool changed = box_->in_own_transaction(
      Access::write, Scope::transaction,
      [&](Session& session) { return mark_dead_in(*box_, session, key, error); });
  return log_mark(*box_, LogLevel::info, "mark_dead", key, changed);
}

bool Inbox::mark_dead(Session& session, const MessageKey& key, std::string_view error) {
  const bool changed = mark_dead_in(*box_, box_->require_usable(session), key, error);
  return log_mark(*box_, LogLevel::info, "mark_dead", key, changed);
}

bool Inbox::try_claim(const MessageKey& key, const Topic& type, const HandlerKey& handler) {
  if (!options().gate) return true;
  return box_->write([&](Session& session) { return try_claim(session, key, type, handler); });
}

bool Inbox::try_claim(Session& session, const MessageKey& key, const Topic& type,
                      const HandlerKey& handler) {
  box_->require_usable(session);
  if (!options().gate) return true;
  const bool claimed = box_->run(session, box_->sql().try_claim,
                                 {id_arg(key),
                                  source_arg(key),
                                  {"topic", type.view()},
                                  {"handler", handler.view()},
                                  {"hash", Value{}},
                                  {"hash_algorithm", Value{}},
                                  box_->now()}) > 0;
  box_->log(LogLevel::debug, "try_claim",
            {{"source", key.source.view()}, {"id", key.id.view()}, {"claimed", claimed}});
  return claimed;
}

bool Inbox::release_claim(const MessageKey& key, const HandlerKey& handler) {
  if (!options().gate) return false;
  return box_->write([&](Session& session) { return release_claim(session, key, handler); });
}

bool Inbox::release_claim(Session& session, const MessageKey& key, const HandlerKey& handler) {
  box_->require_usable(session);
  if (!options().gate) return false;
  const bool released = box_->run(session, box_->sql().release_claim,
                                  {id_arg(key), source_arg(key), {"handler", handler.view()}}) > 0;
  box_->log(LogLevel::debug, "release_claim",
            {{"source", key.source.view()}, {"id", key.id.view()}, {"released", released}});
  return released;
}

}  // namespace twinbox
