// A SQLite file that another program is writing to.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include <sqlite3.h>

namespace twinbox::test {

/// Another program that holds the write lock of a file.
class WriteLock {
 public:
  explicit WriteLock(const std::string& address) {
    const std::string file = address.substr(address.find(':') + 1);
    sqlite3* opened = nullptr;
    const bool ok = sqlite3_open(file.c_str(), &opened) == SQLITE_OK;
    connection_.reset(opened);
    sqlite3_busy_timeout(opened, 60'000);
    if (!ok || sqlite3_exec(opened, "begin immediate", nullptr, nullptr, nullptr) != SQLITE_OK)
      throw std::runtime_error("cannot lock " + file + ": " + sqlite3_errmsg(opened));
  }

 private:
  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> connection_{nullptr, &sqlite3_close};
};

}  // namespace twinbox::test
