// What the dashboard is told, out of reports that are known already.
#include "daemon/dashboard/overview.hpp"

#include <boost/json/array.hpp>

#include <gtest/gtest.h>

#include "daemon/config/secrets.hpp"
#include "daemon/http/json.hpp"

namespace twinbox::app {
namespace {

namespace json = boost::json;

class OverviewTest : public ::testing::Test {
 protected:
  BoxReport report(BoxKind kind = BoxKind::outbox) {
    return {.store = stores_.all()[0].store.get(), .kind = kind, .asked = true, .at = Instant{}};
  }
  static Reports reports(std::vector<BoxReport> list) {
    Reports made;
    for (BoxReport& one : list) made.push_back(std::make_shared<const BoxReport>(std::move(one)));
    return made;
  }
  static Worker worker(int number) {
    return {.owner = OwnerToken::make({}),
            .name = "host:" + std::to_string(number),
            .version = "1",
            .started_at = {},
            .seen_at = {}};
  }
  static HeldKey held(int number) {
    return {.delivery = {.number = number},
            .key = PartitionKey{"key " + std::to_string(number)},
            .source = Source{"shop"},
            .id = MessageId{std::to_string(number)},
            .requeued = false,
            .waiting = 1};
  }

  Stores stores_{parse_config("[store.main]\nurl = \"sqlite::memory:\"\n", "t", {}), {}};
  Throughput throughput_;
};

TEST_F(OverviewTest, no_answer_has_a_secret_in_its_errors) {
  remember_secret("abcd1234");
  BoxReport away = report();
  away.error = "cannot connect with abcd1234";
  throughput_.observer(BoxKind::outbox)
      .chore(
          "main",
          {.chore = Chore::reap, .end = ChoreReport::End::failed, .error = "abcd1234 was refused"});
  const Reports all = reports({away});
  const json::object overview = overview_json(all, throughput_, {}, {});
  EXPECT_EQ(overview.at("reasons").at(0).at("text").as_string(),
            "cannot be queried: cannot connect with [secret]");
  const json::object listed = stores_json(all, throughput_, {}, {});
  EXPECT_EQ(listed.at("stores").at(0).at("boxes").at(0).at("error").as_string(),
            "cannot connect with [secret]");
  const json::object workers = workers_json(all, throughput_);
  EXPECT_EQ(workers.at("housekeeping").at(0).at("error").as_string(), "[secret] was refused");
  for (const json::object& one : {overview, listed, workers}) {
    EXPECT_EQ(json_text(one).find("abcd1234"), std::string::npos) << json_text(one);
  }
}

TEST_F(OverviewTest, of_too_many_workers_the_others_are_counted) {
  BoxReport crowded = report();
  for (std::size_t i = 0; i < max_workers; ++i) {
    crowded.workers.push_back(worker(static_cast<int>(i)));
  }
  crowded.counts.by_owner[OwnerToken::make({}).uuid()] = 3;
  crowded.counts.other_owners.names = 5;
  const json::object shown = workers_json(reports({crowded}), throughput_);
  EXPECT_EQ(shown.at("workers").as_array().size(), max_workers);
  EXPECT_EQ(shown.at("other").at("workers").as_int64(), 1 + 5);
  EXPECT_EQ(shown.at("other").at("leases").as_int64(), 0);
}

TEST_F(OverviewTest, of_too_many_reasons_the_worst_are_told) {
  BoxReport first = report();
  BoxReport second = report(BoxKind::inbox);
  for (int i = 0; i < 60; ++i) {
    first.held_keys.push_back(held(i));
    second.held_keys.push_back(held(i));
  }
  second.counts.all.dead = 11;
  const json::object shown = overview_json(reports({first, second}), throughput_, {}, {});
  const json::array& reasons = shown.at("reasons").as_array();
  ASSERT_EQ(reasons.size(), 100u);
  EXPECT_EQ(reasons[0].at("status").as_string(), "unhealthy");
  EXPECT_EQ(reasons[0].at("text").as_string(), "11 dead letters, more than 10");
  EXPECT_EQ(shown.at("status").as_string(), "unhealthy");
}

TEST_F(OverviewTest, the_boxes_of_a_page_share_its_topics_and_sum_up_the_rest) {
  BoxReport first = report();
  BoxReport second = report(BoxKind::inbox);
  const std::size_t share = StoresQuery::max_topics / 2;
  for (std::size_t i = 0; i < share + 2; ++i) {
    first.counts.by_topic["topic." + std::to_string(i)].ready = 2;
  }
  first.counts.by_topic["large"].ready = 100;
  first.counts.other_topics = {.names = 7, .counts = {.ready = 70}};
  const json::object shown = stores_json(reports({first, second}), throughput_, {}, {});
  const json::value& box = shown.at("stores").at(0).at("boxes").at(0);
  EXPECT_EQ(box.at("topics").as_object().size(), share);
  EXPECT_TRUE(box.at("topics").as_object().contains("large")) << "the largest ones are named";
  EXPECT_EQ(box.at("other_topics").at("topics").as_int64(), 3 + 7);
  EXPECT_EQ(box.at("other_topics").at("counts").at("ready").as_int64(), 3 * 2 + 70);
  EXPECT_TRUE(shown.at("stores").at(0).at("boxes").at(1).at("other_topics").is_null());
}

}  // namespace
}  // namespace twinbox::app
