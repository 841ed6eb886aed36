// Rights mean nothing to root: a test of them acts as another user.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <unistd.h>

namespace twinbox::test {

/// For as long as it lives, the whole process.
class AsOrdinaryUser {
 public:
  AsOrdinaryUser() {
    if (geteuid() == 0 && seteuid(65534) != 0) throw std::runtime_error("seteuid failed");
  }
  ~AsOrdinaryUser() {
    if (getuid() == 0 && seteuid(0) != 0) std::abort();
  }
  AsOrdinaryUser(const AsOrdinaryUser&) = delete;
  AsOrdinaryUser& operator=(const AsOrdinaryUser&) = delete;
};

}  // namespace twinbox::test
