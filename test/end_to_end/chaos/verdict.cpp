#include "end_to_end/chaos/verdict.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace twinbox::chaos {
namespace {

constexpr Micros recovery_limit = 5'000'000;

// The promises, as they are printed.
constexpr const char* lost = "what was committed is done, or dead as planned";
constexpr const char* phantom = "what was not committed is nowhere";
constexpr const char* torn = "a caller's row and its message are both there, or none";
constexpr const char* unhandled = "what is done was handled by the one who settled it";
constexpr const char* repeated = "only what was in flight at a fault is called again";
constexpr const char* doubled = "nobody is given what another still holds";
constexpr const char* once = "what must happen at most once is never called twice";
constexpr const char* effects = "transactional effects happen exactly once";
constexpr const char* ordered = "a key's messages are handled in order";
constexpr const char* stale = "stale workers are refused";
constexpr const char* named = "errors tell what they are";
constexpr const char* processes = "every process goes on, and ends in good order";
constexpr const char* recovery = "work goes on within 5 s after each fault";

double seconds(Micros time) { return static_cast<double>(time) / 1e6; }

Micros at(std::vector<Micros> times, double share) {
  std::sort(times.begin(), times.end());
  return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
}

}  // namespace

Stored read_stored(const Store& store) {
  Stored stored;
  Database database(store.address);
  database.in_transaction([&](Session& session) {
    session.execute("select m.id, o.state, o.finished_by from " + store.table("outbox_message") +
                        " m left join " + store.table("outbox_outcome") +
                        " o on o.number = m.number",
                    {}, [&](const Row& row) {
                      Stored::Message& message = stored.messages[std::string{row.text(0)}];
                      if (!row.is_null(1)) message.state = static_cast<int>(row.integer(1));
                      if (!row.is_null(2)) message.finished_by = row.uuid(2).str();
                    });
    session.execute("select id from " + store.table("chaos_order"), {},
                    [&](const Row& row) { stored.orders.emplace(row.text(0)); });
    session.execute(
        "select id, epoch from " + store.table("chaos_effect"), {},
        [&](const Row& row) { stored.effects.emplace(std::string{row.text(0)}, row.integer(1)); });
  });
  return stored;
}

Verdict::Verdict(const Course& course, const Stored& stored, bool in_time)
    : course_(course), stored_(stored), in_time_(in_time) {
  for (const std::string& file : course.producer_ledgers) produced_.read(file);
  for (const auto& [worker, file] : course.worker_ledgers) handled_.read(file, worker);
  handled_.sort();
  for (const char* text : {lost, phantom, torn, unhandled, repeated, doubled, once, effects,
                           ordered, stale, named, processes}) {
    promise(text);
  }
  if (in_time_) promise(recovery);
  promise(processes).broken = course.troubles;
  for (const Fault& fault : course.faults) ++aftermath_[fault.kind].count;
  check_producers();
  check_messages();
  for (const auto& [id, calls] : handled_.calls) check_calls(id, calls);
  if (stale_ > 0 && handled_.refused == 0) {
    promise(stale).broken.push_back(std::to_string(stale_) + " came back late, none was told so");
  }
  check_effects();
  check_order();
  check_recovery();
}

Promise& Verdict::promise(std::string text) {
  Promise& found = promises_[text];
  found.text = std::move(text);
  return found;
}

void Verdict::check_producers() {
  for (const auto& [kind, count] : produced_.errors) {
    constexpr std::array<std::string_view, 4> expected{"connection_lost", "contention",
                                                       "commit_in_doubt", "cancelled"};
    if (std::find(expected.begin(), expected.end(), kind) == expected.end()) {
      promise(named).broken.push_back(kind + ", " + std::to_string(count) + " times");
    }
  }
  for (const std::string& id : produced_.committed) {
    if (!stored_.messages.contains(id)) promise(lost).broken.push_back(id + " is not stored");
  }
  // A producer that was killed at its commit leaves open whether it happened, never a half of it.
  for (const std::string& id : produced_.intended) {
    if (!plan_of(id).ordinary && stored_.orders.contains(id) != stored_.messages.contains(id)) {
      promise(torn).broken.push_back(id);
    }
  }
}

void Verdict::check_messages() {
  const auto check = [&](const std::string& id) {
    if (!produced_.intended.contains(id) || produced_.rolled_back.contains(id)) {
      promise(phantom).broken.push_back(id);
    }
  };
  for (const auto& [id, message] : stored_.messages) {
    check(id);
    check_message(id, message);
  }
  for (const auto& [id, calls] : handled_.calls) {
    check(id);
    if (!stored_.messages.contains(id)) promise(phantom).broken.push_back(id + " was handled");
  }
}

