#include "queue/operation.hpp"

#include "core/sha256.hpp"

namespace twinbox {
namespace {

Value text_or_null(const std::string& text) {
  return text.empty() ? Value{} : Value{std::string_view{text}};
}

std::string hash_of(std::string_view name, const Operation& operation,
                    const OperationFingerprint& content) {
  // Without the operator: a colleague may finish an interrupted operation.
  const OperationFingerprint whole = OperationFingerprint{}
                                         .add(name)
                                         .add(operation.reason)
                                         .add(operation.limit)
                                         .add(content.text());
  const Sha256 hash = sha256(whole.text());
  return {hash.begin(), hash.end()};
}

}  // namespace

OperationFingerprint& OperationFingerprint::add(std::string_view text) {
  text_ += std::to_string(text.size()) + ':';
  text_ += text;
  return *this;
}

OperationFingerprint& OperationFingerprint::add_maybe(const std::optional<Instant>& instant) {
  return instant ? add(instant->time_since_epoch().count()) : add("-");
}

OperationFingerprint& OperationFingerprint::add_maybe(const std::optional<std::string>& text) {
  add(std::int64_t{text.has_value()});
  return text ? add(std::string_view{*text}) : *this;
}

OperationFingerprint& OperationFingerprint::add(const Filter& filter) {
  const auto name = [](const auto& maybe) {
    return maybe ? std::optional{maybe->str()} : std::nullopt;
  };
  return add(to_string(filter.state))
      .add_maybe(name(filter.topic))
      .add_maybe(name(filter.handler))
      .add_maybe(name(filter.source))
      .add_maybe(name(filter.id))
      .add_maybe(name(filter.correlation_id))
      .add_maybe(filter.error_contains)
      .add_maybe(filter.created_since)
      .add_maybe(filter.created_before);
}

OperationFingerprint& OperationFingerprint::add(std::span<const DeliveryKey> deliveries) {
  for (const DeliveryKey& delivery : deliveries) add(delivery.number).add(delivery.handler.view());
  return *this;
}

OperationRecord::OperationRecord(Box& box, std::string_view name, const Operation& operation,
                                 const OperationFingerprint& content)
    : box_(box), name_(name), operation_(operation), hash_(hash_of(name, operation, content)) {}

std::size_t OperationRecord::run(const Step& step) {
  std::optional<std::int64_t> row;
  std::size_t added = 0;
  for (;;) {
    const State state =
        box_.in_own_transaction(Access::write, Scope::transaction,
                                [&](Session& session) { return advance(session, row, step); });
    row = state.id;
    added += state.added;
    const bool wanted = !operation_.on_progress || operation_.on_progress(state.changed);
    if (state.finished || !wanted) {
      log(added);
      box_.wake();
      return state.changed;
    }
  }
}

std::size_t OperationRecord::run(Session& session, const Step& step) {
  std::size_t added = 0;
  const auto all = [&] {
    std::optional<std::int64_t> row;
    for (;;) {
      const State state = advance(session, row, step);
      row = state.id;
      added += state.added;
      const bool wanted = !operation_.on_progress || operation_.on_progress(state.changed);
      if (state.finished || !wanted) return state.changed;
    }
  };
  const std::size_t changed =
      all_or_nothing(session, all, static_cast<bool>(operation_.on_progress));
  log(added);
  return changed;
}

/// One batch, recorded in its own transaction.
OperationRecord::State OperationRecord::advance(Session& session, std::optional<std::int64_t> row,
                                                const Step& step) {
  State state = enter(session, row);
  if (state.finished) return state;
  const Batch batch = step(session, state);
  state.added = batch.changed;
  state.changed += batch.changed;
  state.position = batch.position;
  state.finished = !batch.position || static_cast<std::int64_t>(state.changed) >= operation_.limit;
  // A batch without changes that is never repeated gets no audit entry.
  if (state.finished && state.changed == 0 && operation_.operation_id.empty()) {
    box_.run(session, box_.sql().operation_forget, {{"id", state.id}});
    return state;
  }
  box_.run(session, box_.sql().operation_move,
           {{"id", state.id},
            {"affected", static_cast<std::int64_t>(batch.changed)},
            {"finished", Value{state.finished}},
            {"position_number", batch.position ? Value{batch.position->number} : Value{}},
            {"position_handler", batch.position ? Value{batch.position->handler.view()} : Value{}},
            box_.now()});
  return state;
}

/// Begins it, or finds the operation with its id, and locks its row.
OperationRecord::State OperationRecord::enter(Session& session, std::optional<std::int64_t> row) {
  std::optional<State> found;
  std::string other;
  const auto read = [&](const Row& line) {
    if (line.text(1) != name_ || line.is_null(2) || line.bytes(2) != hash_)
      other = std::string{line.text(1)};
    found = State{.id = line.integer(0),
                  .started_at = line.instant(3),
                  .changed = static_cast<std::size_t>(line.integer(4)),
                  .finished = line.boolean(5)};
    if (!line.is_null(6)) {
      found->position =
          DeliveryKey{line.integer(6), HandlerKey{std::string{line.text(7)}, Unchecked{}}};
    }
  };
  if (!row) {
    box_.run(session, box_.sql().operation_begin,
             {{"action", name_},
              {"actor", text_or_null(operation_.actor)},
              {"reason", text_or_null(operation_.reason)},
              {"operation_id", text_or_null(operation_.operation_id)},
              {"content_hash", Value{Bytes{hash_}}},
              box_.now()},
             read);
  }
  if (!found) {
    box_.run(session, box_.sql().operation_lock,
             {{"id", row}, {"operation_id", text_or_null(operation_.operation_id)}}, read);
  }
  if (!found) throw UsageError("operation: its line in the audit was deleted; ask for it anew");
  if (!other.empty()) {
    throw UsageError("operation '" + operation_.operation_id + "' is another operation (" + other +
                     ") than the one that is asked for: give this one an id of its own");
  }
  return *found;
}

void OperationRecord::log(std::size_t count) const {
  if (count == 0) return;
  box_.log(
      LogLevel::info, name_,
      {{"count", static_cast<std::int64_t>(count)}, {"actor", std::string_view{operation_.actor}}});
}

}  // namespace twinbox
