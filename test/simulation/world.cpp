#include "simulation/world.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "database/pool.hpp"
#include "simulation/actor.hpp"
#include "simulation/faulty_driver.hpp"
#include "simulation/final_state.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::simulation {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t remembered_steps = 40;

class World {
 public:
  explicit World(const WorldOptions& options)
      : options_(options),
        dice_(options.seed),
        faults_{.dice = dice_, .commits_lie = options.commits_lie},
        storage_(options.on_file, options.seed),
        is_inbox_(!dice_.one_in(3)),
        hold_keys_(dice_.one_in(2)) {
    if (hold_keys_) ledger_.hold_keys();
    faults_.one_in = 20 + dice_.roll(200);
    for (int i = 0; i < 3; ++i) workers_.push_back({new_owner(), site(), {}});
    producer_ = site();
    sweeper_ = site();
  }

  WorldReport run() {
    try {
      faults_.on = true;
      for (int i = 0; i < options_.steps; ++i) step();
      faults_.on = false;
      note("the faults stop");
      come_to_rest();
    } catch (const Violation& violation) {
      report_.violation = violation.what();
    }
    report_.faults = faults_.happened;
    report_.steps.assign(steps_.begin(), steps_.end());
    return report_;
  }

 private:
  void note(std::string text) {
    steps_.push_back(std::move(text));
    if (steps_.size() > remembered_steps) steps_.pop_front();
  }

  OwnerToken new_owner() {
    Uuid uuid;
    for (auto& byte : uuid.bytes) byte = static_cast<std::uint8_t>(dice_.bits());
    uuid.bytes[0] = static_cast<std::uint8_t>(uuid.bytes[0] | 1u);
    return OwnerToken{uuid};
  }

  std::shared_ptr<ProcessStores> site() {
    if (!options_.on_file && shared_site_) return shared_site_;
    auto made = std::make_shared<ProcessStores>();
    Environment environment{.clock = [this] { return now_; },
                            .random = [this] { return dice_.bits(); },
                            .log = [](const LogEvent&) {}};
    DatabaseOptions database;
    database.retry_timeout = std::chrono::milliseconds{0};  // its clock stands still
    database.retries = 2;
    PoolTime time{.now = [] { return std::chrono::steady_clock::time_point{}; },
                  .wait = [](std::chrono::milliseconds) {}};
    made->database.reset(new Database(database_over(std::make_unique<Pool>(
        make_faulty_driver(storage_.address(), faults_, database, environment), database,
        environment, time))));
    const bool faults_were_on = std::exchange(faults_.on, false);
    BoxOptions box;
    box.deploy_schema = true;
    box.hold_keys = hold_keys_;
    if (is_inbox_) {
      made->inbox = std::make_unique<Inbox>(*made->database, box);
    } else {
      made->outbox = std::make_unique<Outbox>(*made->database, box);
    }
    faults_.on = faults_were_on;
    if (!options_.on_file) shared_site_ = made;
    return made;
  }

  void step() {
    const std::size_t chance = dice_.roll(20);
    if (chance < 6) {
      produce();
    } else if (chance < 16) {
      work(workers_[dice_.roll(workers_.size())]);
    } else if (chance < 18) {
      if (hold_keys_ && dice_.one_in(4)) {
        operate();
      } else {
        sweep();
      }
    } else {
      move_clock();
    }
  }

  void produce() {
    std::string id;
    if (!unsure_.empty() && dice_.roll(3) > 0) {
      id = *std::next(unsure_.begin(), static_cast<std::ptrdiff_t>(dice_.roll(unsure_.size())));
    } else if (!planned_.empty() && dice_.one_in(4)) {
      id = std::next(planned_.begin(), static_cast<std::ptrdiff_t>(dice_.roll(planned_.size())))
               ->first;
    } else {
      id = "m" + std::to_string(planned_.size());
      planned_.emplace(id, new_wish());
    }
    const PlannedMessage& planned = planned_.at(id);
    const bool known = ledger_.promises().contains({id, planned.handlers.front()});
    std::optional<Accepted> accepted;
    const bool in_callers_transaction = dice_.one_in(3);
    const MessageExtras extras = extras_of(planned);
    const CallResult result =
        make([&] { accepted = send(id, planned, extras, in_callers_transaction); });
    note((is_inbox_ ? "accept " : "enqueue ") + id +
         (in_callers_transaction ? " in a caller's transaction: " : ": ") + to_string(result));
    if (result == CallResult::answered) {
      if (known && accepted && accepted->state == Acceptance::accepted) {
        throw Violation("accepted a second time: " + id);
      }
      for (const std::string& handler : planned.handlers) ledger_.promised({id, handler});
      unsure_.erase(id);
    } else {
      // A producer that does not know asks again with the same id; one that crashed may forget.
      if (result == CallResult::in_doubt || dice_.one_in(2)) unsure_.insert(id);
      if (result == CallResult::crashed) producer_ = restarted(producer_);
    }
  }

