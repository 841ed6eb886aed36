#include "daemon/stats/stats_collector.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>

#include "daemon/dashboard/dashboard.hpp"
#include "daemon/dashboard/overview.hpp"

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

constexpr auto first_wait = 60s;  // only a failure waits so long

/// Stores in a folder of their own, and every statement that ran on them.
class StatsCollectorTest : public ::testing::Test {
 protected:
  ~StatsCollectorTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] Config config(const std::string& more = {}) const {
    return parse_config(
        "[store.main]\nurl = \"sqlite:" + (folder_ / "main.db").string() + "\"\n" + more, "t", {});
  }
  Environment environment() {
    Environment environment;
    environment.timing = [this](std::string_view name, std::chrono::nanoseconds, std::size_t) {
      const std::lock_guard lock{mutex_};
      statements_.emplace_back(name);
    };
    return environment;
  }
  /// Told of each box that was looked at; waits until `fits`.
  std::function<void()> changed() {
    return [this] {
      { const std::lock_guard lock{mutex_}; }
      condition_.notify_all();
    };
  }
  template <class Fits>
  bool wait_until(Fits fits) {
    std::unique_lock lock{mutex_};
    return condition_.wait_for(lock, first_wait, fits);
  }
  static void enqueue(Stores& stores, int count) {
    for (int i = 0; i < count; ++i) {
      stores.all()[0].store->outbox().enqueue({.topic = Topic{"a"}, .payload = "x"});
    }
  }

  std::filesystem::path folder_ = [] {
    std::string name = (std::filesystem::temp_directory_path() / "twinbox_stats_XXXXXX").string();
    return std::filesystem::path{mkdtemp(name.data())};
  }();
  std::mutex mutex_;
  std::condition_variable condition_;
  std::vector<std::string> statements_;
};

TEST_F(StatsCollectorTest, the_first_reader_waits_for_the_first_numbers) {
  Stores stores{config(), environment()};
  enqueue(stores, 3);
  StatsCollector collector{stores, {}, {}, first_wait};
  EXPECT_FALSE(collector.reports()[0]->asked);  // not started: it waits for nobody
  collector.start();
  const auto reports = collector.reports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0]->kind, BoxKind::outbox);
  ASSERT_TRUE(reports[0]->at.has_value());
  EXPECT_EQ(reports[0]->counts.all.ready, 3);
}

TEST_F(StatsCollectorTest, a_changed_box_is_counted_again_at_once) {
  Stores stores{config(), environment()};
  StatsCollector collector{stores, {}, changed(), first_wait};
  collector.start();
  ASSERT_EQ(collector.reports()[0]->counts.all.ready, 0);
  enqueue(stores, 2);
  collector.refresh(*stores.all()[0].store, BoxKind::outbox);
  EXPECT_TRUE(wait_until([&] { return collector.latest()[0]->counts.all.ready == 2; }));
}

TEST_F(StatsCollectorTest, stores_that_cannot_be_reached_delay_no_other) {
  std::string far;
  for (int i = 0; i < 20; ++i) {
    far += "[store.far" + std::to_string(i) + "]\nurl = \"postgresql://127.0.0.1:1/none" +
           std::to_string(i) + "?connect_timeout=1\"\nwait_timeout = \"100ms\"\n";
  }
  Stores stores{config(far), environment()};
  StatsCollector collector{stores, {}, changed(), first_wait};
  collector.start();
  const auto main = [&] {
    for (const auto& report : collector.latest()) {
      if (report->store->name() == "main" && report->kind == BoxKind::outbox) return report;
    }
    return StatsCollector::Report{};
  };
  ASSERT_TRUE(wait_until([&] { return main()->at.has_value(); }));
  const Instant first = main()->at.value();
  collector.watch();
  EXPECT_TRUE(wait_until([&] { return main()->at.value() > first; }));
  EXPECT_TRUE(wait_until([&] {
    return std::ranges::count_if(collector.latest(),
                                 [](const auto& report) { return !report->error.empty(); }) == 40;
  }));
  EXPECT_EQ(main()->error, "");
}

TEST_F(StatsCollectorTest, stores_that_were_away_at_the_start_delay_not_even_the_first_numbers) {
  // Takes connections, and says nothing.
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor silent{io, {boost::asio::ip::address_v4::loopback(), 0}};
  std::string far;
  for (int i = 0; i < 20; ++i) {
    far += "[store.far" + std::to_string(i) +
           "]\nurl = \"postgresql://127.0.0.1:" + std::to_string(silent.local_endpoint().port()) +
           "/none" + std::to_string(i) + "?connect_timeout=600\"\nwait_timeout = \"10m\"\n";
  }
  Stores stores{config(far), environment()};
  StatsCollector collector{stores, {}, changed(), first_wait};
  for (const Stores::ServedStore& entry : stores.all()) {
    if (entry.store->name() != "main") collector.mark_unreachable(*entry.store, "away");
  }
  collector.start();
  const auto seen = [&] {
    return std::ranges::count_if(collector.latest(),
                                 [](const auto& report) { return report->at.has_value(); });
  };
  EXPECT_TRUE(wait_until([&] { return seen() == 2; }));
  for (const auto& report : collector.latest()) {
    if (report->store->name() != "main") {
      EXPECT_FALSE(report->asked);
    }
  }
  silent.close();  // and those who wait for it are let go
}

