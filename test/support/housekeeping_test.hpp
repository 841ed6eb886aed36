// What the tests of housekeeping share: options for one chore, and a report as one line.
#pragma once

#include <string>

#include "support/inbox_test.hpp"
#include <twinbox/housekeeping.hpp>

namespace twinbox::test {

class HousekeepingTest : public InboxTest {
 protected:
  static HousekeepingOptions only(Chore chore) {
    HousekeepingOptions options;
    options.reap.enabled = chore == Chore::reap;
    options.expire.enabled = chore == Chore::expire;
    options.prune.enabled = chore == Chore::prune;
    return options;
  }
  static HousekeepingOptions pruning(Duration retention, std::int64_t batch = 1000) {
    HousekeepingOptions options = only(Chore::prune);
    options.retention = retention;
    options.prune.batch = batch;
    return options;
  }
  /// Each chore with its end and its count, as one line.
  static std::string line(const HousekeepingReport& report) {
    std::string text;
    for (const ChoreReport& chore : report.chores) {
      text += (text.empty() ? "" : ", ") + std::string{to_string(chore.chore)} + " " +
              std::string{to_string(chore.end)} + " " + std::to_string(chore.count);
    }
    return text;
  }
  std::string rows(const std::string& table) {
    return read("select count(*) from {schema}inbox_" + table);
  }
};

}  // namespace twinbox::test
