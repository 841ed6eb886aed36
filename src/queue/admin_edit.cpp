// Edits the content of one message, and reads the audit.
#include <stdexcept>

#include "core/json.hpp"
#include "core/text.hpp"
#include "queue/admin_list.hpp"
#include "queue/admin_operation.hpp"
#include "queue/operation.hpp"
#include "queue/read.hpp"

namespace twinbox {
namespace {

void check_edit(const Admin::Edit& change, const Operation& operation) {
  if (change.headers && !is_json_object(*change.headers)) {
    throw std::invalid_argument("headers: not a JSON object");
  }
  if (change.content_type) check_text("content type", *change.content_type, 1000);
  check_operation(operation);
  if (operation.dry_run) throw UsageError("edit: a single edit knows no dry run; read it by get()");
}

OperationFingerprint content_of(std::int64_t number, const Admin::Edit& change) {
  const auto version = change.content_version
                           ? std::optional{std::to_string(*change.content_version)}
                           : std::nullopt;
  return OperationFingerprint{}
      .add(number)
      .add_maybe(change.payload)
      .add_maybe(change.headers)
      .add_maybe(change.content_type)
      .add_maybe(version)
      .add(std::int64_t{change.requeue});
}

bool replace_content(const Box& box, Session& session, std::int64_t number,
                     const Admin::Edit& change, std::int64_t operation) {
  const auto text = [](const std::optional<std::string>& value) {
    return value ? Value{std::string_view{*value}} : Value{};
  };
  return box.run(session, box.sql().edit,
                 {{"number", number},
                  {"payload", change.payload ? Value{Bytes{*change.payload}} : Value{}},
                  {"headers", text(change.headers)},
                  {"content_type", text(change.content_type)},
                  {"content_version", change.content_version},
                  {"operation", operation},
                  box.now()}) > 0;
}

/// Requeues the dead deliveries of a message, with an audit entry of their own.
void requeue_dead(Box& box, Session& session, std::int64_t number, const Operation& operation) {
  std::vector<DeliveryKey> dead;
  for (const DeliveryView& delivery : read_deliveries(box, session, number)) {
    if (delivery.state == DeliveryState::dead) dead.push_back(delivery.key);
  }
  const Operation again{.actor = operation.actor, .reason = operation.reason};
  OperationRecord{box, "requeue", again, OperationFingerprint{}.add(dead)}.run(
      session, [&](Session& inside, const OperationRecord::State&) -> OperationRecord::Batch {
        return {requeue_some(box, inside, dead, {}), {}};
      });
}

/// The columns of `audit_columns` in operator.sql.
AuditEntry read_audit(const Row& row) {
  return {.id = row.integer(0),
          .action = std::string{row.text(1)},
          .actor = text_or_empty(row, 2),
          .reason = text_or_empty(row, 3),
          .operation_id = text_or_empty(row, 4),
          .number = row.is_null(5) ? std::nullopt : std::optional{row.integer(5)},
          .affected = row.integer(6),
          .started_at = row.instant(7),
          .at = row.instant(8),
          .finished = row.boolean(9)};
}

}  // namespace

Admin::Edited Admin::edit(std::int64_t number, const Edit& change, const Operation& operation) {
  const Edited edited = box_of(queue_).in_own_transaction(
      Access::write, Scope::transaction,
      [&](Session& session) { return edit(session, number, change, operation); });
  if (change.requeue) box_of(queue_).wake();
  return edited;
}

Admin::Edited Admin::edit(Session& session, std::int64_t number, const Edit& change,
                          const Operation& operation) {
  check_edit(change, operation);
  Box& box = box_of(queue_);
  Edited edited{};
  edited.changed =
      OperationRecord{box, "edit", operation, content_of(number, change)}.run(
          box.require_usable(session),
          [&](Session& inside, const OperationRecord::State& state) -> OperationRecord::Batch {
            if (!replace_content(box, inside, number, change, state.id)) return {};
            if (change.requeue) requeue_dead(box, inside, number, operation);
            return {.changed = 1};
          }) > 0;
  box.run(session, box.sql().content_version, {{"number", number}},
          [&](const Row& row) { edited.content_version = static_cast<int>(row.integer(0)); });
  return edited;
}

std::optional<AuditEntry> Admin::operation(std::string_view id) {
  Box& box = box_of(queue_);
  return box.in_own_transaction(Access::read, Scope::statement, [&](Session& session) {
    std::optional<AuditEntry> found;
    box.run(session, box.sql().audit_find, {{"operation_id", id}},
            [&](const Row& row) { found = read_audit(row); });
    return found;
  });
}

AuditPage Admin::audit(std::int64_t limit, std::optional<std::int64_t> after) {
  require_limit(limit);
  Box& box = box_of(queue_);
  return box.in_own_transaction(Access::read, Scope::statement, [&](Session& session) {
    AuditPage page;
    box.run(session, box.sql().audit_list,
            {{"before", after.value_or(INT64_MAX)}, {"limit", limit}},
            [&](const Row& row) { page.entries.push_back(read_audit(row)); });
    if (static_cast<std::int64_t>(page.entries.size()) == limit) page.next = page.entries.back().id;
    return page;
  });
}

}  // namespace twinbox
