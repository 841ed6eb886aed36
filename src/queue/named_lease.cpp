#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "queue/box.hpp"
#include "queue/steady_time.hpp"
#include "twinbox/housekeeping.hpp"

namespace twinbox {
namespace {

constexpr int most_slots = 1000;

void require_slots(int slots) {
  if (slots < 1 || slots > most_slots) {
    throw std::out_of_range("slots: " + std::to_string(slots) + ", must be 1 to " +
                            std::to_string(most_slots));
  }
}

LeaseName slot(const LeaseName& name, int number) {
  return LeaseName{name.str() + "/" + std::to_string(number), Unchecked{}};
}

std::vector<LeaseHolder> read_holders(Box& box, const Statement& statement,
                                      std::span<const Arg> args) {
  return box.in_own_transaction(Access::read, Scope::statement, [&](Session& session) {
    std::vector<LeaseHolder> found;
    box.run(session, statement, args, [&](const Row& row) {
      found.push_back({{LeaseName{std::string{row.text(0)}, Unchecked{}}, OwnerToken{row.uuid(1)},
                        row.integer(2)},
                       row.instant(3)});
    });
    return found;
  });
}

std::vector<LeaseHolder> holders(Box& box, const std::vector<LeaseName>& names) {
  std::vector<Value> wanted;
  for (const LeaseName& name : names) wanted.emplace_back(name.view());
  const Arg args[] = {{"name", ValueType::text, wanted}, box.now()};
  return read_holders(box, box.sql().lease_holders, args);
}

}  // namespace

std::vector<LeaseHolder> NamedLeases::held(std::int64_t limit, std::string_view after) {
  require_limit(limit);
  const Arg args[] = {{"limit", limit}, {"after", after}, box_of(queue_).now()};
  return read_holders(box_of(queue_), box_of(queue_).sql().lease_list, args);
}

std::optional<NamedLease> NamedLeases::try_acquire(const LeaseName& name, OwnerToken owner,
                                                   Duration duration) {
  require_lease(duration);
  Box& box = box_of(queue_);
  // Durable: an epoch lost in a power cut would be issued a second time.
  const auto epoch = box.write([&](Session& session) {
    std::optional<std::int64_t> given;
    box.run(session, box.sql().lease_acquire,
            {{"name", name.view()},
             {"owner", Value{owner.uuid()}},
             {"lease", micros(duration)},
             box.now()},
            [&](const Row& row) { given = row.integer(0); });
    return given;
  });
  box.log(LogLevel::debug, "lease_acquire",
          {{"name", name.view()}, {"acquired", epoch.has_value()}, {"epoch", epoch.value_or(0)}});
  if (!epoch) return std::nullopt;
  return NamedLease{name, owner, *epoch};
}

std::optional<NamedLease> NamedLeases::try_acquire_one_of(const LeaseName& name, int slots,
                                                          OwnerToken owner, Duration duration) {
  require_lease(duration);
  require_slots(slots);
  std::vector<LeaseName> free;
  for (int number = 1; number <= slots; ++number) free.push_back(slot(name, number));
  for (const LeaseHolder& taken : holders(box_of(queue_), free)) {
    if (taken.lease.owner != owner) {
      std::erase(free, taken.lease.name);
    } else if (auto again = try_acquire(taken.lease.name, owner, duration)) {
      return again;
    }
  }
  for (const LeaseName& each : free) {
    if (auto lease = try_acquire(each, owner, duration)) return lease;
  }
  return std::nullopt;
}

bool NamedLeases::renew(const NamedLease& lease, Duration duration) {
  require_lease(duration);
  Box& box = box_of(queue_);
  // On SQLite a power cut that loses it also ends this process: then it is not needed.
  const bool renewed =
      box.in_own_transaction(Access::write_relaxed, Scope::statement, [&](Session& session) {
        return box.run(session, box.sql().lease_renew,
                       {{"name", lease.name.view()},
                        {"owner", Value{lease.owner.uuid()}},
                        {"epoch", lease.epoch},
                        {"lease", micros(duration)},
                        box.now()}) > 0;
      });
  box.log(LogLevel::debug, "lease_renew",
          {{"name", lease.name.view()}, {"epoch", lease.epoch}, {"renewed", renewed}});
  return renewed;
}

bool NamedLeases::release(const NamedLease& lease) {
  Box& box = box_of(queue_);
  const bool released =
      box.in_own_transaction(Access::write_relaxed, Scope::statement, [&](Session& session) {
        return box.run(session, box.sql().lease_release,
                       {{"name", lease.name.view()},
                        {"owner", Value{lease.owner.uuid()}},
                        {"epoch", lease.epoch},
                        box.now()}) > 0;
      });
  box.log(LogLevel::debug, "lease_release",
          {{"name", lease.name.view()}, {"epoch", lease.epoch}, {"released", released}});
  return released;
}

std::optional<LeaseHolder> NamedLeases::holder(const LeaseName& name) {
  const std::vector<LeaseHolder> found = holders(box_of(queue_), {name});
  if (found.empty()) return std::nullopt;
  return found.front();
}

/// The held lease is under the mutex; everything else belongs to the stepping thread.
class LeaseKeeper::State {
 public:
  State(WorkQueue& queue, LeaseName name, OwnerToken owner, LeaseKeeperOptions options)
      : queue_(queue), leases_(queue), name_(std::move(name)), owner_(owner), options_(options) {
    require_lease(options_.lease);
    require_slots(options_.slots);
    if (options_.retry_interval <= Duration::zero())
      throw std::out_of_range("retry_interval: must be longer than zero");
  }

