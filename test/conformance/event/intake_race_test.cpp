// The same message, from several senders at the same moment.
#include <algorithm>
#include <atomic>

#include "support/inbox_test.hpp"
#include <twinbox/intake.hpp>

namespace twinbox::test {
namespace {

constexpr int senders = 8;

class IntakeRace : public InboxTest {
 protected:
  /// The statuses of one request, sent by all at once.
  std::vector<int> send(const std::function<HttpResponse(const HttpRequest&)>& handle,
                        const HttpRequest& request) {
    std::vector<int> statuses(senders);
    race(senders, [&](int i) { statuses[static_cast<std::size_t>(i)] = handle(request).status; });
    return statuses;
  }
};

TEST_P(IntakeRace, EVB_12_one_of_several_senders_is_the_first) {
  const InboxIntake intake{accept_into(inbox())};
  for (int round = 0; round < 10; ++round) {
    const auto statuses = send([&](const HttpRequest& request) { return intake.handle(request); },
                               {.target = "/v1/inbox/shop/order.placed",
                                .headers = {{"Idempotency-Key", "order " + std::to_string(round)}},
                                .body = payload()});
    EXPECT_EQ(std::count(statuses.begin(), statuses.end(), 202), 1);
    EXPECT_EQ(std::count(statuses.begin(), statuses.end(), 200), senders - 1);
  }
  EXPECT_EQ(count_messages(), "10");
}

TEST_P(IntakeRace, EVB_12_the_handler_is_called_once_however_many_send_the_event) {
  std::atomic<int> calls = 0;
  EventHandlers handlers;
  handlers.on(EventName{"order"}, [&](const CloudEvent&) { ++calls; });
  const NamedEventIntake intake{handlers.names(), inline_mode(inbox(), handlers.handlers())};
  for (int round = 1; round <= 10; ++round) {
    const auto statuses = send([&](const HttpRequest& request) { return intake.handle(request); },
                               {.target = "/events/order/v1",
                                .headers = {{"ce-specversion", "1.0"},
                                            {"ce-id", std::to_string(round)},
                                            {"ce-source", "/shop"},
                                            {"ce-type", "order"}}});
    for (const int status : statuses) {
      EXPECT_TRUE(status == 200 || status == 503) << status;
    }
    EXPECT_GE(std::count(statuses.begin(), statuses.end(), 200), 1);
    EXPECT_EQ(calls, round);
  }
}

TWINBOX_ON_EVERY_BACKEND(IntakeRace);

}  // namespace
}  // namespace twinbox::test
