// Has this message been handled? Asking, and keeping what was asked.
#include <set>
#include <tuple>

#include "support/inbox_test.hpp"

namespace twinbox::test {
namespace {

class Observe : public InboxTest {
 protected:
  std::vector<std::string> conflicts() {
    std::vector<std::string> ids;
    for (const RecordedEvent& event : log().events("conflict")) ids.push_back(event.field("id"));
    return ids;
  }
};

TEST_P(Observe, IBX_001_takes_messages_for_the_same_when_source_and_id_are_the_same) {
  make_done(an_arrival("evt_1", "stripe"));
  EXPECT_TRUE(inbox().already_processed(a_key("evt_1", "stripe")));
  EXPECT_FALSE(inbox().already_processed(a_key("evt_1", "paypal")));
  EXPECT_FALSE(inbox().already_processed(a_key("evt_2", "stripe")));
  EXPECT_EQ(count_messages(), "3");
}

TEST_P(Observe, IBX_001_separates_source_and_id_by_more_than_their_joined_text) {
  make_done(an_arrival("bc", "a"));
  EXPECT_FALSE(inbox().already_processed(a_key("c", "ab")));
  EXPECT_TRUE(inbox().already_processed(a_key("bc", "a")));
}

TEST_P(Observe, IBX_002_asks_in_one_step) {
  std::vector<std::string> statements;
  Environment told = environment();
  told.timing = [&](std::string_view name, auto, std::size_t) { statements.emplace_back(name); };
  Database database(test_store().address(), {}, told);
  Inbox inbox(database, options());
  std::ignore = inbox.already_processed(a_key());
  EXPECT_EQ(statements, std::vector<std::string>{"observe"});
}

TEST_P(Observe, IBX_003_answers_true_for_a_done_message) {
  make_done();
  EXPECT_TRUE(inbox().already_processed(a_key()));
  EXPECT_TRUE(inbox().observe(a_key()).done);
  EXPECT_TRUE(inbox().has_processed(a_key()));
}

TEST_P(Observe, IBX_004_records_an_unknown_message_as_seen_and_answers_false) {
  const Instant begin = clock().now();
  EXPECT_FALSE(inbox().already_processed(a_key()));
  EXPECT_EQ(inbox().state(a_key()), MessageState::seen);
  const MessageDetail seen = detail();
  EXPECT_EQ(seen.message.created_at, begin);
  EXPECT_EQ(seen.message.last_seen_at, begin);
  EXPECT_EQ(seen.message.seen_count, 1);
  EXPECT_EQ(seen.message.topic, std::nullopt);
  EXPECT_TRUE(inbox().claim(worker_a, 30s, 10).empty());
}

TEST_P(Observe, IBX_005_answers_false_for_an_unfinished_message_and_moves_its_last_seen_time) {
  std::ignore = inbox().already_processed(a_key("seen"));
  make_dead(an_arrival("dead"));
  inbox().accept(an_arrival("open"));
  std::ignore = inbox().accept_and_claim(an_arrival("leased"), worker_a, 30s);
  std::ignore = inbox().already_processed(a_key("marked"));
  std::ignore = inbox().mark_processing(a_key("marked"));
  const Instant begin = clock().now();
  clock().advance(5s);
  for (const char* id : {"seen", "dead", "open", "leased", "marked"}) {
    const auto state = inbox().state(a_key(id));
    EXPECT_FALSE(inbox().already_processed(a_key(id))) << id;
    EXPECT_EQ(detail(a_key(id)).message.created_at, begin) << id;
    EXPECT_EQ(detail(a_key(id)).message.last_seen_at, begin + 5s) << id;
    EXPECT_EQ(inbox().state(a_key(id)), state) << id;
  }
}

TEST_P(Observe, moves_the_last_seen_time_of_a_done_message_and_nothing_else) {
  make_done();
  const MessageDetail before = detail();
  clock().advance(5s);
  std::ignore = inbox().already_processed(a_key());
  const MessageDetail after = detail();
  EXPECT_EQ(after.message.last_seen_at, before.message.last_seen_at + 5s);
  EXPECT_EQ(after.message.seen_count, before.message.seen_count + 1);
  EXPECT_EQ(after.message.content_version, before.message.content_version);
  EXPECT_EQ(after.deliveries.at(0).finished_at, before.deliveries.at(0).finished_at);
}

TEST_P(Observe, never_moves_the_last_seen_time_back) {
  std::ignore = inbox().already_processed(a_key());
  const Instant late = clock().now();
  clock().advance(-60s);
  std::ignore = inbox().already_processed(a_key());
  EXPECT_EQ(detail().message.last_seen_at, late);
}

TEST_P(Observe, IBX_006_never_fails_or_inserts_twice_when_many_ask_at_once) {
  constexpr int askers = 6;
  constexpr int ids = 20;
  for (int i = 0; i < askers; ++i) other_inbox(static_cast<std::size_t>(i));
  std::atomic<int> done = 0;
  race(askers, [&](int asker) {
    for (int id = 0; id < ids; ++id) {
      done += other_inbox(static_cast<std::size_t>(asker))
                  .already_processed(a_key("evt_" + std::to_string(id)));
    }
  });
  EXPECT_EQ(done, 0);
  EXPECT_EQ(count_messages(), std::to_string(ids));
  EXPECT_EQ(read("select sum(seen_count) from {schema}inbox_message"),
            std::to_string(askers * ids));
}

TEST_P(Observe, IBX_007_keeps_the_hash_it_is_given) {
  const ContentHash hash = ContentHash::of(payload());
  std::ignore = inbox().already_processed(a_key(), hash);
  EXPECT_EQ(detail().hash, hash);
}

TEST_P(Observe, IBX_007_keeps_the_first_hash_that_is_not_empty) {
  std::ignore = inbox().already_processed(a_key());
  EXPECT_EQ(detail().hash, std::nullopt);
  std::ignore = inbox().already_processed(a_key(), ContentHash::of("first"));
  std::ignore = inbox().already_processed(a_key(), ContentHash::of("second"));
  std::ignore = inbox().already_processed(a_key());
  EXPECT_EQ(detail().hash, ContentHash::of("first"));
}

TEST_P(Observe, IBX_008_warns_about_another_hash_and_still_answers) {
  REQUIREMENT("IBX-007");
  EXPECT_FALSE(inbox().observe(a_key(), ContentHash::of("first")).conflict);
  const Observed observed = inbox().observe(a_key(), ContentHash::of("second"));
  EXPECT_TRUE(observed.conflict);
  EXPECT_FALSE(observed.done);
  EXPECT_FALSE(inbox().already_processed(a_key(), ContentHash::of("third")));

  const auto warnings = log().events("conflict");
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].level, LogLevel::warning);
  const std::vector<std::pair<std::string, std::string>> ids_only{
      {"store", "test store"}, {"box", "inbox"}, {"source", "stripe"}, {"id", "evt_1"}};
  EXPECT_EQ(warnings[0].fields, ids_only);
}

