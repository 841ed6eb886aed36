#include "dispatch/box_poller.hpp"

#include <algorithm>
#include <utility>

#include "queue/box.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

/// After a poll found deliveries, the next polls follow quickly: a transaction that was still open
/// at the wake-up may be committed by then.
constexpr Duration first_pace = 1ms;
/// No notification reports an expired lease: its message is taken over within five seconds.
constexpr Duration watched_pace = 4s;
/// Idle box_pollers share a hundred polls a second: with a thousand stores each is polled less
/// often.
constexpr Duration idle_look = 10ms;
constexpr Duration first_rest = 250ms;
constexpr Duration longest_rest = 30s;
/// A recovered database is detected within five seconds; the check is cheap.
constexpr Duration longest_rest_out_of_reach = 4s;
bool may_be_back(DatabaseError::Kind kind) noexcept {
  using Kind = DatabaseError::Kind;
  return kind == Kind::connection_lost || kind == Kind::read_only || kind == Kind::not_synchronous;
}
/// A poll below the floor may use this share of the time, and is never delayed for longer.
constexpr int full_look_share = 10;
constexpr Duration longest_without_full_look = 5s;

/// Errors about one row, not about the database.
bool may_lie_in_one(const std::exception& error) {
  const auto* failure = dynamic_cast<const DatabaseError*>(&error);
  return failure == nullptr || failure->kind() == DatabaseError::Kind::invalid_request ||
         failure->kind() == DatabaseError::Kind::other;
}

Duration since(Clock::time_point begin) {
  return std::chrono::duration_cast<Duration>(Clock::now() - begin);
}

}  // namespace

BoxPoller::BoxPoller(QueueOpener source, const BoxPollerContext& parts)
    : source_(std::move(source)),
      parts_(parts),
      heartbeat_(parts.owner, parts.announcement),
      observer_(heartbeat_.observer(parts.observer)),
      lost_claim_timer_(parts.options.lease, parts_.environment) {}

BoxPoller::~BoxPoller() {
  housekeeping.reset();  // before the box
}

std::shared_ptr<BoxPoller> BoxPoller::successor(const OwnerToken& owner) const {
  BoxPollerContext parts = parts_;
  parts.owner = owner;
  return std::make_shared<BoxPoller>(source_, parts);
}

WorkQueue& BoxPoller::queue() {
  const std::scoped_lock lock{opening_};
  if (!queue_) {
    queue_ = source_.open();
    caller_ =
        std::make_unique<Caller>(*queue_, parts_.handlers, parts_.options, observer_, parts_.owner);
  }
  return *queue_;
}

WorkQueue* BoxPoller::opened() {
  // Opening it may wait for a server that does not answer.
  const std::unique_lock lock{opening_, std::try_to_lock};
  return lock ? queue_.get() : nullptr;
}

void BoxPoller::listen(const std::function<void(bool)>& call) {
  if (wake_) return;
  if (!parts_.handlers.keys().empty()) unclaimed_keys(queue(), parts_.handlers);
  warn_of_few_connections();
  watcher_ = Watcher::shared();
  watch_ = watcher_->watch(queue(), [call] { call(true); });
  wake_ = std::make_unique<Wake::Subscription>(pool_of(queue().database()).wake(),
                                               [call] { call(false); });
}

/// A transactional handler holds a connection. When all connections are held, none is left to renew
/// leases.
void BoxPoller::warn_of_few_connections() {
  // SQLite lets them write one after the other, and no worker takes over a lease meanwhile.
  if (queue().database().dialect() == Dialect::sqlite || !parts_.handlers.any_transactional())
    return;
  const Pool::Bound bound = pool_of(queue().database()).bound();
  if (static_cast<std::size_t>(parts_.options.workers) < bound.count) return;
  box_of(queue()).log(LogLevel::warning, "few_connections",
                      {{"workers", std::int64_t{parts_.options.workers}},
                       {"connections", static_cast<std::int64_t>(bound.count)},
                       {"raise", bound.option}});
}

void BoxPoller::stop_listening(bool polite) {
  if (polite) leave();
  wake_.reset();
  watch_ = {};
  watcher_.reset();
  slot_.reset();
  held_slot_.reset();
  next_try_ = Clock::time_point::max();
}

void BoxPoller::leave() {
  // An unresponsive one must not delay the shutdown of the others.
  if (queue_ && store_health != StoreHealth::failing) heartbeat_.leave(*queue_);
}

