// What the handlers of a world were called for, and what they answered.
#pragma once

#include <map>
#include <string>

#include "simulation/ledger.hpp"
#include "simulation/oracle.hpp"

namespace twinbox::simulation {

/// How a delivery is handled.
enum class Kind {
  plain,
  batch,
  transactional,
  once,   ///< at most once
  again,  ///< at most once, and put back when it fails
  nobody  ///< there is no handler
};

/// How a call ended, as far as its handler knows.
enum class Answer { none, done, retry, dead, postpone };

class Calls {
 public:
  /// Throws Violation when a call may have been made before that must not be repeated.
  void begun(const DeliveryName& delivery, Kind kind);
  void answered(const DeliveryName& delivery, Answer answer);

  /// Throws Violation unless the outcome follows from what the handlers have answered.
  void check_end(const DeliveryName& delivery, Kind kind, const OutcomeRow& outcome, int effects,
                 int max_attempts) const;

 private:
  struct Record {
    int calls = 0, done = 0, dead = 0;
    Answer last = Answer::none;
  };
  std::map<DeliveryName, Record> records_;
};

}  // namespace twinbox::simulation
