// Many threads on the same few rows: whoever is told that he holds a lease is the only one.
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_set>

#include "end_to_end/concurrency/shared_store.hpp"

namespace twinbox::test {
namespace {

constexpr int threads = 8;
/// Many times what is needed: on a store that loses or doubles work the test fails instead of
/// waiting.
constexpr int most_claims_each = 20'000;

/// Who holds what, by what the workers were told.
class Holders {
 public:
  void take(const std::vector<Message>& messages) {
    const std::lock_guard lock(mutex_);
    for (const Message& message : messages) {
      if (!held_.insert(message.delivery_id).second) ++doubles_;
    }
  }
  void give_back(const std::vector<Message>& messages) {
    const std::lock_guard lock(mutex_);
    for (const Message& message : messages) held_.erase(message.delivery_id);
  }
  [[nodiscard]] int doubles() const { return doubles_; }

 private:
  std::mutex mutex_;
  std::unordered_set<DeliveryId> held_;
  std::atomic<int> doubles_ = 0;
};

class Threads : public ::testing::TestWithParam<Backend> {
 protected:
  Threads() { skip_without_server(GetParam()); }

  static BoxOptions options(const TestStore& test_store) {
    BoxOptions box;
    box.schema = test_store.schema();
    box.deploy_schema = true;
    return box;
  }

  static DatabaseOptions pool() {
    DatabaseOptions options;
    options.pool_size = threads + 2;
    return options;
  }

  static void on_all_threads(const std::function<void(std::uint64_t seed)>& work) {
    std::random_device entropy;
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i) running.emplace_back(work, std::uint64_t{entropy()});
  }
};

TEST_P(Threads, OBX_081_claim_renew_abandon_and_ack_the_same_few_rows) {
  REQUIREMENT("OBX-019,OBX-017");
  constexpr int rows = 60;
  campaign([&] {
    const TestStore test_store(GetParam());
    Database database(test_store.address(), pool());
    Outbox outbox(database, options(test_store));
    for (int i = 0; i < rows; ++i) outbox.enqueue(a_message());
    Holders holders;
    std::atomic<int> acked = 0, stale = 0;
    on_all_threads([&](std::uint64_t seed) {
      std::mt19937_64 chance(seed);
      const OwnerToken owner = OwnerToken::make(database.environment());
      for (int i = 0; i < most_claims_each && acked < rows && holders.doubles() + stale == 0; ++i) {
        const std::vector<Message> messages = outbox.claim(owner, 60s, 10);
        holders.take(messages);
        std::vector<Message> done, again;
        for (const Message& message : messages) {
          (chance() % 15 == 0 ? done : again).push_back(message);
        }
        if (chance() % 2 == 0 && outbox.renew(owner, messages, 60s).size() != messages.size()) {
          ++stale;
        }
        holders.give_back(messages);
        if (outbox.abandon(owner, again, "again", 1us) != again.size()) ++stale;
        if (outbox.ack(owner, done) != done.size()) ++stale;
        acked += static_cast<int>(done.size());
      }
    });
    EXPECT_EQ(holders.doubles(), 0) << "double leases";
    EXPECT_EQ(stale, 0) << "settles under a live lease that changed nothing";
    EXPECT_EQ(acked, rows);
    EXPECT_TRUE(outbox.claim(OwnerToken::make(database.environment()), 60s, 10).empty());
  });
}

TEST_P(Threads, IBX_103_accept_claim_and_ack_at_once_and_each_message_is_done_once) {
  REQUIREMENT("IBX-030,IBX-033");
  constexpr int messages_in_all = 300;
  campaign([&] {
    const TestStore test_store(GetParam());
    Database database(test_store.address(), pool());
    Inbox inbox(database, options(test_store));
    Holders holders;
    std::atomic<int> fresh = 0, acked = 0, lost = 0;
    on_all_threads([&](std::uint64_t seed) {
      std::mt19937_64 chance(seed);
      const OwnerToken owner = OwnerToken::make(database.environment());
      int next = 0;
      for (int i = 0; i < most_claims_each && acked < messages_in_all; ++i) {
        for (int k = 0; k < 5 && next < messages_in_all; ++k, ++next) {
          Arrival arrival = an_arrival("m" + std::to_string(next));
          if (next % 3 == 0)
            arrival.extras.partition_key = PartitionKey{"k" + std::to_string(next % 5)};
          if (!inbox.accept(arrival).duplicate()) ++fresh;
        }
        const std::vector<Message> messages =
            inbox.claim(owner, 60s, 1 + static_cast<int>(chance() % 8));
        holders.take(messages);
        if (inbox.renew(owner, messages, 60s).size() != messages.size()) ++lost;
        holders.give_back(messages);
        acked += static_cast<int>(inbox.ack(owner, messages));
      }
    });
    EXPECT_EQ(holders.doubles(), 0) << "double leases";
    EXPECT_EQ(lost, 0) << "live leases that could not be renewed";
    EXPECT_EQ(fresh, messages_in_all);
    EXPECT_EQ(acked, messages_in_all);
    for (int i = 0; i < messages_in_all; ++i) {
      EXPECT_TRUE(inbox.has_processed(a_key("m" + std::to_string(i)))) << i;
    }
  });
}

TWINBOX_ON_EVERY_SHARED_BACKEND(Threads);

}  // namespace
}  // namespace twinbox::test