TEST_F(StatsCollectorTest, a_box_that_goes_away_keeps_its_last_numbers) {
  Stores stores{config(), environment()};
  enqueue(stores, 1);
  StatsCollector collector{stores, {}, changed(), first_wait};
  collector.start();
  ASSERT_EQ(collector.reports()[0]->counts.all.ready, 1);
  {
    Database database{"sqlite:" + (folder_ / "main.db").string()};
    database.in_transaction(
        [](Session& session) { session.execute("alter table outbox_work rename to moved", {}); });
  }
  collector.refresh(*stores.all()[0].store, BoxKind::outbox);
  EXPECT_TRUE(wait_until([&] { return !collector.latest()[0]->error.empty(); }));
  EXPECT_EQ(collector.latest()[0]->counts.all.ready, 1);
}

TEST_F(StatsCollectorTest, whoever_holds_leases_is_shown_with_what_he_told_of_himself) {
  Stores stores{config(), environment()};
  enqueue(stores, 3);
  Outbox& outbox = stores.all()[0].store->outbox();
  const OwnerToken known = OwnerToken::make({});
  const OwnerToken unknown = OwnerToken::make({});
  Workers{outbox}.heartbeat(known, "host:7", "1.2.3");
  ASSERT_EQ(outbox.claim(known, 30s, 2).size(), 2u);
  ASSERT_EQ(outbox.claim(unknown, 30s, 1).size(), 1u);
  StatsCollector collector{stores, {}, {}, first_wait};
  collector.start();
  const boost::json::object shown = workers_json(collector.reports(), Throughput{});
  const boost::json::array& workers = shown.at("workers").as_array();
  ASSERT_EQ(workers.size(), 2u);
  EXPECT_EQ(workers[0].at("name").as_string(), "host:7");
  EXPECT_EQ(workers[0].at("version").as_string(), "1.2.3");
  EXPECT_EQ(workers[0].at("leases").as_int64(), 2);
  EXPECT_TRUE(workers[1].at("name").is_null());
  EXPECT_EQ(workers[1].at("leases").as_int64(), 1);
}

TEST_F(StatsCollectorTest, a_store_that_takes_no_writes_is_unhealthy_as_the_probe_has_it) {
  Stores stores{config(), environment()};
  StatsCollector collector{stores, {}, {}, first_wait};
  collector.start();
  const Reports reports = collector.reports();
  const auto overview = [&] { return overview_json(reports, Throughput{}, {}, {}); };
  EXPECT_EQ(overview().at("status").as_string(), "healthy");
  EXPECT_THROW(stores.all()[0].store->database().in_transaction([](Session&) {
    throw DatabaseError{DatabaseError::Kind::out_of_space, "the disk is full"};
  }),
               DatabaseError);
  const boost::json::object shown = overview();
  EXPECT_EQ(shown.at("status").as_string(), "unhealthy");
  EXPECT_EQ(shown.at("unreachable").to_number<int>(), 0);
  const boost::json::value& reason = shown.at("reasons").as_array().at(0);
  EXPECT_EQ(reason.at("about").as_string(), "store");
  EXPECT_EQ(reason.at("text").as_string(), "cannot accept writes: the disk is full");
  const boost::json::object listed = stores_json(reports, Throughput{}, {}, {});
  const boost::json::value& box = listed.at("stores").at(0).at("boxes").at(0);
  EXPECT_EQ(box.at("status").as_string(), "unhealthy");
  EXPECT_EQ(box.at("error").as_string(), "cannot accept writes: the disk is full");
  EXPECT_TRUE(box.as_object().contains("counts"));
  enqueue(stores, 1);
  EXPECT_EQ(overview().at("status").as_string(), "healthy");
}

TEST_F(StatsCollectorTest, requests_run_no_statement) {
  Stores stores{config(), environment()};
  enqueue(stores, 5);
  Throughput throughput;
  Dispatchers dispatchers{stores, {}, [](BoxKind, DispatchObserver next) { return next; }};
  Dashboard dashboard{
      stores, throughput, dispatchers, {}};  // not started: nothing counts meanwhile
  HttpRouter router;
  dashboard.add_to(router);
  const auto ask = [&](const std::string& target) {
    HttpRequest request{.method = "GET", .target = target};
    const Match match = std::get<Match>(router.find("GET", target));
    return match.endpoint->call({request, match.target, ""}).status;
  };
  statements_.clear();
  for (int i = 0; i < 10; ++i) {
    for (const char* target : {"/v1/overview", "/v1/stores", "/v1/dead_letter_groups",
                               "/v1/dead_letter_groups?box=inbox", "/v1/history",
                               "/v1/history?span=24h&store=main", "/v1/workers"}) {
      EXPECT_EQ(ask(target), 200);
    }
  }
  EXPECT_EQ(statements_, std::vector<std::string>{});
}

}  // namespace
}  // namespace twinbox::app
