// Connections that are not Twinbox's, one for each client library that has a session.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "support/backend.hpp"

namespace twinbox::test {

class Caller {
 public:
  virtual ~Caller() = default;

  /// Runs `work` in a transaction of this connection, and commits it or rolls it back. What `work`
  /// throws rolls it back, too.
  virtual void run(bool kept, const std::function<void(Session&)>& work) = 0;
};

/// None where only the store's own connection sees it.
std::vector<std::unique_ptr<Caller>> callers_of(Backend backend, const TestStore& test_store);

}  // namespace twinbox::test
