// Reads from the server's log how statements were really executed, those inside functions, too.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace twinbox::test {

/// One executed statement.
struct ExecutedPlan {
  std::string query;
  std::string text;                ///< the plan as the server wrote it
  std::vector<std::string> nodes;  ///< its nodes with their tables and indexes, without numbers
  long buffers = 0;                ///< pages touched by the whole statement
  long most_rows = 0;              ///< the most rows that any node gave or threw away
};

/// `address` for connections whose statements are written to the server's log.
std::string explained(const std::string& address);

/// What was executed during `body`, as far as its text mentions `word`.
std::vector<ExecutedPlan> plans_of(const std::string& word, const std::function<void()>& body);

}  // namespace twinbox::test
