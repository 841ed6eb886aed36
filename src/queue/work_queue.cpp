#include "twinbox/work_queue.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/text.hpp"
#include "queue/box.hpp"
#include "queue/claimed.hpp"
#include "queue/prune.hpp"

namespace twinbox {
namespace {

Value owner_value(const OwnerToken& owner) { return owner.uuid(); }

/// The same value for each of `count` duties.
std::vector<Value> repeated(const Value& value, std::size_t count) {
  return std::vector<Value>(count, value);
}

std::string_view cut_into(std::string& storage, std::string_view error) {
  storage = cut_error(error);
  return storage;
}

Value text_or_null(std::string_view text) { return text.empty() ? Value{} : Value{text}; }

}  // namespace

Duties::Duties(std::span<const Lease> leases) {
  ids_.reserve(leases.size());
  epochs_.reserve(leases.size());
  for (const Lease& lease : leases) add(lease);
  make_unique();
}

Duties::Duties(std::span<const Message> messages) {
  ids_.reserve(messages.size());
  epochs_.reserve(messages.size());
  for (const Message& message : messages) add(message.lease());
  make_unique();
}

Duties::Duties(std::span<const WorkId> ids) : guarded_(false) {
  ids_.reserve(ids.size());
  epochs_.reserve(ids.size());
  for (const WorkId id : ids) add({id, 0});
  make_unique();
}

void Duties::add(const Lease& lease) {
  ids_.emplace_back(lease.work.number());
  epochs_.emplace_back(std::int64_t{lease.epoch});
}

void Duties::make_unique() {
  const auto number = [&](std::size_t i) { return std::get<std::int64_t>(ids_[i]); };
  bool ascending = true;
  for (std::size_t i = 1; i < ids_.size() && ascending; ++i) ascending = number(i - 1) < number(i);
  if (ascending) return;
  std::set<std::pair<std::int64_t, std::int64_t>> unique;
  for (std::size_t i = 0; i < ids_.size(); ++i)
    unique.emplace(number(i), std::get<std::int64_t>(epochs_[i]));
  ids_.clear();
  epochs_.clear();
  for (const auto& [id, epoch] : unique) {
    ids_.emplace_back(id);
    epochs_.emplace_back(epoch);
  }
}

/// The acts themselves, once, over a session.
namespace {

std::size_t fail_some(Box& box, Session& session, const OwnerToken& owner, const Duties& held,
                      std::string_view error, const Failure& failure) {
  if (held.empty()) return 0;
  std::string cut;
  const std::vector<Value> errors = repeated(text_or_null(cut_into(cut, error)), held.size());
  const std::string reason = cut_error(failure.reason);
  const std::size_t changed = box.run(session, box.sql().fail,
                                      {{"owner", owner_value(owner)},
                                       held.ids(),
                                       held.epochs(),
                                       held.guarded(),
                                       {"error", ValueType::text, errors},
                                       {"reason", reason},
                                       {"counts", Value{failure.handler_failed}},
                                       {"hold_keys", Value{box.options().hold_keys}},
                                       box.now()});
  box.log(LogLevel::info, "fail",
          {{"count", static_cast<std::int64_t>(changed)}, {"reason", std::string_view{reason}}});
  return changed;
}

std::size_t ack_some(Box& box, Session& session, const OwnerToken& owner, const Duties& held) {
  if (held.empty()) return 0;
  const std::size_t changed = box.run(
      session, box.sql().ack,
      {{"owner", owner_value(owner)}, held.ids(), held.epochs(), held.guarded(), box.now()});
  box.log(LogLevel::debug, "ack", {{"count", static_cast<std::int64_t>(changed)}});
  return changed;
}

/// The statement doubles by itself; chance, or a function of the user's own, is asked here.
bool delays_here(const RetryPolicy& retry) { return retry.custom || retry.jitter != Jitter::none; }

std::vector<Value> delays_of(Box& box, Session& session, const Duties& held) {
  std::vector<Value> delays(held.size());
  const RetryPolicy& retry = box.options().retry;
  if (!delays_here(retry)) return delays;
  std::unordered_map<std::int64_t, int> attempts;
  const Arg ids = held.ids();
  box.run(session, box.sql().attempts, {ids}, [&](const Row& row) {
    attempts.emplace(row.integer(0), static_cast<int>(row.integer(1)));
  });
  for (std::size_t i = 0; i < delays.size(); ++i) {
    const auto found = attempts.find(std::get<std::int64_t>(ids.column[i]));
    if (found != attempts.end())
      delays[i] = micros(retry.delay(found->second + 1, box.environment()));
  }
  return delays;
}

std::size_t abandon_some(Box& box, Session& session, const OwnerToken& owner, const Duties& held,
                         std::string_view error, const std::optional<Duration>& delay) {
  if (delay) require_delay(*delay);
  if (held.empty()) return 0;
  std::string cut;
  const RetryPolicy& retry = box.options().retry;
  const std::vector<Value> errors = repeated(text_or_null(cut_into(cut, error)), held.size());
  const std::vector<Value> delays =
      delay ? repeated(Value{micros(*delay)}, held.size()) : delays_of(box, session, held);
  const std::size_t changed = box.run(session, box.sql().abandon,
                                      {{"owner", owner_value(owner)},
                                       held.ids(),
                                       held.epochs(),
                                       held.guarded(),
                                       {"error", ValueType::text, errors},
                                       {"delay", ValueType::integer, delays},
                                       {"first_delay", micros(retry.first_delay)},
                                       {"max_delay", micros(retry.max_delay)},
                                       box.now()});
  box.log(LogLevel::debug, "abandon", {{"count", static_cast<std::int64_t>(changed)}});
  return changed;
}

std::size_t release_some(Box& box, Session& session, const std::optional<OwnerToken>& owner,
                         const Duties& held, const std::optional<Instant>& until) {
  if (held.empty()) return 0;
  const std::size_t changed = box.run(session, box.sql().release,
                                      {{"owner", owner ? owner_value(*owner) : Value{}},
                                       held.ids(),
                                       held.epochs(),
                                       held.guarded(),
                                       {"until", until},
                                       box.now()});
  const char* act = owner ? (until ? "postpone" : "release") : (until ? "defer" : "make_due");
  box.log(LogLevel::debug, act, {{"count", static_cast<std::int64_t>(changed)}});
  return changed;
}

std::vector<WorkId> renew_some(Box& box, Session& session, const OwnerToken& owner,
                               const Duties& held, Duration lease) {
  std::vector<WorkId> still_held;
  if (held.empty()) return still_held;
  box.run(session, box.sql().renew,
          {{"owner", owner_value(owner)},
           held.ids(),
           held.epochs(),
           held.guarded(),
           {"lease", micros(lease)},
           box.now()},
          [&](const Row& row) { still_held.emplace_back(row.integer(0)); });
  box.log(LogLevel::debug, "renew", {{"count", static_cast<std::int64_t>(still_held.size())}});
  return still_held;
}

constexpr std::int64_t reap_batch = 1000;

std::size_t reap_some(Box& box, Session& session, std::int64_t limit) {
  const std::size_t changed = box.run(session, box.sql().reap, {{"limit", limit}, box.now()});
  box.log(LogLevel::info, "reap", {{"count", static_cast<std::int64_t>(changed)}});
  return changed;
}

std::size_t expire_some(Box& box, Session& session, std::int64_t limit) {
  require_limit(limit);
  const std::vector<Message> dead = bury_expired(box, session, limit);
  for (const Message& message : dead) log_dead(box, message, "expired");
  if (!dead.empty())
    box.log(LogLevel::info, "expire", {{"count", static_cast<std::int64_t>(dead.size())}});
  return dead.size();
}

/// Finds the duty under '' of each message id, and settles what was found with `settle`.
template <class Settle>
SettledById settle_by_id(Box& box, std::span<const MessageId> ids, Settle settle) {
  if (ids.empty()) return {};
  const std::set<MessageId> unique(ids.begin(), ids.end());
  std::vector<Value> names;
  for (const MessageId& id : unique) names.emplace_back(id.view());
  return box.own(Access::write, Scope::transaction, [&](Session& session) {
    SettledById result;
    std::vector<WorkId> found;
    box.run(session, box.sql().find_work, {{"id", ValueType::text, names}}, [&](const Row& row) {
      if (row.integer(1) > 1) {
        result.ambiguous.emplace_back(std::string{row.text(0)}, Trusted{});
      } else if (!row.is_null(2)) {
        found.emplace_back(row.integer(2));
      }
    });
    for (const MessageId& id : result.ambiguous) {
      box.log(LogLevel::warning, "ambiguous_id", {{"id", id.view()}});
    }
    result.changed = settle(session, Duties{found});
    return result;
  });
}

}  // namespace

WorkQueue::WorkQueue(std::unique_ptr<Box> box) : box_(std::move(box)) {}
WorkQueue::~WorkQueue() = default;

void WorkQueue::wake() const { box_->wake(); }

Database& WorkQueue::database() const noexcept { return box_->database(); }
const BoxOptions& WorkQueue::options() const noexcept { return box_->options(); }

std::vector<Message> WorkQueue::claim(OwnerToken owner, Duration lease, std::int64_t limit,
                                      std::optional<Instant> visible_from) {
  require_lease(lease);
  require_limit(limit);
  return claim_or_bury(*this, {owner, lease, limit, visible_from}).leased;
}

std::vector<Message> WorkQueue::claim(Session& session, OwnerToken owner, Duration lease,
                                      std::int64_t limit, std::optional<Instant> visible_from) {
  require_lease(lease);
  require_limit(limit);
  return all_or_nothing(box_->checked(session), [&] {
    return claim_or_bury(*this, session, {owner, lease, limit, visible_from}).leased;
  });
}

std::vector<WorkId> WorkQueue::renew(OwnerToken owner, const Duties& duties, Duration lease) {
  require_lease(lease);
  if (duties.empty()) return {};
  return box_->write(
      [&](Session& session) { return renew_some(*box_, session, owner, duties, lease); });
}

std::vector<WorkId> WorkQueue::renew(Session& session, OwnerToken owner, const Duties& duties,
                                     Duration lease) {
  require_lease(lease);
  return renew_some(*box_, box_->checked(session), owner, duties, lease);
}

std::size_t WorkQueue::ack(OwnerToken owner, const Duties& duties) {
  if (duties.empty()) return 0;
  return box_->write([&](Session& session) { return ack_some(*box_, session, owner, duties); });
}

std::size_t WorkQueue::ack(Session& session, OwnerToken owner, const Duties& duties) {
  return ack_some(*box_, box_->checked(session), owner, duties);
}

std::size_t WorkQueue::abandon(OwnerToken owner, const Duties& duties, std::string_view error,
                               std::optional<Duration> delay) {
  if (delay) require_delay(*delay);
  if (duties.empty()) return 0;
  const bool one_statement = delay || !delays_here(options().retry);
  return box_->own(
      Access::write, one_statement ? Scope::statement : Scope::transaction,
      [&](Session& session) { return abandon_some(*box_, session, owner, duties, error, delay); });
}

std::size_t WorkQueue::abandon(Session& session, OwnerToken owner, const Duties& duties,
                               std::string_view error, std::optional<Duration> delay) {
  return abandon_some(*box_, box_->checked(session), owner, duties, error, delay);
}

std::size_t WorkQueue::fail(OwnerToken owner, const Duties& duties, std::string_view error,
                            const Failure& failure) {
  if (duties.empty()) return 0;
  return box_->write(
      [&](Session& session) { return fail_some(*box_, session, owner, duties, error, failure); });
}

std::size_t WorkQueue::fail(Session& session, OwnerToken owner, const Duties& duties,
                            std::string_view error, const Failure& failure) {
  return fail_some(*box_, box_->checked(session), owner, duties, error, failure);
}

std::size_t WorkQueue::release(OwnerToken owner, const Duties& duties) {
  if (duties.empty()) return 0;
  return box_->write(
      [&](Session& session) { return release_some(*box_, session, owner, duties, {}); });
}

std::size_t WorkQueue::release(Session& session, OwnerToken owner, const Duties& duties) {
  return release_some(*box_, box_->checked(session), owner, duties, {});
}

std::size_t WorkQueue::postpone(OwnerToken owner, const Duties& duties, Instant until) {
  if (duties.empty()) return 0;
  return box_->write(
      [&](Session& session) { return release_some(*box_, session, owner, duties, until); });
}

std::size_t WorkQueue::postpone(Session& session, OwnerToken owner, const Duties& duties,
                                Instant until) {
  return release_some(*box_, box_->checked(session), owner, duties, until);
}

/// An operator names duties, not claims: two claims of one duty are the same to him.
static Duties without_epochs(const Duties& duties) {
  std::vector<WorkId> ids;
  for (const Value& id : duties.ids().column) ids.emplace_back(std::get<std::int64_t>(id));
  return ids;
}

std::size_t WorkQueue::make_due(const Duties& duties) {
  if (duties.empty()) return 0;
  const Duties named = without_epochs(duties);
  return box_->write([&](Session& session) { return release_some(*box_, session, {}, named, {}); });
}

std::size_t WorkQueue::defer(const Duties& duties, Instant until) {
  if (duties.empty()) return 0;
  const Duties named = without_epochs(duties);
  return box_->write(
      [&](Session& session) { return release_some(*box_, session, {}, named, until); });
}

SettledById WorkQueue::ack(OwnerToken owner, std::span<const MessageId> ids) {
  return settle_by_id(*box_, ids, [&](Session& session, const Duties& duties) {
    return ack_some(*box_, session, owner, duties);
  });
}

SettledById WorkQueue::abandon(OwnerToken owner, std::span<const MessageId> ids,
                               std::string_view error, std::optional<Duration> delay) {
  if (delay) require_delay(*delay);
  return settle_by_id(*box_, ids, [&](Session& session, const Duties& duties) {
    return abandon_some(*box_, session, owner, duties, error, delay);
  });
}

SettledById WorkQueue::fail(OwnerToken owner, std::span<const MessageId> ids,
                            std::string_view error) {
  return settle_by_id(*box_, ids, [&](Session& session, const Duties& duties) {
    return fail_some(*box_, session, owner, duties, error, {});
  });
}

std::size_t WorkQueue::reap() {
  std::size_t all = 0;
  for (std::size_t some = reap_batch; some == reap_batch; all += some) some = reap(reap_batch);
  return all;
}

std::size_t WorkQueue::reap(Session& session) {
  return reap_some(*box_, box_->checked(session), INT64_MAX);
}

std::size_t WorkQueue::reap(std::int64_t limit) {
  require_limit(limit);
  return box_->write([&](Session& session) { return reap_some(*box_, session, limit); });
}

std::size_t WorkQueue::reap(Session& session, std::int64_t limit) {
  require_limit(limit);
  return reap_some(*box_, box_->checked(session), limit);
}

std::size_t WorkQueue::expire(std::int64_t limit) {
  require_limit(limit);
  return box_->write([&](Session& session) { return expire_some(*box_, session, limit); });
}

std::size_t WorkQueue::expire(Session& session, std::int64_t limit) {
  return expire_some(*box_, box_->checked(session), limit);
}

std::size_t WorkQueue::prune() { return prune({.older_than = *box_->options().retention}); }

std::size_t WorkQueue::prune(const PruneOptions& options) {
  Pruning pruning(*box_, options);
  while (pruning.step()) {
  }
  box_->log(LogLevel::info, "prune", {{"count", static_cast<std::int64_t>(pruning.deleted())}});
  return pruning.deleted();
}

std::size_t WorkQueue::prune(Session& session, const PruneOptions& options) {
  return prune_once(*box_, box_->checked(session), options);
}

}  // namespace twinbox
