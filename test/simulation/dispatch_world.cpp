// Whole dispatchers, one per process, stepped on one thread. While a handler hangs the others go
// on: inside its call, which is as good as beside it.
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>

#include "database/open_driver.hpp"
#include "simulation/actor.hpp"
#include "simulation/calls.hpp"
#include "simulation/oracle.hpp"
#include "simulation/process.hpp"
#include "simulation/sending.hpp"
#include "simulation/world.hpp"
#include <twinbox/dispatcher.hpp>

namespace twinbox::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t remembered_steps = 60;
constexpr int max_attempts = 3;
constexpr int deepest = 2;
constexpr Duration lease = 20s;

class DispatchWorld {
 public:
  explicit DispatchWorld(const WorldOptions& options)
      : options_(options),
        dice_(options.seed),
        faults_{.dice = dice_, .commits_lie = options.commits_lie},
        box_(dice_.one_in(3) ? BoxKind::outbox : BoxKind::inbox) {
    faults_.one_in = 20 + dice_.roll(200);
    const std::size_t count = 1 + dice_.roll(3);
    for (std::size_t i = 0; i < count; ++i) {
      stores_.push_back(std::make_unique<SimulatedStore>(options.seed * 8 + i));
      open_queue(*stores_.back());
    }
    for (int i = 0; i < 3; ++i) workers_.push_back(new_worker());
    producer_ = new_process();
    sweeper_ = new_process();
  }

  WorldReport run() {
    faults_.on = true;
    for (int i = 0; i < options_.steps && kept(); ++i) act();
    faults_.on = false;
    note("the faults stop");
    try {
      if (kept()) come_to_rest();
    } catch (const Violation& violation) {
      refuse(violation.what());
    }
    report_.faults = faults_.happened;
    report_.steps.assign(steps_.begin(), steps_.end());
    return report_;
  }

 private:
  void note(std::string text) {
    steps_.push_back(std::string(static_cast<std::size_t>(depth_) * 2, ' ') + std::move(text));
    if (steps_.size() > remembered_steps) steps_.pop_front();
  }

  /// What a dispatcher would catch cannot be thrown: it is kept, and the world ends.
  void refuse(const std::string& violation) {
    if (kept()) report_.violation = violation;
  }
  [[nodiscard]] bool kept() const { return report_.violation.empty(); }

  [[nodiscard]] bool is_inbox() const { return box_ == BoxKind::inbox; }
  [[nodiscard]] static std::string store_name(std::size_t i) { return "s" + std::to_string(i); }

  // ---- processes

  [[nodiscard]] BoxOptions box_options() const {
    BoxOptions options;
    options.deploy_schema = true;
    options.retry.max_attempts = max_attempts;
    return options;
  }

  Environment environment() {
    return {.clock = [this] { return now_; },
            .random = [this] { return dice_.bits(); },
            .log = [](const LogEvent&) {}};
  }

  /// What a dispatcher releases and claims again in one step is seen in between.
  Environment environment_of(Process& process) {
    Environment watched = environment();
    watched.log_level = LogLevel::warning;
    watched.log = [this, &process](const LogEvent& event) {
      if (event.name == "release_lost") observe(process.actor());
    };
    return watched;
  }

  void open_queue(SimulatedStore& place) {
    Database database{place.storage.address(), {}, environment()};
    if (is_inbox()) {
      Inbox{database, box_options()};
    } else {
      Outbox{database, box_options()};
    }
    make_effects(place.oracle);
  }

  std::unique_ptr<Process> new_process() {
    auto process = std::make_unique<Process>();
    const DriverDecorator faulty{[&](std::unique_ptr<Driver> driver) {
      return make_faulty(std::move(driver), faults_, process->dead);
    }};
    std::vector<StoreDefinition> definitions;
    for (std::size_t i = 0; i < stores_.size(); ++i) {
      definitions.push_back({.name = store_name(i),
                             .address = stores_[i]->storage.address(),
                             .database = {.retries = 0},  // to repeat would take real time
                             .outbox = box_options(),
                             .inbox = box_options()});
    }
    process->set = std::make_unique<DatabaseSet>(std::move(definitions), DatabaseSetOptions{},
                                                 environment_of(*process));
    return process;
  }

