// Messages whose leases are lost while a dispatcher still has them.
#include <atomic>
#include <semaphore>
#include <thread>

#include "support/running.hpp"

namespace twinbox::test {
namespace {

/// The only worker of a dispatcher is busy until leases have been renewed. Meanwhile others are
/// claimed and wait for it, and half of them are discarded: their leases are lost.
class LostLease : public RunningTest {
 protected:
  LostLease() : database_{test_store().address(), {}, watched()}, box_{database_, options()} {
    handlers_.on(Topic{"order.placed"}, [&](const Message&) { keep_busy(); });
    // As many wait as one worker could start at once.
    handlers_.on_batch(Topic{"room"}, all_done, {.max_batch = 100'000});
  }

  void run_until_all_are_handled() {
    Dispatcher dispatcher{box_, handlers_, {.workers = 1, .lease = 3s}, observer()};
    box_.enqueue(a_message());
    const std::jthread thread{[&](const std::stop_token& stop) { dispatcher.run(stop); }};
    EXPECT_TRUE(all_handled_.try_acquire_for(60s));
  }
  /// What the handler of those that have waited does.
  void handle(const Message& message, const std::stop_token& stop) {
    EXPECT_EQ(state(message.id), DeliveryState::leased);
    EXPECT_FALSE(stop.stop_requested());
    if (++handled_ == waited_ - discarded_) all_handled_.release();
  }
  void expect_each_told_once_and_the_others_done() {
    EXPECT_GT(discarded_, 0u);
    EXPECT_EQ(lost_, discarded_);
    EXPECT_EQ(Admin{box_}.counts(true).all.done, static_cast<std::int64_t>(handled_ + 1));
  }
  static std::vector<Outcome> all_done(std::span<const Message> messages, const std::stop_token&) {
    return std::vector<Outcome>(messages.size(), Outcome::done());
  }

  Handlers handlers_;

 private:
  Environment watched() {
    Environment watched = environment();
    watched.timing = [this](std::string_view statement, std::chrono::nanoseconds, std::size_t) {
      if (statement == "renew") renewed_ = true;
    };
    return watched;
  }
  DispatchObserver observer() {
    DispatchObserver observer;
    // A visit renews before it claims: what is discarded here is lost at the first renewal.
    observer.claimed = [this](auto...) {
      if (renewed_) return;
      discarded_ += Admin{box_}.discard(
          {.state = StateFilter::leased, .correlation_id = CorrelationId{"lost"}},
          {.reason = "not wanted"});
    };
    observer.lease_lost = [this](std::string_view, std::size_t count) { lost_ += count; };
    return observer;
  }
  /// Some have waited for a moment only, and are not given back for having waited too long.
  void keep_busy() {
    while (!renewed_) {
      let_wait("kept");
      let_wait("lost");
    }
    // The second of these is claimed by a visit that begins when the one that renewed is over.
    let_wait("kept");
    let_wait("kept");
  }
  void let_wait(const std::string& fate) {
    NewMessage message = a_message("row.added");
    message.id = MessageId{unique_name()};
    message.extras.correlation_id = CorrelationId{fate};
    box_.enqueue(message);
    ++waited_;
    while (state(*message.id) == DeliveryState::ready) std::this_thread::yield();
  }
  DeliveryState state(const MessageId& id) {
    return Admin{box_}.get(id).value().deliveries.at(0).state;
  }

  std::atomic<bool> renewed_ = false;
  std::atomic<std::size_t> waited_ = 0;
  std::atomic<std::size_t> discarded_ = 0;
  std::atomic<std::size_t> lost_ = 0;
  std::atomic<std::size_t> handled_ = 0;
  std::binary_semaphore all_handled_{0};
  Database database_;
  Outbox box_;
};

TEST_P(LostLease, OBX_059_what_is_lost_while_it_waits_is_not_handed_to_its_handler) {
  REQUIREMENT("IBX-078, PHD-32");
  handlers_.on(Topic{"row.added"},
               [&](const Message& message, const std::stop_token& stop) { handle(message, stop); });
  run_until_all_are_handled();
  expect_each_told_once_and_the_others_done();
}

TEST_P(LostLease, what_is_lost_while_it_waits_does_not_stop_the_batch_of_the_others) {
  handlers_.on_batch(Topic{"row.added"},
                     [&](std::span<const Message> messages, const std::stop_token& stop) {
                       for (const Message& message : messages) handle(message, stop);
                       return all_done(messages, stop);
                     });
  run_until_all_are_handled();
  expect_each_told_once_and_the_others_done();
}

TWINBOX_ON_EVERY_BACKEND(LostLease);

}  // namespace
}  // namespace twinbox::test