  PlannedMessage new_wish() {
    PlannedMessage planned;
    switch (is_inbox_ ? dice_.roll(3) : 0) {
      case 1: planned.handlers = {"ledger"}; break;
      case 2: planned.handlers = {"ledger", "mail"}; break;
      default: planned.handlers = {""}; break;
    }
    if (dice_.one_in(3)) planned.partition_key = dice_.one_in(2) ? "x" : "y";
    return planned;
  }

  MessageExtras extras_of(const PlannedMessage& planned) {
    MessageExtras extras;
    if (planned.partition_key) extras.partition_key = PartitionKey{*planned.partition_key};
    if (dice_.one_in(5)) extras.due_at = now_ + 20s;
    if (dice_.one_in(8)) extras.expires_at = now_ + 90s;
    return extras;
  }

  std::optional<Accepted> send(const std::string& id, const PlannedMessage& planned,
                               const MessageExtras& extras, bool in_callers_transaction) {
    std::optional<Accepted> accepted;
    std::vector<HandlerName> handlers;
    for (const std::string& handler : planned.handlers) {
      if (!handler.empty()) handlers.push_back({HandlerKey{handler}});
    }
    const Arrival arrival{Source{"-"}, MessageId{id}, Topic{"topic"}, "content", extras};
    const NewMessage message{Topic{"topic"}, "content", MessageId{id}, {}, extras};
    const auto call = [&](auto&... session) {
      if (is_inbox_) {
        accepted = producer_->inbox->accept(session..., arrival, handlers);
      } else {
        producer_->outbox->enqueue(session..., message);
      }
    };
    if (in_callers_transaction) {
      producer_->database->in_transaction([&](Session& session) { call(session); });
    } else {
      call();
    }
    return accepted;
  }

  /// On a file the process loses its connections too.
  std::shared_ptr<ProcessStores> restarted(const std::shared_ptr<ProcessStores>& old) {
    ++report_.crashes;
    return options_.on_file ? site() : old;
  }

  void crash(Worker& worker) { worker = {new_owner(), restarted(worker.site), {}}; }

  void work(Worker& worker) {
    if (dice_.one_in(40)) {
      note("a worker dies between two calls");
      crash(worker);
    } else if (worker.held.empty() || dice_.one_in(3)) {
      claim(worker);
    } else {
      const auto place =
          worker.held.begin() + static_cast<std::ptrdiff_t>(dice_.roll(worker.held.size()));
      const Message message = *place;
      if (dice_.one_in(5)) {
        renew(worker, message);
      } else {
        worker.held.erase(place);
        settle(worker, message);
      }
    }
  }

  void claim(Worker& worker) {
    std::vector<Message> messages;
    const Duration lease = std::chrono::seconds{10 + dice_.roll(20)};
    const auto limit = static_cast<std::int64_t>(1 + dice_.roll(4));
    const CallResult result =
        make([&] { messages = worker.site->queue().claim(worker.owner, lease, limit); });
    std::string what = "claim by " + worker.owner.str().substr(0, 4) + ": " + to_string(result);
    if (result == CallResult::answered) {
      for (const Message& message : messages)
        what += " " + message.id.str() + message.handler.str();
      note(what);
      remember(messages);
      worker.held.insert(worker.held.end(), messages.begin(), messages.end());
    } else {
      note(what);
    }
    if (result == CallResult::crashed) crash(worker);
  }

  void remember(const std::vector<Message>& messages) {
    report_.claims += messages.size();
    for (const Message& message : messages) ledger_.claimed(message, now_);
  }

  void renew(Worker& worker, const Message& message) {
    std::vector<DeliveryId> kept;
    const CallResult result =
        make([&] { kept = worker.site->queue().renew(worker.owner, message, 20s); });
    note("renew " + message.id.str() + ": " + to_string(result) + (kept.empty() ? "" : ", kept"));
    if (result == CallResult::answered && !kept.empty())
      ledger_.renewed(message.lease(), now_ + 20s);
    if (result == CallResult::crashed) crash(worker);
  }

  void settle(Worker& worker, const Message& message) {
    WorkQueue& queue = worker.site->queue();
    const char* act = "";
    Ending ending = Ending::none;
    std::function<std::size_t()> call;
    switch (dice_.roll(10)) {
      case 0:
      case 1:
        act = "abandon";
        call = [&] { return queue.abandon(worker.owner, message, "failed"); };
        break;
      case 2:
        act = "fail";
        ending = Ending::dead;
        call = [&] { return queue.fail(worker.owner, message, "failed for ever"); };
        break;
      case 3:
        act = "release";
        call = [&] { return queue.release(worker.owner, message); };
        break;
      case 4:
        act = "postpone";
        call = [&] { return queue.postpone(worker.owner, message, now_ + 15s); };
        break;
      default:
        act = "ack";
        ending = Ending::done;
        call = [&] { return queue.ack(worker.owner, message); };
        break;
    }
    std::size_t changed = 0;
    const CallResult result = make([&] { changed = call(); });
    note(std::string{act} + " " + message.id.str() + message.handler.str() + ": " +
         to_string(result) +
         (result == CallResult::answered ? ", changed " + std::to_string(changed) : ""));
    switch (result) {
      case CallResult::answered: ledger_.settled(message, changed, ending, now_); break;
      case CallResult::nothing_happened: worker.held.push_back(message); break;
      case CallResult::in_doubt: ledger_.settle_in_doubt(message); break;
      case CallResult::crashed:
        ledger_.settle_in_doubt(message);
        crash(worker);
        break;
    }
  }