TEST_P(Observe, IBX_008_answers_true_for_a_done_message_with_another_hash) {
  Arrival arrival = an_arrival();
  arrival.extras.hash = ContentHash::of("first");
  make_done(arrival);
  const Observed observed = inbox().observe(a_key(), ContentHash::of("second"));
  EXPECT_TRUE(observed.done);
  EXPECT_TRUE(observed.conflict);
}

TEST_P(Observe, IBX_008_compares_only_what_can_be_compared) {
  inbox().observe(a_key(), ContentHash::of("first"));
  EXPECT_FALSE(inbox().observe(a_key(), ContentHash::of("first")).conflict);
  EXPECT_FALSE(inbox().observe(a_key()).conflict);
  EXPECT_FALSE(inbox().observe(a_key(), ContentHash{"other bytes", "md5"}).conflict);
  EXPECT_TRUE(conflicts().empty());
}

TEST_P(Observe, IBX_009_IBX_010_IBX_011_IBX_012_refuses_names_out_of_bounds_and_writes_nothing) {
  inbox();
  const std::string long_text(256, 'x');
  EXPECT_THROW(std::ignore = inbox().already_processed(a_key("")), std::invalid_argument);
  EXPECT_THROW(std::ignore = inbox().already_processed(a_key("evt_1", "")), std::invalid_argument);
  EXPECT_THROW(std::ignore = inbox().already_processed(a_key(long_text)), std::invalid_argument);
  EXPECT_THROW(std::ignore = inbox().already_processed(a_key("evt_1", long_text)),
               std::invalid_argument);
  EXPECT_EQ(count_messages(), "0");
  EXPECT_FALSE(inbox().already_processed(a_key(long_text.substr(1), long_text.substr(1))));
  EXPECT_EQ(count_messages(), "1");
}

TEST_P(Observe, refuses_an_empty_hash_and_one_whose_algorithm_is_no_text) {
  inbox();
  EXPECT_THROW(inbox().observe(a_key(), ContentHash{""}), std::invalid_argument);
  EXPECT_THROW(inbox().observe(a_key(), ContentHash{"bytes", ""}), std::invalid_argument);
  EXPECT_THROW(inbox().observe(a_key(), ContentHash{"bytes", "\xFF"}), std::invalid_argument);
  EXPECT_EQ(count_messages(), "0");
}

TEST_P(Observe, IBX_129_hashes_with_sha256_unless_told_otherwise) {
  const ContentHash hash = ContentHash::of("abc");
  EXPECT_EQ(hash.algorithm, "sha256");
  using namespace std::string_literals;
  EXPECT_EQ(hash.bytes,
            "\xBA\x78\x16\xBF\x8F\x01\xCF\xEA\x41\x41\x40\xDE\x5D\xAE\x22\x23"
            "\xB0\x03\x61\xA3\x96\x17\x7A\x9C\xB4\x10\xFF\x61\xF2\x00\x15\xAD"s);
  std::ignore = inbox().already_processed(a_key(), hash);
  EXPECT_EQ(read("select hash_algorithm from {schema}inbox_message"), "sha256");
}

TEST_P(Observe, has_processed_only_reads) {
  EXPECT_FALSE(inbox().has_processed(a_key()));
  EXPECT_EQ(inbox().state(a_key()), std::nullopt);
  EXPECT_EQ(count_messages(), "0");
  make_done();
  const Instant seen = detail().message.last_seen_at;
  clock().advance(5s);
  EXPECT_TRUE(inbox().has_processed(a_key()));
  EXPECT_EQ(detail().message.last_seen_at, seen);
  EXPECT_EQ(detail().message.seen_count, 1);
}

TEST_P(Observe, IBX_102_leaves_nothing_behind_when_the_callers_transaction_is_rolled_back) {
  inbox();
  EXPECT_THROW(database().in_transaction([&](Session& session) {
    EXPECT_FALSE(inbox().already_processed(session, a_key()));
    EXPECT_EQ(inbox().state(session, a_key()), MessageState::seen);
    EXPECT_FALSE(inbox().has_processed(session, a_key()));
    throw std::runtime_error("rolled back");
  }),
               std::runtime_error);
  EXPECT_EQ(inbox().state(a_key()), std::nullopt);
}

TWINBOX_ON_EVERY_BACKEND(Observe);

}  // namespace
}  // namespace twinbox::test