  Duration step() {
    const Duration now = time();
    const auto [lease, ends] = kept();
    if (!lease || ends <= now) return try_to_acquire(now);
    const Duration next = ends - options_.lease + options_.lease / 3;
    if (now < next) return next - now;
    if (leases_.renew(*lease, options_.lease)) {
      keep(lease, now + options_.lease);
      return options_.lease / 3;
    }
    lose(*lease);
    return try_to_acquire(time());
  }

  bool acquire(const std::stop_token& stop, Duration timeout) {
    const Duration deadline = time() + std::min(timeout, ever);
    std::unique_lock lock{wait_mutex_};
    while (!stop.stop_requested()) {
      step();
      if (held()) return true;
      if (time() >= deadline) return false;
      waiting_.wait_for(lock, stop, std::min(options_.retry_interval, deadline - time()),
                        [] { return false; });
    }
    return held();
  }

  [[nodiscard]] std::optional<NamedLease> lease() const {
    const auto [lease, ends] = kept();
    return ends > time() ? lease : std::nullopt;
  }
  [[nodiscard]] bool held() const { return lease().has_value(); }

  void release() {
    const auto lease = kept().first;
    keep(std::nullopt, {});
    if (lease) leases_.release(*lease);
  }

  void release_quietly() noexcept {
    try {
      release();
    } catch (const std::exception& error) {
      // It runs out by itself.
      box_of(queue_).log(LogLevel::warning, "lease_release_error",
                         {{"name", name_.view()}, {"error", std::string_view{error.what()}}});
    }
  }

 private:
  [[nodiscard]] Duration time() const { return steady_time(queue_.database().environment()); }

  [[nodiscard]] std::pair<std::optional<NamedLease>, Duration> kept() const {
    const std::scoped_lock lock{mutex_};
    return {lease_, ends_};
  }
  void keep(const std::optional<NamedLease>& lease, Duration ends) {
    const std::scoped_lock lock{mutex_};
    lease_ = lease;
    ends_ = ends;
  }
  void lose(const NamedLease& lease) {
    keep(std::nullopt, {});
    box_of(queue_).log(LogLevel::warning, "lease_lost",
                       {{"name", lease.name.view()}, {"epoch", lease.epoch}});
  }

  Duration try_to_acquire(Duration now) {
    if (const auto lease = kept().first) lose(*lease);
    const auto lease = options_.slots == 1 ? leases_.try_acquire(name_, owner_, options_.lease)
                                           : leases_.try_acquire_one_of(name_, options_.slots,
                                                                        owner_, options_.lease);
    if (!lease) return options_.retry_interval;
    keep(lease, now + options_.lease);
    box_of(queue_).log(LogLevel::info, "lease_held",
                       {{"name", lease->name.view()}, {"epoch", lease->epoch}});
    return options_.lease / 3;
  }

  WorkQueue& queue_;
  NamedLeases leases_;
  const LeaseName name_;
  const OwnerToken owner_;
  const LeaseKeeperOptions options_;

  mutable std::mutex mutex_;
  std::optional<NamedLease> lease_;
  Duration ends_{};  ///< by steady_time

  std::mutex wait_mutex_;
  std::condition_variable_any waiting_;
};

LeaseKeeper::LeaseKeeper(WorkQueue& queue, LeaseName name, OwnerToken owner,
                         LeaseKeeperOptions options)
    : state_(std::make_unique<State>(queue, std::move(name), owner, options)) {}

LeaseKeeper::~LeaseKeeper() { state_->release_quietly(); }

Duration LeaseKeeper::step() { return state_->step(); }
bool LeaseKeeper::acquire(std::stop_token stop, Duration timeout) {
  return state_->acquire(stop, timeout);
}
bool LeaseKeeper::held() const { return state_->held(); }
std::optional<NamedLease> LeaseKeeper::lease() const { return state_->lease(); }
void LeaseKeeper::release() { state_->release(); }

}  // namespace twinbox