void Verdict::check_message(const std::string& id, const Stored::Message& message) {
  const Plan plan = plan_of(id);
  const auto calls = handled_.calls.find(id);
  const bool dead = plan.end == Plan::End::dead;
  if (plan.topic == Plan::Topic::once && message.state == 4) {
    // Marked and never finished: a fault came after the mark, or the call would have ended it.
    if (calls == handled_.calls.end() || calls->second[0].end == 0) return;
    const Call& call = calls->second[0];
    if (cause_of(call, {.begin = call.end + lease.count()}, false) == nullptr) {
      promise(lost).broken.push_back(id + " is marked for no reason");
    }
    return;
  }
  if (message.state != (dead ? 2 : 1)) {
    promise(lost).broken.push_back(id + " is in state " + std::to_string(message.state));
    return;
  }
  const auto settled = [&](const Call& call) {
    return call.end != 0 && call.answer == (dead ? Plan::End::dead : Plan::End::done);
  };
  if (calls == handled_.calls.end() ||
      std::none_of(calls->second.begin(), calls->second.end(), settled)) {
    promise(unhandled).broken.push_back(id + " was never handled");
    return;
  }
  const Call& last = calls->second.back();
  if (!settled(last)) {
    promise(unhandled).broken.push_back(id + ": its last call did not end it");
  } else if (message.finished_by != handled_.owners[last.worker]) {
    promise(stale).broken.push_back(id + " was settled by one who had lost it");
  }
}

bool Verdict::hits_everybody(FaultKind kind) const {
  using enum FaultKind;
  if (kind == kill_worker || kind == kill_producer) return false;
  // Who is stopped, or waits, inside a transaction keeps all others from a SQLite file.
  return !course_.postgres || (kind != stop_worker && kind != exhaust_pool);
}

const Fault* Verdict::cause_of(const Call& first, const Call& again, bool transactional) const {
  const Micros claimed = first.leased_until == 0 ? first.begin : first.leased_until - lease.count();
  for (const Fault& fault : course_.faults) {
    const bool hit = fault.worker == first.worker || hits_everybody(fault.kind);
    if (!hit || fault.begin > again.begin || fault.end < claimed) continue;
    // A lease has to end before somebody else is called, unless the failure could be written down.
    if (transactional || again.leased_until == 0 ||
        again.leased_until - lease.count() >= first.leased_until) {
      return &fault;
    }
  }
  return nullptr;
}

Micros Verdict::causes_gone(Micros from) const {
  Micros gone = from;
  for (bool moved = true; moved;) {
    moved = false;
    for (const Fault& fault : course_.faults) {
      // One that began later explains nothing: what it delayed counts as late.
      if (!hits_everybody(fault.kind) || fault.begin > gone || fault.end <= gone) continue;
      gone = fault.end;
      moved = true;
    }
  }
  return gone;
}

void Verdict::check_calls(const std::string& id, const std::vector<Call>& calls) {
  const Plan plan = plan_of(id);
  const bool transactional = plan.topic == Plan::Topic::transactional;
  if (plan.topic == Plan::Topic::once && calls.size() > 1) promise(once).broken.push_back(id);
  for (std::size_t i = 1; i < calls.size(); ++i) {
    const Call& first = calls[i - 1];
    const Call& again = calls[i];
    if (first.end > again.begin) ++stale_;
    if (first.end != 0 && first.answer == Plan::End::retry) continue;
    const std::string text = id + ", epochs " + std::to_string(first.epoch) + " (worker " +
                             std::to_string(first.worker) + ") and " + std::to_string(again.epoch) +
                             " (worker " + std::to_string(again.worker) + ")";
    const Fault* cause = cause_of(first, again, transactional);
    if (cause == nullptr) {
      promise(repeated).broken.push_back(text);
    } else {
      Aftermath& after = aftermath_[cause->kind];
      ++after.repeated;
      const Micros free = causes_gone(first.leased_until);
      after.taken_over.push_back(std::max(Micros{0}, again.begin - free));
    }
    if (!transactional && again.leased_until - lease.count() < first.leased_until) {
      promise(doubled).broken.push_back(text);
    }
  }
}

void Verdict::check_effects() {
  for (const auto& [id, message] : stored_.messages) {
    const Plan plan = plan_of(id);
    if (plan.topic != Plan::Topic::transactional) continue;
    const auto [from, to] = stored_.effects.equal_range(id);
    const auto count = std::distance(from, to);
    const auto calls = handled_.calls.find(id);
    if (count != (message.state == 1 ? 1 : 0)) {
      promise(effects).broken.push_back(id + ": " + std::to_string(count));
    } else if (count == 1 && calls != handled_.calls.end() &&
               from->second != calls->second.back().epoch) {
      promise(effects).broken.push_back(id + ": not those of the last call");
    }
  }
}

