// The command bench: measures the user's store in separate tables and removes them at the end.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <unistd.h>

#include "cli/json.hpp"
#include "cli/open_store.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"

namespace twinbox::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchOptions {
  std::int64_t messages = 2000;
  std::int64_t writers = 8;
  std::int64_t size = 256;
};

/// A separate file or schema for the benchmark, removed by the destructor.
class BenchDatabase {
 public:
  explicit BenchDatabase(const StoreDefinition& store) {
    const std::string name = "twinbox_bench_" + std::to_string(getpid());
    constexpr std::string_view sqlite = "sqlite:";
    std::string address = store.address;
    options_ = {.deploy_schema = true};
    if (address.starts_with(sqlite) && address != "sqlite::memory:") {
      file_ = address.substr(sqlite.size()) + "." + name;
      address = std::string{sqlite} + file_;
    } else {
      options_.schema = name;
    }
    database_ =
        std::make_unique<Database>(address, DatabaseOptions{.name = store.name, .pool_size = 16},
                                   Environment{.log = [](const LogEvent&) {}});
    outbox_ = std::make_unique<Outbox>(*database_, options_);
  }
  ~BenchDatabase() {
    outbox_.reset();
    try {
      if (file_.empty() && database_->dialect() == Dialect::postgres) {
        database_->in_transaction([&](Session& session) {
          session.execute("drop schema if exists \"" + options_.schema + "\" cascade");
        });
      }
    } catch (const std::exception& error) {
      Screen{}.note("schema " + options_.schema + " could not be dropped: " + error.what() + "\n");
    }
    database_.reset();
    if (file_.empty()) return;
    std::error_code ignored;
    for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(file_ + end, ignored);
  }
  BenchDatabase(const BenchDatabase&) = delete;
  BenchDatabase& operator=(const BenchDatabase&) = delete;

  Outbox& outbox() { return *outbox_; }

 private:
  std::string file_;
  BoxOptions options_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Outbox> outbox_;
};

struct Measurement {
  std::string name;
  double per_second = 0;
  std::optional<Duration> p50 = {}, p99 = {};
};

double rate(std::int64_t count, Clock::duration took) {
  return static_cast<double>(count) / std::max(1e-9, std::chrono::duration<double>(took).count());
}

Duration quantile(std::vector<Duration>& values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// Runs `writers` threads; each enqueues its messages one after another.
Measurement enqueue(Outbox& outbox, const BenchOptions& options, std::int64_t writers) {
  const NewMessage message{.topic = Topic{"bench"},
                           .payload = std::string(static_cast<std::size_t>(options.size), 'x')};
  const std::int64_t each = std::max<std::int64_t>(1, options.messages / writers);
  std::vector<std::vector<Duration>> times(static_cast<std::size_t>(writers));
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (auto& mine : times) {
      threads.emplace_back([&] {
        for (std::int64_t i = 0; i < each; ++i) {
          const auto start = Clock::now();
          outbox.enqueue(message);
          mine.push_back(std::chrono::duration_cast<Duration>(Clock::now() - start));
        }
      });
    }
  }
  const auto took = Clock::now() - begin;
  std::vector<Duration> all;
  for (const auto& mine : times) all.insert(all.end(), mine.begin(), mine.end());
  return {"enqueue, " + counted(writers, "writer"), rate(each * writers, took), quantile(all, 0.5),
          quantile(all, 0.99)};
}

Measurement drain(Outbox& outbox) {
  const OwnerToken owner = OwnerToken::make({});
  std::int64_t count = 0;
  std::vector<Duration> times;
  const auto begin = Clock::now();
  for (;;) {
    const auto start = Clock::now();
    const auto messages = outbox.claim(owner, std::chrono::seconds{60}, 100);
    if (messages.empty()) break;
    count += static_cast<std::int64_t>(outbox.ack(owner, messages));
    times.push_back(std::chrono::duration_cast<Duration>(Clock::now() - start));
  }
  return {"claim and ack, batches of 100", rate(count, Clock::now() - begin), quantile(times, 0.5),
          quantile(times, 0.99)};
}

int bench(const CommonOptions& common, const BenchOptions& options, const Screen& screen) {
  for (const auto& [name, value, most] :
       {std::tuple{"--messages", options.messages, std::int64_t{1'000'000}},
        std::tuple{"--writers", options.writers, std::int64_t{16}},
        std::tuple{"--size", options.size, std::int64_t{1'000'000}}}) {
    if (value < 1 || value > most)
      throw CliError(exit_usage,
                     std::string{name} + ": expected a number from 1 to " + std::to_string(most));
  }
  OpenStore store(common, OpenStore::Missing::create);
  std::vector<Measurement> results;
  {
    BenchDatabase bench_database(store.definition());
    results.push_back(enqueue(bench_database.outbox(), options, 1));
    if (options.writers > 1)
      results.push_back(enqueue(bench_database.outbox(), options, options.writers));
    results.push_back(drain(bench_database.outbox()));
  }
  Table table({{""}, {"PER SECOND", true}, {"P50 MS", true}, {"P99 MS", true}});
  boost::json::array list;
  const auto ms = [](Duration time) {
    std::string text =
        std::to_string(time.count() / 1000) + "." + std::to_string(time.count() % 1000 / 100);
    return text;
  };
  for (const Measurement& one : results) {
    const auto whole = static_cast<std::int64_t>(one.per_second);
    table.add({one.name, whole, ms(*one.p50), ms(*one.p99)});
    list.push_back({{"name", one.name},
                    {"per_second", whole},
                    {"p50_us", one.p50->count()},
                    {"p99_us", one.p99->count()}});
  }
  if (common.json)
    print_json(screen, {{"store", store.name()}, {"results", std::move(list)}});
  else
    screen.print(screen.look().paint(Style::strong, "store " + printable(store.name())) + "\n" +
                 table.text(screen.look()));
  return exit_ok;
}

}  // namespace

Verb bench_verb(CommonOptions& common) {
  auto options = std::make_shared<BenchOptions>();
  return {
      .name = "bench",
      .group = "Check",
      .summary = "Measure the throughput of this store",
      .text =
          "The benchmark uses a separate file or a separate schema and removes it at the end. Each "
          "enqueue is one durable commit; concurrent writers share commits.",
      .options = with(
          {{"--messages", "COUNT", "Messages per measurement (default: 2000)", &options->messages},
           {"--writers", "COUNT", "Concurrent writers, 1 to 16 (default: 8)", &options->writers},
           {"--size", "BYTES", "Size of each payload (default: 256)", &options->size}},
          {store_options(common), answer_options(common)}),
      .examples = {{"twinbox bench --database postgresql://app@db/app", "on a database server"}},
      .run = [&common, options](const Screen& screen) { return bench(common, *options, screen); }};
}

}  // namespace twinbox::cli