  void sweep() {
    WorkQueue& queue = sweeper_->queue();
    const std::size_t which = dice_.roll(3);
    const CallResult result = make([&] {
      if (which == 0) queue.reap();
      if (which == 1) queue.expire();
      if (which == 2) queue.prune({.older_than = std::chrono::hours{24 * 7}});
    });
    note(std::string{which == 0   ? "reap: "
                     : which == 1 ? "expire: "
                                  : "prune: "} +
         to_string(result));
    if (which == 1) ledger_.expired();
    if (result == CallResult::crashed) sweeper_ = restarted(sweeper_);
  }

  /// A person decides what becomes of a dead letter that holds its key.
  void operate() {
    std::optional<HeldKey> chosen;
    std::size_t changed = 0;
    const bool again = dice_.one_in(2);
    const CallResult result = make([&] {
      Admin admin{sweeper_->queue()};
      std::vector<HeldKey> held = admin.held_keys();
      std::erase_if(held, [](const HeldKey& one) { return one.requeued; });
      if (held.empty()) return;
      chosen = held[dice_.roll(held.size())];
      changed = again ? admin.requeue(std::span{&chosen->delivery, 1})
                      : admin.discard(std::span{&chosen->delivery, 1}, {.reason = "decided"});
    });
    if (result == CallResult::crashed) sweeper_ = restarted(sweeper_);
    if (!chosen) return;
    const DeliveryName delivery{chosen->id.str(), chosen->delivery.handler.str()};
    note((again ? "requeue " : "discard ") + delivery.id + delivery.handler + ": " +
         to_string(result));
    if (result == CallResult::answered && changed != 1) {
      throw Violation("it is said to hold its key, but it is not dead: " + delivery.id);
    }
    if (again) {
      ledger_.requeued(delivery);
    } else {
      ledger_.discarded(delivery, result == CallResult::answered);
    }
  }

  void move_clock() {
    static constexpr std::array<Duration, 6> moves{1s, 5s, 25s, 5min, -5s, -60s};
    const Duration by = moves[dice_.roll(moves.size())];
    now_ += by;
    ledger_.clock_moved(now_);
    note("the clock moves by " + std::to_string(by / 1s) + " s");
  }

  void release_key(WorkQueue& queue) {
    Admin admin{queue};
    for (const HeldKey& held : admin.held_keys()) {
      if (held.requeued) continue;
      admin.discard(std::span{&held.delivery, 1}, {.reason = "at the end"});
      ledger_.discarded({held.id.str(), held.delivery.handler.str()}, true);
    }
  }

  /// No more faults: everything that is open is worked off, and the books are compared.
  void come_to_rest() {
    for (Worker& worker : workers_) worker.held.clear();
    Worker& last = workers_.front();
    WorkQueue& queue = last.site->queue();
    for (int round = 0; open_deliveries(*last.site->database, is_inbox_) > 0; ++round) {
      if (round == 1000) throw Violation("work is left that nobody can claim");
      const std::vector<Message> messages = queue.claim(last.owner, 30s, 100);
      remember(messages);
      for (const Message& message : messages) {
        ledger_.settled(message, queue.ack(last.owner, message), Ending::done, now_);
      }
      queue.expire();
      ledger_.expired();
      if (messages.empty()) {
        now_ += 60s;
        release_key(queue);
      }
    }
    const FinalState rest = read_final_state(*last.site->database, is_inbox_);
    check_final_state(rest, ledger_);
    report_.deliveries = rest.outcomes.size();
    for (const auto& [delivery, state] : rest.outcomes)
      ++(state == 1 ? report_.done : report_.dead);
    now_ += 24h;
    queue.prune({.older_than = Duration::zero()});
    check_pruned(rest, read_final_state(*last.site->database, is_inbox_));
  }

  WorldOptions options_;
  Dice dice_;
  Faults faults_;
  Storage storage_;
  bool is_inbox_;
  bool hold_keys_;
  Instant now_{std::chrono::sys_days{std::chrono::January / 15 / 2030}};
  std::shared_ptr<ProcessStores> shared_site_;  // of all actors, in memory
  std::shared_ptr<ProcessStores> producer_;
  std::shared_ptr<ProcessStores> sweeper_;
  std::vector<Worker> workers_;
  std::map<std::string, PlannedMessage> planned_;
  std::set<std::string> unsure_;
  Ledger ledger_;
  std::deque<std::string> steps_;
  WorldReport report_;
};

}  // namespace

WorldReport run_world(const WorldOptions& options) { return World{options}.run(); }

}  // namespace twinbox::simulation
