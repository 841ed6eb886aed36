// What the ledgers and the store must agree on after a campaign.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "end_to_end/chaos/campaign.hpp"
#include "end_to_end/chaos/ledger.hpp"

namespace twinbox::chaos {

/// What the store says about itself at the end.
struct Stored {
  struct Message {
    int state = 0;  ///< 0 open, 1 done, 2 dead, 4 marked
    std::string finished_by;
  };
  std::map<std::string, Message> messages;
  std::set<std::string> orders;                      ///< rows of the callers' own
  std::multimap<std::string, std::int64_t> effects;  ///< of transactional handlers, with the epoch
};

Stored read_stored(const Store& store);

/// One promise, and where it was broken.
struct Promise {
  std::string text;
  std::vector<std::string> broken = {};
};

/// What followed the faults of one kind.
struct Aftermath {
  int count = 0;
  int repeated = 0;                ///< calls that had to be made again
  std::vector<Micros> resumed;     ///< from the end of the cause to the next handled message
  std::vector<Micros> taken_over;  ///< from the end of cause and lease to the next call
};

class Verdict {
 public:
  /// `in_time`: that work goes on within 5 s is a promise too. A busy machine can break it.
  Verdict(const Course& course, const Stored& stored, bool in_time);

  [[nodiscard]] bool kept() const;
  void print() const;

 private:
  Promise& promise(std::string text);
  void print_faults() const;
  void print_totals() const;
  void print_promises() const;
  void check_producers();
  void check_messages();
  void check_message(const std::string& id, const Stored::Message& message);
  void check_calls(const std::string& id, const std::vector<Call>& calls);
  void check_effects();
  void check_order();
  void check_recovery();
  /// False: one process only.
  [[nodiscard]] bool hits_everybody(FaultKind kind) const;
  /// `from`, or the end of the faults for everybody that were there then, one after the other.
  [[nodiscard]] Micros causes_gone(Micros from) const;
  /// The fault that explains why `again` followed `first`; null: none does.
  [[nodiscard]] const Fault* cause_of(const Call& first, const Call& again,
                                      bool transactional) const;

  const Course& course_;
  const Stored& stored_;
  const bool in_time_;
  Produced produced_;
  Handled handled_;
  std::map<FaultKind, Aftermath> aftermath_;
  std::map<std::string, Promise> promises_;
  int stale_ = 0;  ///< calls that came back after somebody else had begun anew
};

}  // namespace twinbox::chaos