bool BoxPoller::hold_slot() {
  if (parts_.options.processors == 0) return true;
  if (!slot_) {
    slot_ = std::make_unique<LeaseKeeper>(
        queue(), LeaseName{"dispatch"}, parts_.owner,
        LeaseKeeperOptions{.slots = parts_.options.processors, .lease = parts_.options.lease});
  }
  next_try_ = Clock::now() + slot_->step();
  const std::optional<NamedLease> before = std::exchange(held_slot_, slot_->lease());
  // A slot that was lost, or expired, and was acquired again may have had another owner in between.
  if (before && held_slot_ != before) {
    box_of(*queue_).log(LogLevel::warning, "slot_lost", {});
    return false;
  }
  return held_slot_.has_value();
}

bool BoxPoller::has_slot() const {
  return parts_.options.processors == 0 || (slot_ && slot_->held());
}

/// The database refused the claim explicitly: it has leased nothing. A settlement that was refused
/// with it keeps its lease, or it would be retried without a pause.
static bool was_answered(const DatabaseError& error) {
  using Kind = DatabaseError::Kind;
  return error.kind() == Kind::invalid_request || error.kind() == Kind::contention ||
         error.kind() == Kind::permission || error.kind() == Kind::missing_schema;
}

template <class F>
Claim BoxPoller::noting_lost_claim(F&& claim) {
  try {
    return claim();
  } catch (const DatabaseError& error) {
    if (!was_answered(error)) lost_claim_timer_.claim_failed();
    throw;
  } catch (...) {
    lost_claim_timer_.claim_failed();
    throw;
  }
}

void BoxPoller::release_lost(const std::vector<Lease>& in_hand) {
  twinbox::release_lost(queue(), parts_.owner, in_hand);
  lost_claim_timer_.asked();
}

std::vector<Message> BoxPoller::claim_once(std::int64_t limit) {
  const Clock::time_point begin = Clock::now();
  WorkQueue& box = queue();
  Claim claim = noting_lost_claim([&] {
    return claim_or_dead_letter(
        box, {.owner = parts_.owner,
              .lease = parts_.options.lease,
              .limit = limit,
              .check = [this](const Session& of) { check_server_identity(of); }});
  });
  report_dead(claim.dead);
  std::vector<Message> messages = std::move(claim.leased);
  if (observer_.claimed && !messages.empty())
    observer_.claimed(store(), messages.size(), since(begin));
  return messages;
}

void BoxPoller::check_server_identity(const Session& session) {
  const auto* connection = dynamic_cast<const Connection*>(&session);
  const std::string_view server_identity =
      connection != nullptr ? connection->server_identity() : "";
  if (server_identity.empty()) return;
  const std::scoped_lock lock{server_identity_mutex_};
  if (server_identity_.empty()) server_identity_ = server_identity;
  if (server_identity_ == server_identity) return;
  throw ServerChanged("store " + store() + ": the server's identity is " +
                      std::string{server_identity} + ", not " + server_identity_ +
                      " as before: its epochs may repeat");
}

Claim BoxPoller::claim(Session* session, std::int64_t limit) {
  const Clock::time_point begin = Clock::now();
  const bool whole = !floor_ || begin >= next_full_look_;
  // A store without notifications is polled rarely: it needs no second connection for that.
  const bool expects_nothing = !called_here_ && watch_.working();
  const ClaimRequest request{.owner = parts_.owner,
                             .lease = parts_.options.lease,
                             .limit = limit,
                             .visible_from = whole ? std::nullopt : floor_,
                             .asks_next_due = whole,
                             .looks_first = whole && expects_nothing,
                             .check = [this](const Session& of) { check_server_identity(of); }};
  Claim claim = session != nullptr ? claim_or_dead_letter(*queue_, *session, request)
                                   : claim_or_dead_letter(*queue_, request);
  next_due_ = claim.next_due;
  if (whole) {
    next_full_look_ = begin + std::min(full_look_share * since(begin), longest_without_full_look);
  }
  return claim;
}

std::vector<Message> BoxPoller::claim_alone(std::int64_t limit) {
  Claim claim = noting_lost_claim([&] { return this->claim(nullptr, limit); });
  report_dead(claim.dead);
  return std::move(claim.leased);
}

