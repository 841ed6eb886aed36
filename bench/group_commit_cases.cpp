#include <span>

#include "candidate.hpp"
#include "cases.hpp"
#include "concurrent.hpp"
#include "group_writer.hpp"
#include "load.hpp"

namespace twinbox::bench {
namespace {

std::function<double()> through_twinbox(const Repetitions& effort, Dialect dialect,
                                        std::size_t count) {
  auto place = std::make_shared<BenchStore>(dialect, BoxKind::outbox);
  auto box = place->twinbox();
  const Enqueue enqueue = [box](const NewMessage& message) { box->enqueue(message); };
  return [place, effort, threads = std::vector(count, enqueue)] {
    return concurrent_rate(effort.slice, threads);
  };
}

std::function<double()> through_a_writer(const Repetitions& effort, Dialect dialect,
                                         std::size_t count) {
  auto place = std::make_shared<BenchStore>(dialect, BoxKind::outbox);
  auto writer = std::make_shared<GroupWriter>(place->raw());
  const Enqueue enqueue = [writer](const NewMessage& message) { writer->enqueue(message); };
  return [place, effort, threads = std::vector(count, enqueue)] {
    return concurrent_rate(effort.slice, threads);
  };
}

/// Shares its connection and its commits with nobody.
struct SingleWriter {
  explicit SingleWriter(const StoreAddress& site)
      : database(site.address), outbox(database, site.options()) {}

  Database database;
  Outbox outbox;
};

/// The same calls by the same threads, without shared commits.
std::function<double()> each_alone(const Repetitions& effort, Dialect dialect, std::size_t count) {
  auto place = std::make_shared<BenchStore>(dialect, BoxKind::outbox);
  std::vector<Enqueue> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([loner = std::make_shared<SingleWriter>(place->site())](
                             const NewMessage& message) { loner->outbox.enqueue(message); });
  }
  return [place, effort, threads] { return concurrent_rate(effort.slice, threads); };
}

std::function<double()> each_by_hand(const Repetitions& effort, Dialect dialect,
                                     std::size_t count) {
  auto place = std::make_shared<BenchStore>(dialect, BoxKind::outbox);
  std::vector<Enqueue> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back(
        [connection = place->raw()](const NewMessage& message) { connection->enqueue(message); });
  }
  return [place, effort, threads] { return concurrent_rate(effort.slice, threads); };
}

/// A thread that has each batch in its hand before it is asked for: nobody waits for anybody.
std::function<double()> full_batches(const Repetitions& effort, Dialect dialect, std::size_t size) {
  auto place = std::make_shared<BenchStore>(dialect, BoxKind::outbox);
  const std::shared_ptr<Candidate> loop = place->raw();
  return [=, kept = place, batch = some_messages(size, 256)] {
    return rate(effort.slice, [&] {
      loop->enqueue(std::span{batch});
      return size;
    });
  };
}

}  // namespace

std::vector<Case> group_commit_cases(Dialect dialect) {
  std::vector<Case> cases;
  for (const std::size_t threads : {1U, 4U, 16U, 64U}) {
    cases.push_back(
        {"group commit, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads"),
         dialect, "msg/s", usual_target, false, [=](const Repetitions& effort) {
           return Comparison{through_twinbox(effort, dialect, threads),
                             through_a_writer(effort, dialect, threads)};
         }});
  }
  cases.push_back(
      {"group commit, 16 threads, against each alone", dialect, "msg/s",
       dialect == Dialect::sqlite ? 5.0 : 2.5, false, [=](const Repetitions& effort) {
         return Comparison{through_twinbox(effort, dialect, 16), each_alone(effort, dialect, 16)};
       }});
  // What is left of it against loops by hand, and how much of that can be had at all: by one that
  // waits for no thread. On SQLite such loops say nothing: they meet its own back-off.
  if (dialect == Dialect::sqlite) return cases;
  cases.push_back(
      {"group commit, 16 threads, against 16 loops by hand", dialect, "msg/s", no_target, false,
       [=](const Repetitions& effort) {
         return Comparison{through_twinbox(effort, dialect, 16), each_by_hand(effort, dialect, 16)};
       }});
  cases.push_back(
      {"full batches of 16 by hand, against 16 loops by hand", dialect, "msg/s", no_target, false,
       [=](const Repetitions& effort) {
         return Comparison{full_batches(effort, dialect, 16), each_by_hand(effort, dialect, 16)};
       }});
  return cases;
}

}  // namespace twinbox::bench