  std::unique_ptr<Process> new_worker() {
    auto worker = new_process();
    DispatcherOptions options;
    options.lease = lease;
    options.batch = static_cast<std::int64_t>(1 + dice_.roll(5));
    options.no_handler = dice_.one_in(2) ? NoHandler::retry : NoHandler::dead;
    options.order = dice_.one_in(2) ? PollOrder::round_robin : PollOrder::drain_first;
    worker->dispatcher = std::make_unique<Dispatcher>(*worker->set, box_, handlers(*worker),
                                                      options, observer(*worker));
    return worker;
  }

  Handlers handlers(Process& process) {
    return make_handlers(
        {.handle = [this, &process](const Message& message,
                                    Kind kind) { return handle(process, message, kind); },
         .handle_in_transaction =
             [this, &process](Session& session, const Message& message) {
               return handle_in_transaction(process, session, message);
             },
         .handle_batch =
             [this, &process](std::span<const Message> messages) {
               return handle_batch(process, messages);
             }});
  }

  DispatchObserver observer(Process& process) {
    DispatchObserver next;
    next.claimed = [this, &process](auto, std::size_t count, Duration) {
      report_.claims += count;
      process.claimed_until = now_ + lease;
      observe(process.actor());
    };
    next.settled = [this, &process](auto...) { observe(process.actor()); };
    next.lease_lost = [this, &process](auto...) {
      const bool could_be = latest_ >= process.claimed_until;
      if (!could_be && faults_.happened == process.faults_before)
        refuse("a settle under a live lease changed nothing");
    };
    return stats_.observer(std::move(next));
  }

  // ---- handlers

  void begin(Process& process, const Message& message, Kind kind) {
    // What catches a crash may come this far before it needs the database again.
    if (process.dead) throw Crash{};
    const DeliveryName delivery = delivery_of(message);
    try {
      calls_.begun(delivery, kind);
    } catch (const Violation& violation) {
      refuse(violation.what());
    }
    note("call " + message.id.str() + " for '" + delivery.handler + "', epoch " +
         std::to_string(message.epoch));
  }

  Outcome answer(const Message& message, Answer answer, Outcome outcome) {
    calls_.answered(delivery_of(message), answer);
    return outcome;
  }

  /// An answer by chance.
  Outcome choose(Process& process, const Message& message) {
    if (process.dead) throw Crash{};
    switch (faults_.on ? dice_.roll(16) : 15) {
      case 0: return answer(message, Answer::retry, Outcome::retry("not yet"));
      case 1: return answer(message, Answer::retry, Outcome::retry("not yet", 3s));
      case 2: return answer(message, Answer::dead, Outcome::dead("never"));
      case 3: return answer(message, Answer::postpone, Outcome::postpone(now_ + 15s));
      case 4:
        calls_.answered(delivery_of(message), Answer::retry);
        throw std::runtime_error("a handler that throws");
      case 5:
        calls_.answered(delivery_of(message), Answer::retry);
        throw 5;  // NOLINT: no exception that anybody knows
      case 6:
        note("it takes its process down");
        process.dead = true;
        throw Crash{};
      default: return answer(message, Answer::done, Outcome::done());
    }
  }

  Outcome handle(Process& process, const Message& message, Kind kind) {
    begin(process, message, kind);
    observe(process.actor());
    if (faults_.on && dice_.one_in(5)) hang(process, message, kind);
    return choose(process, message);
  }

  /// Nobody else can write meanwhile, so nobody else acts.
  Outcome handle_in_transaction(Process& process, Session& session, const Message& message) {
    begin(process, message, Kind::transactional);
    session.execute("insert into effect (id, handler) values (@id, @handler)",
                    {{"id", message.id.view()}, {"handler", message.handler.view()}});
    return choose(process, message);
  }

  std::vector<Outcome> handle_batch(Process& process, std::span<const Message> messages) {
    for (const Message& message : messages) begin(process, message, Kind::batch);
    observe(process.actor());
    if (faults_.on && dice_.one_in(5)) hang(process, messages[0], Kind::batch);
    std::vector<Outcome> outcomes;
    for (const Message& message : messages) outcomes.push_back(choose(process, message));
    if (faults_.on && dice_.one_in(20)) outcomes.pop_back();
    return outcomes;
  }

