// A primary of the test's own, and a standby that streams from it.
#pragma once

#include <string>

#include "support/postgres.hpp"

namespace twinbox::test {

/// The standby is asynchronous until synchronous_standby_names names it: `standby`. Both end with
/// the pair.
class PostgresPair {
 public:
  PostgresPair();
  ~PostgresPair();
  PostgresPair(const PostgresPair&) = delete;
  PostgresPair& operator=(const PostgresPair&) = delete;

  [[nodiscard]] const std::string& primary() const noexcept { return primary_; }
  [[nodiscard]] const std::string& standby() const noexcept { return standby_; }
  /// Leads to the one of both that takes writes.
  [[nodiscard]] std::string both() const;

  /// Sets, or with an empty name resets, what the primary waits for at a commit; returns when a new
  /// connection sees it.
  void set_synchronous_standby(const std::string& name);
  /// Returns when the standby has all that the primary has committed so far.
  void catch_up() const;
  /// From now on the standby gets nothing more, and so loses what the primary commits.
  void cut_off_standby() const;
  void reconnect_standby() const;
  /// The primary crashes, and the standby takes its place.
  void fail_over();

 private:
  std::string folder_;
  std::string primary_;
  std::string standby_;
};

}  // namespace twinbox::test
