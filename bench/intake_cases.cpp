#include "candidate.hpp"
#include "cases.hpp"
#include "load.hpp"

namespace twinbox::bench {
namespace {

/// A store for each side: they meet the same tables in the same state.
struct Pair {
  Pair(Dialect dialect, BoxKind kind) : our_place(dialect, kind), raw_place(dialect, kind) {}

  BenchStore our_place;
  BenchStore raw_place;
  std::shared_ptr<Candidate> ours = our_place.twinbox();
  std::shared_ptr<Candidate> raw = raw_place.raw();
};

Case enqueue_case(Dialect dialect, std::size_t batch, std::size_t size) {
  const std::string how = batch == 1 ? "single" : "batch " + std::to_string(batch);
  return {"enqueue, " + how + ", " + size_text(size),
          dialect,
          "msg/s",
          usual_target,
          false,
          [=](const Repetitions& effort) {
            auto pair = std::make_shared<Pair>(dialect, BoxKind::outbox);
            const auto side = [=](std::shared_ptr<Candidate> who) {
              return [=, messages = some_messages(batch, size)] {
                return rate(effort.slice, [&] {
                  batch == 1 ? who->enqueue(messages.front()) : who->enqueue(messages);
                  return batch;
                });
              };
            };
            // The stores live as long as one of the sides.
            return Comparison{[pair, run = side(pair->ours)] { return run(); },
                              [pair, run = side(pair->raw)] { return run(); }};
          }};
}

/// Hands out batches in which every second arrival was in the batch before, when asked for.
class Arrivals {
 public:
  Arrivals(std::size_t batch, bool repeats) : batch_(batch), repeats_(repeats) { next(); }

  void next() {
    const std::vector<Arrival> before = std::move(current_);
    current_ = some_arrivals(batch_, 256);
    const bool repeat_whole = batch_ == 1 && repeats_ && fresh_;
    fresh_ = !repeat_whole;
    if (before.empty() || !repeats_) return;
    if (repeat_whole) current_ = before;
    // The new half of the batch before comes again.
    for (std::size_t i = 0; i + 1 < batch_; i += 2) current_[i] = before[i + 1];
  }
  [[nodiscard]] const std::vector<Arrival>& current() const noexcept { return current_; }

 private:
  std::size_t batch_;
  bool repeats_;
  bool fresh_ = false;
  std::vector<Arrival> current_;
};

Case accept_case(Dialect dialect, std::size_t batch, bool repeats) {
  const std::string how = batch == 1 ? "single" : "batch " + std::to_string(batch);
  return {"accept, " + how + (repeats ? ", 50 % duplicates" : ", 0 % duplicates"),
          dialect,
          "msg/s",
          usual_target,
          false,
          [=](const Repetitions& effort) {
            auto pair = std::make_shared<Pair>(dialect, BoxKind::inbox);
            const auto side = [=](std::shared_ptr<Candidate> who) {
              return [=, arrivals = Arrivals(batch, repeats)]() mutable {
                return rate(
                    effort.slice,
                    [&] {
                      batch == 1 ? static_cast<void>(who->accept(arrivals.current().front()))
                                 : static_cast<void>(who->accept(arrivals.current()));
                      return batch;
                    },
                    [&] { arrivals.next(); });
              };
            };
            return Comparison{[pair, run = side(pair->ours)]() mutable { return run(); },
                              [pair, run = side(pair->raw)]() mutable { return run(); }};
          }};
}

}  // namespace

std::vector<Case> intake_cases(Dialect dialect) {
  std::vector<Case> cases;
  for (const std::size_t size : {256U, 4096U}) {
    for (const std::size_t batch : {1U, 100U, 1000U})
      cases.push_back(enqueue_case(dialect, batch, size));
  }
  for (const bool repeats : {false, true}) {
    for (const std::size_t batch : {1U, 100U})
      cases.push_back(accept_case(dialect, batch, repeats));
  }
  return cases;
}

}  // namespace twinbox::bench
