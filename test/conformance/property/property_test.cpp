// Random operations on a real store beside the model, step by step.
#include <chrono>
#include <cstdlib>
#include <iostream>

#include <rapidcheck.h>

#include "conformance/property/store.hpp"

namespace twinbox::test {

const char* to_string(StepKind kind) noexcept {
  static constexpr std::array names{"accept",
                                    "accept_batch",
                                    "accept_and_claim",
                                    "observe",
                                    "mark_processing",
                                    "mark_processed",
                                    "mark_arrival_processed",
                                    "mark_dead",
                                    "try_claim",
                                    "release_claim",
                                    "claim",
                                    "renew",
                                    "ack",
                                    "abandon",
                                    "fail",
                                    "release",
                                    "postpone",
                                    "release_by_operator",
                                    "postpone_by_operator",
                                    "ack_by_id",
                                    "abandon_by_id",
                                    "fail_by_id",
                                    "reap",
                                    "expire",
                                    "prune",
                                    "requeue",
                                    "discard",
                                    "edit",
                                    "advance",
                                    "step_back"};
  return names[static_cast<std::size_t>(kind)];
}

std::ostream& operator<<(std::ostream& out, const Step& step) {
  out << to_string(step.kind) << '{';
  for (std::size_t i = 0; i < step.choice.size(); ++i) out << (i > 0 ? "," : "") << step.choice[i];
  return out << '}';
}

namespace {

rc::Gen<StepKind> any_step_kind() {
  using enum StepKind;
  return rc::gen::weightedElement<StepKind>({{12, accept},
                                             {4, accept_batch},
                                             {3, accept_and_claim},
                                             {3, observe},
                                             {2, mark_processing},
                                             {2, mark_processed},
                                             {2, mark_arrival_processed},
                                             {3, mark_dead},
                                             {3, try_claim},
                                             {2, release_claim},
                                             {16, claim},
                                             {4, renew},
                                             {6, ack},
                                             {8, abandon},
                                             {5, fail},
                                             {4, release},
                                             {3, postpone},
                                             {2, release_by_operator},
                                             {2, postpone_by_operator},
                                             {2, ack_by_id},
                                             {2, abandon_by_id},
                                             {2, fail_by_id},
                                             {4, reap},
                                             {4, expire},
                                             {3, prune},
                                             {6, requeue},
                                             {4, discard},
                                             {3, edit},
                                             {12, advance},
                                             {3, step_back}});
}

// The size of a case is its number of steps: what they choose is as wide in a short case as in a
// long one.
rc::Gen<std::vector<Step>> any_steps() {
  const auto choice = rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, 12));
  const auto step =
      rc::gen::map(rc::gen::pair(any_step_kind(), rc::gen::container<std::array<int, 7>>(choice)),
                   [](const std::pair<StepKind, std::array<int, 7>>& parts) {
                     return Step{parts.first, parts.second};
                   });
  return rc::gen::container<std::vector<Step>>(step);
}

/// Memory is fast: it carries most of the cases.
int cases_on(Backend backend) {
  switch (backend) {
    case Backend::sqlite_memory: return 1500;
    case Backend::sqlite_file: return 150;
    case Backend::postgres: return 100;
    case Backend::sqlserver: return 30;
  }
  return 0;
}

/// At least one round; more until TWINBOX_CAMPAIGN_SECONDS are over.
bool hold(const std::string& name, Backend backend, Store& store) {
  using Clock = std::chrono::steady_clock;
  const char* seconds = std::getenv("TWINBOX_CAMPAIGN_SECONDS");
  const auto end = Clock::now() + std::chrono::seconds{seconds == nullptr ? 0 : std::atoi(seconds)};
  const auto property = [&] {
    const std::vector<Step> steps = *any_steps();
    store.clear(*rc::gen::arbitrary<bool>());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      try {
        store.make(steps[i]);
      } catch (const std::exception& error) {
        std::ostringstream why;
        why << "step " << i << ", " << steps[i] << ": " << error.what();
        RC_FAIL(why.str());
      }
    }
  };
  rc::detail::TestMetadata metadata;
  metadata.id = name;
  metadata.description = name;
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = cases_on(backend);
  params.maxSize = 200;
  do {
    const auto result = rc::detail::checkTestable(property, metadata, params);
    if (!result.is<rc::detail::SuccessResult>()) {
      rc::detail::printResultMessage(result, std::cerr);
      std::cerr << "\nto repeat: RC_PARAMS=\"seed=" << params.seed << "\" and this test alone\n";
      return false;
    }
    ++params.seed;
  } while (Clock::now() < end);
  return true;
}

class Property : public ::testing::TestWithParam<Backend> {
 protected:
  Property() { skip_without_server(GetParam()); }
};

TEST_P(Property, IBX_031_an_inbox_does_what_the_transition_table_says) {
  REQUIREMENT("IBX-038,IBX-047,IBX-064,IBX-071,IBX-099");
  Store store(GetParam(), Kind::inbox);
  EXPECT_TRUE(hold("inbox", GetParam(), store));
}

TEST_P(Property, OBX_018_an_outbox_does_what_the_transition_table_says) {
  REQUIREMENT("OBX-024,OBX-025,OBX-035,OBX-048,OBX-052");
  Store store(GetParam(), Kind::outbox);
  EXPECT_TRUE(hold("outbox", GetParam(), store));
}

TWINBOX_ON_EVERY_BACKEND(Property);

}  // namespace
}  // namespace twinbox::test
