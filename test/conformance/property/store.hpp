// A real store and the model beside it: each step is made on both, and both are compared.
#pragma once

#include <array>
#include <memory>
#include <stdexcept>
#include <vector>

#include "conformance/property/caller.hpp"
#include "conformance/property/model.hpp"
#include "support/backend.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {

enum class StepKind {
  accept,
  accept_batch,
  accept_and_claim,
  observe,
  mark_processing,
  mark_processed,
  mark_arrival_processed,
  mark_dead,
  try_claim,
  release_claim,
  claim,
  renew,
  ack,
  abandon,
  fail,
  release,
  postpone,
  release_by_operator,
  postpone_by_operator,
  ack_by_id,
  abandon_by_id,
  fail_by_id,
  reap,
  expire,
  prune,
  requeue,
  discard,
  edit,
  advance,
  step_back,
};

const char* to_string(StepKind kind) noexcept;

/// One step of a case. Small numbers choose among small sets, so that steps meet each other and a
/// failing case shrinks to few and simple ones.
struct Step {
  StepKind kind;
  std::array<int, 7> choice;
};

std::ostream& operator<<(std::ostream& out, const Step& step);

enum class Kind { outbox, inbox };

/// The two stores gave different answers, or stand differently.
struct Disagreement : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Store {
 public:
  Store(Backend backend, Kind kind);

  /// Empties the store, and says whether what dies from now on holds its key; ids go on.
  void clear(bool hold_keys);
  /// Makes the step on the store and on the model. Throws Disagreement.
  void make(const Step& step);

 private:
  struct Granted {
    OwnerToken owner;
    Lease lease;
  };
  /// How a call is made: by itself, in a caller's transaction, or in one that is rolled back.
  enum class Way { own, session, rolled_back };
  static Way way_of(const Step& step);
  /// Whose transaction it is: the pool's, or, by chance, that of a connection which is not ours.
  void in_transaction(Way way, const std::function<void(Session&)>& work);

  [[nodiscard]] WorkQueue& queue();
  [[nodiscard]] model::State read_state();
  /// Makes a call the way it is to be made.
  template <class Call>
  auto perform(Way way, Call call);
  /// Makes a call and what the model says about it; both must answer the same.
  template <class Call, class Expect>
  void both(Way way, Call call, Expect expect);
  void compare();
  void check_invariants(const model::State& found) const;

  void make_intake(const Step& step);
  void make_mark(const Step& step);
  void make_claim(const Step& step);
  void make_accept_and_claim(const Step& step);
  void make_settle(const Step& step);
  void make_settle_by_id(const Step& step);
  void make_operator(const Step& step);
  void make_sweep(const Step& step);

  [[nodiscard]] Arrival arrival_of(const Step& step, int shift = 0) const;
  [[nodiscard]] std::vector<Granted> granted_of(const Step& step) const;
  void grant(const OwnerToken& owner, const std::vector<Message>& messages);
  void check_claimed(const model::Model& after, const std::vector<Message>& messages) const;

  Kind kind_;
  TestStore test_store_;
  ManualClock clock_;
  std::unique_ptr<Database> database_;
  /// The same box twice: what dies in the second one holds its key.
  std::array<std::unique_ptr<Inbox>, 2> inboxes_;
  std::array<std::unique_ptr<Outbox>, 2> outboxes_;
  Inbox* inbox_ = nullptr;  ///< one of them
  Outbox* outbox_ = nullptr;
  std::unique_ptr<Admin> admin_;
  std::vector<std::unique_ptr<Caller>> callers_;
  std::size_t turn_ = 0;  ///< which of them makes this step; past the last: the pool
  model::Model model_;
  model::State last_;  ///< of the real store, one step ago
  std::map<model::Key, std::int64_t> numbers_;
  std::vector<Granted> granted_;
  bool pruned_ = false;
};

template <class Call>
auto Store::perform(Way way, Call call) {
  if (way == Way::own) return call();
  std::optional<decltype(call())> answer;
  in_transaction(way, [&](Session& session) { answer.emplace(call(session)); });
  return std::move(*answer);
}

template <class Call, class Expect>
void Store::both(Way way, Call call, Expect expect) {
  model::Model next = model_;
  const auto expected = expect(next);
  const auto found = perform(way, call);
  if (!(expected == found)) throw Disagreement("the answer differs");
  if (way != Way::rolled_back) model_ = std::move(next);
}

}  // namespace twinbox::test