std::vector<Message> BoxPoller::settle_and_claim(std::vector<Settlement>& settlements,
                                                 std::int64_t limit) {
  if (limit == 0) {
    write_down(settlements);
    return {};
  }
  static_cast<void>(queue());
  const Clock::time_point begin = Clock::now();
  std::vector<Message> messages;
  std::string refusal;
  if (settlements.empty() || !settle_with_claim(settlements, limit, messages, refusal))
    messages = claim_alone(limit);
  // The rest was refused by a working database.
  give_up(settlements, refusal);
  const bool full = static_cast<std::int64_t>(messages.size()) == limit;
  if (messages.empty() && floor_) {
    floor_.reset();
    messages = claim_alone(limit);
  }
  // A claim with fewer rows than requested says nothing about later due times.
  floor_ = full ? std::optional{messages.front().visible_at} : std::nullopt;
  if (called_ != Clock::time_point{} && observer_.woken) {
    observer_.woken(store(), since(called_));
  }
  called_ = {};
  if (!messages.empty() && !called_here_) watch_.found();
  called_here_ = false;
  if (observer_.claimed && !messages.empty())
    observer_.claimed(store(), messages.size(), since(begin));
  plan_next_look(messages.size(), full);
  return messages;
}

/// False: there was no claim, since one of the settlements was refused.
bool BoxPoller::settle_with_claim(std::vector<Settlement>& settlements, std::int64_t limit,
                                  std::vector<Message>& messages, std::string& refusal) {
  const Clock::time_point begin = Clock::now();
  std::size_t lost = 0;
  Claim some;
  try {
    some = noting_lost_claim([&] {
      return box_of(*queue_).in_own_transaction(
          Access::write, Scope::transaction, [&](Session& session) {
            lost = settle(*queue_, session, parts_.owner, settlements);
            return claim(&session, limit);
          });
    });
  } catch (const std::exception& error) {
    if (!may_lie_in_one(error)) throw;
    refusal = settle_each(settlements);
    return false;
  }
  written_down(settlements, lost, begin);
  settlements.clear();
  report_dead(some.dead);
  messages = std::move(some.leased);
  return true;
}

void BoxPoller::write_down(std::vector<Settlement>& settlements) {
  if (settlements.empty()) return;
  const Clock::time_point begin = Clock::now();
  const std::size_t count = settlements.size();
  std::size_t lost = 0;
  try {
    lost = settle(queue(), parts_.owner, settlements);
  } catch (const std::exception& error) {
    if (!may_lie_in_one(error)) throw;
    const std::string refusal = settle_each(settlements);
    // The database may be refusing every write.
    if (settlements.size() == count) throw;
    give_up(settlements, refusal);
    return;
  }
  written_down(settlements, lost, begin);
  settlements.clear();
}

bool BoxPoller::writes_in_parallel() const {
  Database& database = queue_->database();
  return database.dialect() != Dialect::sqlite && pool_of(database).bound().count > 1;
}

/// Leaves the refused ones in the list; returns why.
std::string BoxPoller::settle_each(std::vector<Settlement>& settlements) {
  std::string refusal;
  for (std::size_t i = 0; i < settlements.size();) {
    const Clock::time_point begin = Clock::now();
    const std::vector<Settlement> one{settlements[i]};
    try {
      const std::size_t lost = settle(*queue_, parts_.owner, one);
      settlements.erase(settlements.begin() + static_cast<std::ptrdiff_t>(i));
      written_down(one, lost, begin);
    } catch (const std::exception& error) {
      if (!may_lie_in_one(error)) throw;
      refusal = error.what();
      ++i;
    }
  }
  return refusal;
}

void BoxPoller::written_down(const std::vector<Settlement>& settlements, std::size_t lost,
                             Clock::time_point begin) const {
  report(*queue_, observer_, settlements);
  report_lost(lost);
  if (observer_.settled) observer_.settled(store(), settlements.size(), since(begin));
}

void BoxPoller::give_up(std::vector<Settlement>& settlements, std::string_view why) const {
  for (const Settlement& one : settlements) {
    parts_.environment.write(LogLevel::error, "settle_error",
                             {{"store", std::string_view{store()}},
                              {"topic", one.message->topic.view()},
                              {"handler", one.message->handler.view()},
                              {"id", one.message->id.view()},
                              {"error", why}});
    if (observer_.loop_error) observer_.loop_error(store(), why);
  }
  settlements.clear();
}

