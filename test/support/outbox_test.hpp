// A fixture for tests of the outbox that also look at its view, which has the columns of the outbox
// document.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/backend.hpp"

namespace twinbox::test {

class OutboxTest : public BoxTest {
 protected:
  /// Enqueues a message and leases it to `owner`.
  Message enqueue_and_claim(OwnerToken owner, Duration lease = 30s);

  /// A column of the view as text, `null` when it has none; of the only message, or of `id`.
  std::string shown(const std::string& column, const std::string& id = {});
  std::optional<Instant> shown_time(const std::string& column, const std::string& id = {});
  std::optional<OwnerToken> shown_owner(const std::string& column, const std::string& id = {});
  /// A number that the test's own SQL counts.
  std::int64_t count(const std::string& sql);
  /// How many rows one of the outbox's tables has: `message`, `work`, `outcome`, `failure`.
  std::int64_t rows(const std::string& table);

  /// From now on the database refuses messages with this topic.
  void refuse_topic(const std::string& topic);

 private:
  /// The end of a cast to text.
  [[nodiscard]] std::string text_type() const;
};

std::vector<std::string> topics_of(const std::vector<Message>& messages);
std::vector<std::string> names_of(const std::vector<Message>& messages);  ///< the message ids

}  // namespace twinbox::test