  /// Time passes, with or without renewals, and others go on.
  void hang(Process& process, const Message& message, Kind kind) {
    const bool renews = dice_.one_in(2);
    note(renews ? "it takes its time, under renewals" : "it hangs");
    const int turns = static_cast<int>(1 + dice_.roll(4));
    ++depth_;
    for (int i = 0; i < turns && kept(); ++i) {
      pass(renews ? lease / 3 : lease * 2 / 3);
      // A delivery at most once has no lease any more.
      if (renews && (kind == Kind::plain || kind == Kind::batch)) renew(process, message);
      for (int others = 0; others < 3 && depth_ <= deepest; ++others) act();
    }
    --depth_;
  }

  void renew(Process& process, const Message& message) {
    const std::size_t store = sendings_.at(message.id.str()).store;
    const auto found = process.set->find(store_name(store));
    WorkQueue& queue = is_inbox() ? static_cast<WorkQueue&>(found->inbox()) : found->outbox();
    std::vector<DeliveryId> kept_leases;
    const CallResult result =
        checked([&] { kept_leases = queue.renew(process.dispatcher->owner(), message, lease); });
    note("renew " + message.id.str() + ": " + to_string(result) +
         (kept_leases.empty() ? "" : ", kept"));
    observe(process.actor());
  }

  // ---- acts

  /// Like make, for what must not be thrown through a dispatcher.
  template <class Call>
  CallResult checked(Call call) {
    try {
      return make(call);
    } catch (const std::exception& error) {
      refuse(error.what());
      return CallResult::nothing_happened;
    }
  }

  void act() {
    const std::size_t chance = dice_.roll(20);
    if (chance < 6) {
      produce();
    } else if (chance < 16) {
      work(workers_[dice_.roll(workers_.size())]);
    } else if (chance < 18) {
      sweep();
    } else {
      move_clock();
    }
  }

  void work(std::unique_ptr<Process>& worker) {
    if (worker->busy) return;
    if (dice_.one_in(40)) {
      note("a worker dies between two steps");
      worker->dead = true;
    } else {
      step(*worker);
    }
    if (!worker->dead) return;
    ++report_.crashes;
    worker = new_worker();
  }

  std::size_t step(Process& worker) {
    worker.busy = true;
    worker.faults_before = faults_.happened;
    note("step of " + worker.dispatcher->owner().str().substr(0, 4));
    std::size_t count = 0;
    const CallResult result = checked([&] { count = worker.dispatcher->step(); });
    note("… " + std::string{to_string(result)} + ", " + std::to_string(count) + " messages");
    observe(worker.actor());
    worker.busy = false;
    return count;
  }

  void produce() {
    std::string id;
    if (!unsure_.empty() && dice_.roll(3) > 0) {
      id = *std::next(unsure_.begin(), static_cast<std::ptrdiff_t>(dice_.roll(unsure_.size())));
    } else if (!sendings_.empty() && dice_.one_in(5)) {
      id = std::next(sendings_.begin(), static_cast<std::ptrdiff_t>(dice_.roll(sendings_.size())))
               ->first;
    } else {
      id = "m" + std::to_string(sendings_.size());
      sendings_.emplace(id, choose_sending(dice_, stores_.size(), is_inbox()));
    }
    const Sending& sending = sendings_.at(id);
    const CallResult result = checked([&] { send(id, sending); });
    note("send " + id + " to " + store_name(sending.store) + ": " + to_string(result));
    observe({});
    if (result == CallResult::answered) {
      for (const DeliveryName& delivery : deliveries_of(id, sending)) promised_.insert(delivery);
      unsure_.erase(id);
      return;
    }
    if (result == CallResult::in_doubt || dice_.one_in(2)) unsure_.insert(id);
    if (producer_->dead) producer_ = new_process();
  }

  void send(const std::string& id, const Sending& sending) {
    const MessageExtras extras = choose_extras(dice_, sending, now_);
    const auto store = producer_->set->find(store_name(sending.store));
    if (is_inbox()) {
      store->inbox().accept(arrival_of(id, sending, extras), handlers_of(sending));
    } else {
      store->outbox().enqueue(message_of(id, sending, extras));
    }
  }