std::vector<SharedTask> BoxPoller::renew(const std::vector<SharedTask>& tasks) {
  if (tasks.empty()) return {};
  std::vector<Lease> leases;
  for (const SharedTask& task : tasks) leases.push_back(task->message.lease());
  std::vector<DeliveryId> kept = queue().renew(parts_.owner, leases, parts_.options.lease);
  std::sort(kept.begin(), kept.end());
  std::vector<SharedTask> others;
  for (const SharedTask& task : tasks) {
    if (!std::binary_search(kept.begin(), kept.end(), task->message.delivery_id))
      others.push_back(task);
  }
  return others;
}

bool BoxPoller::log_if_full(Duration bound) {
  Duration waited{};
  try {
    waited = wait_of_oldest_due(box_of(queue()));
  } catch (const DatabaseError&) {
    // The next claim finds the cause.
  }
  if (waited < bound) return false;
  parts_.environment.write(LogLevel::warning, "workers_full",
                           {{"store", std::string_view{store()}},
                            {"workers", std::int64_t{parts_.options.workers}},
                            {"waiting_s", std::chrono::duration<double>(waited).count()}});
  return true;
}

void BoxPoller::look_now(Clock::time_point call, bool remote) noexcept {
  called_ = call;
  called_here_ = !remote;
  next_look_ = {};
  // The watch of a file also reports the writes of heartbeat_. One poll is enough then: a file has
  // one writer at a time, so earlier commits of others are visible.
  if (remote && !heartbeat_.wrote_at(call)) pace_ = first_pace;
}

/// A claim that found deliveries may have left some: one whose last worker died is handed out
/// alone. So only an empty claim means that nothing is due.
void BoxPoller::plan_next_look(std::size_t count, bool full) {
  const Clock::time_point now = Clock::now();
  if (count > 0) {
    watch_.set_waiting(false);
    pace_ = first_pace;
    next_look_ = full ? now : now + pace_;
    return;
  }
  watch_.set_waiting(true);
  // With notifications, polling is only for what has none: expired leases.
  const Duration usual = watch_.working() ? watched_pace : Duration{};
  const Duration longest =
      std::max({parts_.options.poll_interval, usual, parts_.box_pollers.load() * idle_look});
  pace_ = pace_ == Duration{} ? parts_.options.poll_interval : std::min(2 * pace_, longest);
  Duration wait = pace_;
  if (next_due_ && pace_ > first_pace) wait = std::clamp(*next_due_, first_pace, pace_);
  next_look_ = now + wait;
}

Duration BoxPoller::backoff_after(const std::exception& error, bool cut_short) {
  if (cut_short) {
    return backoff_after(DatabaseError{
        DatabaseError::Kind::connection_lost,
        "store " + store() +
            ": no answer yet, and other stores need the thread: the call was ended. Check that its "
            "server runs, and what holds its locks"});
  }
  Duration rest = parts_.options.restart_delay;
  if (const auto* failure = dynamic_cast<const DatabaseError*>(&error)) {
    const Duration longest =
        may_be_back(failure->kind()) ? longest_rest_out_of_reach : longest_rest;
    rest = first_rest;
    for (int i = 0; i < failures_ && rest < longest; ++i) rest *= 2;
    rest = std::min(rest, longest);
    const auto half = static_cast<std::uint64_t>((rest / 2).count());
    rest = rest / 2 +
           Duration{static_cast<std::int64_t>(parts_.environment.random_bits() % (half + 1))};
  }
  ++failures_;
  parts_.environment.write(
      LogLevel::error, "loop_error",
      {{"store", std::string_view{store()}}, {"error", text_of(error)}, {"pause_ms", rest / 1ms}});
  if (observer_.loop_error) observer_.loop_error(store(), text_of(error));
  return rest;
}

void BoxPoller::report_dead(const std::vector<DeadDelivery>& deliveries) const {
  if (!observer_.dead) return;
  for (const DeadDelivery& dead : deliveries)
    observer_.dead(store(), dead.message, dead.reason, dead.error);
}

void BoxPoller::report_lost(std::size_t count) const {
  if (count == 0) return;
  box_of(*queue_).log(LogLevel::warning, "lease_lost",
                      {{"count", static_cast<std::int64_t>(count)}});
  if (observer_.lease_lost) observer_.lease_lost(store(), count);
}

}  // namespace twinbox
