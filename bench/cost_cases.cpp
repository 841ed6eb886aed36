#include <utility>

#include "allocation.hpp"
#include "backlog.hpp"
#include "cases.hpp"

namespace twinbox::bench {
namespace {

constexpr int batch = 200;

/// Bytes of write-ahead log between two looks, full-page images not counted.
class WalMeter {
 public:
  explicit WalMeter(Database& database) : database_(database) {
    const std::string_view extension = "create extension if not exists pg_walinspect";
    database_.in_transaction([&](Session& session) { session.execute(extension); });
    from_ = position();
  }

  [[nodiscard]] double bytes() {
    const std::string to = position();
    double sum = 0;
    database_.in_transaction([&](Session& session) {
      session.execute(
          "select sum(record_size)::float8 "
          "from pg_get_wal_stats(@from_lsn::pg_lsn, @to_lsn::pg_lsn)",
          {{"from_lsn", from_}, {"to_lsn", to}}, [&](const Row& row) { sum = row.real(0); });
    });
    return sum;
  }

 private:
  std::string position() {
    std::string text;
    database_.in_transaction([&](Session& session) {
      session.execute("select pg_current_wal_flush_lsn()::text", {},
                      [&](const Row& row) { text = row.text(0); });
    });
    return text;
  }

  Database& database_;
  std::string from_;
};

std::function<double()> drain_wal(const Repetitions& effort, Backlog::Side side) {
  auto backlog = std::make_shared<Backlog>(Dialect::postgres, side, 1, 256);
  return [=] {
    backlog->fill(effort.backlog);
    WalMeter meter(backlog->place().database());
    backlog->drain(effort.backlog, batch);
    return meter.bytes() / effort.backlog;
  };
}

std::function<double()> drain_allocations(const Repetitions& effort, Dialect dialect,
                                          Backlog::Side side) {
  auto backlog = std::make_shared<Backlog>(dialect, side, 1, 256);
  return [=] {
    backlog->fill(effort.backlog);
    const Allocations allocations;
    backlog->drain(effort.backlog, batch);
    return static_cast<double>(allocations.count()) / effort.backlog;
  };
}

std::function<double()> enqueue_allocations(Dialect dialect, Backlog::Side side) {
  auto place = std::make_shared<BenchStore>(dialect, BoxKind::outbox);
  const std::shared_ptr<Candidate> who =
      side == Backlog::Side::ours ? place->twinbox() : place->raw();
  return [place, who, messages = some_messages(100, 256)] {
    constexpr int calls = 20;
    const Allocations allocations;
    for (int i = 0; i < calls; ++i) who->enqueue(messages);
    return static_cast<double>(allocations.count()) / static_cast<double>(calls * messages.size());
  };
}

}  // namespace

std::vector<Case> cost_cases(Dialect dialect) {
  using Side = Backlog::Side;
  std::vector<Case> cases;
  if (dialect == Dialect::postgres) {
    cases.push_back(
        {"claim+ack, batch 200, log written", dialect, "B/msg", usual_target, true,
         [](const Repetitions& effort) {
           return Comparison{drain_wal(effort, Side::ours), drain_wal(effort, Side::ceiling)};
         }});
    cases.push_back({"claim+ack, batch 200, log allowed", dialect, "B/msg", 1.0, true,
                     [](const Repetitions& effort) {
                       return Comparison{drain_wal(effort, Side::ours), [] { return 600.0; }};
                     }});
  }
  cases.push_back({"enqueue, batch 100, allocations", dialect, "1/msg", usual_target, true,
                   [=](const Repetitions&) {
                     return Comparison{enqueue_allocations(dialect, Side::ours),
                                       enqueue_allocations(dialect, Side::ceiling)};
                   }});
  cases.push_back({"claim+ack, batch 200, allocations", dialect, "1/msg", usual_target, true,
                   [=](const Repetitions& effort) {
                     return Comparison{drain_allocations(effort, dialect, Side::ours),
                                       drain_allocations(effort, dialect, Side::ceiling)};
                   }});
  return cases;
}

}  // namespace twinbox::bench
