// What the handlers of a world were called for, and what they answered.
#pragma once

#include <map>
#include <string>

#include "simulation/ledger.hpp"
#include "simulation/oracle.hpp"

namespace twinbox::simulation {

/// How a duty is handled.
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
  void begun(const DutyName& duty, Kind kind);
  void answered(const DutyName& duty, Answer answer);

  /// Throws Violation unless the outcome follows from what the handlers have answered.
  void check_end(const DutyName& duty, Kind kind, const OutcomeRow& outcome, int effects,
                 int max_attempts) const;

 private:
  struct Record {
    int calls = 0, done = 0, dead = 0;
    Answer last = Answer::none;
  };
  std::map<DutyName, Record> records_;
};

}  // namespace twinbox::simulation