  void sweep() {
    const auto store = sweeper_->set->find(store_name(dice_.roll(stores_.size())));
    const bool reaps = dice_.one_in(2);
    const CallResult result = checked([&] {
      WorkQueue& queue = is_inbox() ? static_cast<WorkQueue&>(store->inbox()) : store->outbox();
      reaps ? queue.reap() : queue.expire();
    });
    note(std::string{reaps ? "reap: " : "expire: "} + to_string(result));
    observe({});
    if (sweeper_->dead) sweeper_ = new_process();
  }

  void move_clock() {
    static constexpr std::array<Duration, 6> moves{1s, 5s, 25s, 5min, -5s, -60s};
    pass(moves[dice_.roll(moves.size())]);
  }

  void pass(Duration time) {
    now_ += time;
    latest_ = std::max(latest_, now_);
    note("the clock moves by " + std::to_string(time / 1s) + " s");
  }

  // ---- judging

  void observe(const Actor& actor) {
    try {
      for (const auto& place : stores_) {
        std::optional<Snapshot> now = take_snapshot(place->oracle, is_inbox(), place->picture);
        if (!now) continue;
        check_change(place->picture, *now, actor, now_, max_attempts);
        place->picture = std::move(*now);
      }
    } catch (const std::exception& violation) {
      refuse(violation.what());
    }
  }

  [[nodiscard]] bool all_finished() const {
    return std::all_of(stores_.begin(), stores_.end(),
                       [](const auto& place) { return place->picture.work.empty(); });
  }

  /// No more faults, and handlers that succeed: everything must end.
  void come_to_rest() {
    for (int round = 0; !all_finished() && kept(); ++round) {
      if (round == 1000) throw Violation("work is left that nobody can claim");
      std::size_t count = 0;
      for (auto& worker : workers_) count += step(*worker);
      for (std::size_t i = 0; i < stores_.size(); ++i) sweep();
      if (count == 0) pass(60s);
    }
    std::map<DeliveryName, OutcomeRow> outcomes;
    std::map<DeliveryName, int> effects;
    for (const auto& place : stores_) {
      outcomes.insert(place->picture.outcomes.begin(), place->picture.outcomes.end());
      effects.insert(place->picture.effects.begin(), place->picture.effects.end());
    }
    for (const DeliveryName& delivery : promised_) {
      if (!outcomes.contains(delivery))
        throw Violation("lost: " + delivery.id + " for '" + delivery.handler + "'");
    }
    for (const auto& [delivery, outcome] : outcomes) {
      const auto effect = effects.find(delivery);
      calls_.check_end(delivery, kind_of(delivery, sendings_.at(delivery.id)), outcome,
                       effect == effects.end() ? 0 : effect->second, max_attempts);
      if (outcome.state == State::done) ++report_.done;
      if (outcome.state == State::dead) ++report_.dead;
    }
    report_.deliveries = outcomes.size();
    const StoreStats stats = stats_.snapshot().all;
    if (stats.in_flight != 0) throw Violation("the statistics show calls that do not run");
    report_.stale = stats.lease_lost;
    report_.calls = stats.handled;
  }

  WorldOptions options_;
  Dice dice_;
  Faults faults_;
  BoxKind box_;
  Instant now_{std::chrono::sys_days{std::chrono::January / 15 / 2030}};
  Instant latest_ = now_;  ///< the clock may step back: a lease that it has passed may be over
  int depth_ = 0;
  DispatchStats stats_;
  std::vector<std::unique_ptr<SimulatedStore>> stores_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::unique_ptr<Process> producer_;
  std::unique_ptr<Process> sweeper_;
  std::map<std::string, Sending> sendings_;
  std::set<std::string> unsure_;
  std::set<DeliveryName> promised_;
  Calls calls_;
  std::deque<std::string> steps_;
  WorldReport report_;
};

}  // namespace

WorldReport run_dispatch_world(const WorldOptions& options) { return DispatchWorld{options}.run(); }

}  // namespace twinbox::simulation
