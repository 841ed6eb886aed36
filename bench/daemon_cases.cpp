#include <algorithm>

#include "bare_posts.hpp"
#include "candidate.hpp"
#include "cases.hpp"
#include "concurrent.hpp"
#include "daemon_process.hpp"
#include "load.hpp"

namespace twinbox::bench {
namespace {

constexpr std::size_t clients = 64;

/// A daemon on a store of its own. The daemon ends before the store is removed.
struct Served {
  explicit Served(Dialect dialect, const std::string& config = {})
      : place(dialect, BoxKind::outbox), daemon(place.site(), config) {}
  BenchStore place;
  DaemonProcess daemon;
};

LoadResult accept_over_http(const Served& served, std::chrono::milliseconds slice) {
  static const std::string request = post_request("/v1/outbox/order.placed", a_payload(256));
  return drive(served.daemon.port(), clients, request, "HTTP/1.1 202 ", slice);
}

/// As many threads as there are clients, in one process with the store.
LoadResult accept_in_process(Candidate& box, std::chrono::milliseconds slice) {
  std::vector<LoadResult> parts(clients);
  std::vector<Enqueue> threads;
  for (LoadResult& part : parts) {
    threads.emplace_back([&box, &part](const NewMessage& message) {
      const auto begin = std::chrono::steady_clock::now();
      box.enqueue(message);
      part.milliseconds.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
              .count());
    });
  }
  LoadResult result;
  concurrent_rate(slice, threads);
  for (const LoadResult& part : parts) {
    result.milliseconds.insert(result.milliseconds.end(), part.milliseconds.begin(),
                               part.milliseconds.end());
  }
  std::sort(result.milliseconds.begin(), result.milliseconds.end());
  return result;
}

Case accept_rate(Dialect dialect) {
  return {"accept over HTTP, 64 connections, against 64 threads",
          dialect,
          "msg/s",
          0.60,
          false,
          [=](const Repetitions& effort) {
            auto served = std::make_shared<Served>(dialect);
            auto place = std::make_shared<BenchStore>(dialect, BoxKind::outbox);
            auto box = place->twinbox();
            const Enqueue enqueue = [place, box](const NewMessage& message) {
              box->enqueue(message);
            };
            const auto slice = 4 * effort.slice;
            return Comparison{[=] {
                                const LoadResult load = accept_over_http(*served, slice);
                                return static_cast<double>(load.answers) / load.spent.count();
                              },
                              [=, threads = std::vector(clients, enqueue)] {
                                return concurrent_rate(slice, threads);
                              }};
          }};
}

Case accept_time(Dialect dialect, const char* name, double share) {
  return {std::string{"accept over HTTP, "} + name + ", against 64 threads",
          dialect,
          "ms",
          0.5,
          true,
          [=](const Repetitions& effort) {
            auto served = std::make_shared<Served>(dialect);
            auto place = std::make_shared<BenchStore>(dialect, BoxKind::outbox);
            auto box = place->twinbox();
            const auto slice = 4 * effort.slice;
            return Comparison{
                [=] { return quantile(accept_over_http(*served, slice).milliseconds, share); },
                [=, place = place] {
                  return quantile(accept_in_process(*box, slice).milliseconds, share);
                }};
          }};
}

/// What the daemon delivers of a backlog, against a loop of libcurl to the same receiver.
Case deliveries(Dialect dialect) {
  return {"deliveries over HTTP, against bare libcurl",
          dialect,
          "msg/s",
          0.25,
          false,
          [=](const Repetitions& effort) {
            auto receiver = std::make_shared<CountingReceiver>();
            const std::string url = "http://127.0.0.1:" + std::to_string(receiver->port()) + "/";
            auto served = std::make_shared<Served>(
                dialect,
                "[sink.there]\ntype = \"http\"\nurl = \"" + url +
                    "\"\nallow = [\"127.0.0.1\"]\nper_host = 16\n[[route]]\ntopic = \"#\"\n"
                    "sink = \"there\"\n[dispatch]\nworkers = 16\nbatch = 200\n");
            auto box = served->place.twinbox();
            const std::size_t count = static_cast<std::size_t>(effort.backlog) / 4;
            return Comparison{[=, served = served] {
                                const std::size_t before = receiver->count();
                                const auto begin = std::chrono::steady_clock::now();
                                box->enqueue(some_messages(count, 256));
                                receiver->wait_for(before + count);
                                const std::chrono::duration<double> spent =
                                    std::chrono::steady_clock::now() - begin;
                                return static_cast<double>(count) / spent.count();
                              },
                              [=, receiver = receiver] {
                                return bare_posts(url, 16, a_payload(256), 4 * effort.slice);
                              }};
          }};
}

/// Against a budget, for there is no hand-written daemon to compare with.
Case budget(Dialect dialect, const char* name, const char* unit, double limit,
            std::function<double(Served&, const Repetitions&)> look) {
  return {name, dialect, unit, 1.0, true, [=](const Repetitions& effort) {
            return Comparison{[=] {
                                Served served{dialect};
                                return look(served, effort);
                              },
                              [=] { return limit; }};
          }};
}

}  // namespace

std::vector<Case> daemon_cases(Dialect dialect) {
  std::vector<Case> cases{accept_rate(dialect), accept_time(dialect, "p50", 0.50),
                          accept_time(dialect, "p99", 0.99), deliveries(dialect)};
  cases.push_back(budget(
      dialect, "start time, against a budget", "ms", 500,
      [](Served& served, const Repetitions&) { return served.daemon.start_time().count() * 1e3; }));
  cases.push_back(budget(
      dialect, "resident when idle, against a budget", "MB", 40,
      [](Served& served, const Repetitions&) { return served.daemon.resident_megabytes(); }));
  cases.push_back(budget(dialect, "resident under load, against a budget", "MB", 80,
                         [](Served& served, const Repetitions& effort) {
                           accept_over_http(served, 4 * effort.slice);
                           return served.daemon.resident_megabytes();
                         }));
  if (dialect == Dialect::sqlite) {
    cases.push_back(
        budget(dialect, "size of the program, against a budget", "MB", 10,
               [](Served&, const Repetitions&) { return DaemonProcess::program_megabytes(); }));
  }
  return cases;
}

}  // namespace twinbox::bench