/// A key belongs to one thread, which commits one message after the other.
void Verdict::check_order() {
  std::map<std::string, std::map<int, Micros>> begins;
  for (const auto& [id, calls] : handled_.calls) {
    if (!plan_of(id).ordered || !produced_.committed.contains(id)) continue;
    Micros& first = begins[thread_of(id)][number_of(id)];
    first = calls[0].begin;
    for (const Call& call : calls) first = std::min(first, call.begin);
  }
  for (const auto& [thread, by_number] : begins) {
    Micros last = 0;
    for (const auto& [number, begin] : by_number) {
      if (begin < last) {
        promise(ordered).broken.push_back(thread + ", number " + std::to_string(number));
      }
      last = std::max(last, begin);
    }
  }
}

void Verdict::check_recovery() {
  std::vector<std::string> late;
  for (const Fault& fault : course_.faults) {
    const auto next = std::upper_bound(handled_.ends.begin(), handled_.ends.end(), fault.end);
    const std::string text{to_string(fault.kind)};
    if (next == handled_.ends.end()) {
      late.push_back("nothing was handled after: " + text);
      continue;
    }
    const Micros time = std::max(Micros{0}, *next - causes_gone(fault.end));
    aftermath_[fault.kind].resumed.push_back(time);
    if (time > recovery_limit) late.push_back(text);
  }
  for (const auto& [kind, after] : aftermath_) {
    for (const Micros time : after.taken_over) {
      if (time > recovery_limit) {
        late.push_back(std::string{to_string(kind)} + ": a call came " +
                       std::to_string(seconds(time)) + " s later");
      }
    }
  }
  if (in_time_) promise(recovery).broken = std::move(late);
}

bool Verdict::kept() const {
  return std::all_of(promises_.begin(), promises_.end(),
                     [](const auto& one) { return one.second.broken.empty(); });
}

void Verdict::print() const {
  print_faults();
  print_totals();
  print_promises();
}

void Verdict::print_faults() const {
  std::printf("%-30s %5s  %21s  %8s  %21s\n", "fault", "times", "handled again after, s", "calls",
              "taken over after, s");
  std::printf("%-30s %5s  %10s %11s  %8s  %10s %10s\n", "", "", "median", "longest", "repeated",
              "median", "longest");
  for (const auto& [kind, after] : aftermath_) {
    std::printf("%-30s %5d", std::string{to_string(kind)}.c_str(), after.count);
    for (const auto* times : {&after.resumed, &after.taken_over}) {
      if (times == &after.taken_over) std::printf("  %8d", after.repeated);
      if (times->empty()) {
        std::printf("  %10s %*s", "-", times == &after.resumed ? 11 : 10, "-");
      } else {
        std::printf("  %10.3f %*.3f", seconds(at(*times, 0.5)), times == &after.resumed ? 11 : 10,
                    seconds(at(*times, 1)));
      }
    }
    std::printf("\n");
  }
}

void Verdict::print_totals() const {
  std::size_t calls = 0, in_doubt = 0, errors = 0, late = 0;
  for (const auto& [kind, after] : aftermath_) {
    for (const auto* times : {&after.resumed, &after.taken_over}) {
      late += static_cast<std::size_t>(std::count_if(
          times->begin(), times->end(), [](Micros time) { return time > recovery_limit; }));
    }
  }
  for (const auto& [id, of_message] : handled_.calls) calls += of_message.size();
  for (const auto& [kind, count] : produced_.errors) {
    errors += static_cast<std::size_t>(count);
    if (kind == "commit_in_doubt") in_doubt += static_cast<std::size_t>(count);
  }
  std::printf(
      "\n%zu messages committed, %zu rolled back; producers met %zu errors, %zu commits in doubt\n"
      "%zu calls of %zu messages; %d stale calls, %d settles refused, %d errors of the loop\n"
      "more than 5 s after the end of a cause: %zu\n",
      produced_.committed.size(), produced_.rolled_back.size(), errors, in_doubt, calls,
      handled_.calls.size(), stale_, handled_.refused, handled_.loop_errors, late);
  if (course_.all_workers_back && course_.drained) {
    std::printf(
        "every worker at work %.3f s after the last fault; all done %.3f s after the last "
        "message\n\n",
        seconds(*course_.all_workers_back), seconds(*course_.drained));
  }
}

void Verdict::print_promises() const {
  for (const auto& [text, one] : promises_) {
    if (one.broken.empty()) {
      std::printf("  kept    %s\n", text.c_str());
      continue;
    }
    std::printf("  BROKEN  %s: %zu\n", text.c_str(), one.broken.size());
    for (std::size_t i = 0; i < std::min<std::size_t>(5, one.broken.size()); ++i) {
      std::printf("            %s\n", one.broken[i].c_str());
    }
  }
}

}  // namespace twinbox::chaos
