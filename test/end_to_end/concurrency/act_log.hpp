// What a process did, one line per act, in a file of its own that outlives a kill.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace twinbox::test {

enum class Line : char {
  enqueued = 'E',  ///< id
  accepted = 'A',  ///< id; only by the one who was told that it is new
  claimed = 'C',   ///< work, epoch, begin and end of the lease by the database's clock
  settling = 'S',  ///< work, epoch: a settle is about to be sent
  finished = 'F',  ///< work, epoch: an ack or fail changed it
};

class ActLog {
 public:
  explicit ActLog(const std::string& file);
  ~ActLog();
  ActLog(const ActLog&) = delete;
  ActLog& operator=(const ActLog&) = delete;

  void write(Line line, const std::string& rest) const;

 private:
  int file_;
};

/// The logs of all processes, put together.
struct Acts {
  struct Claim {
    std::int64_t begin, end;
    bool settling = false;  ///< given back or finished, maybe: another claim may follow at once
  };
  /// By work and epoch; more than one of an epoch is what must not be.
  std::map<std::int64_t, std::map<std::int64_t, std::vector<Claim>>> claims;
  std::multiset<std::string> enqueued;
  std::multiset<std::string> accepted;
  std::multiset<std::int64_t> finished;  ///< works

  /// One process's.
  void read(const std::string& file);
  /// A claim that began before the one before it had ended, by one who had not settled it; and a
  /// lease that was given twice.
  [[nodiscard]] std::vector<std::string> double_leases() const;
};

}  // namespace twinbox::test
