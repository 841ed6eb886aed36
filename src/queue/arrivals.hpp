// Writes messages: columns for the database, the direct insert for new ones, and accept for the
// rest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "queue/box.hpp"
#include "twinbox/message.hpp"

namespace twinbox {

/// A message on its way in, borrowed from the caller.
struct Incoming {
  std::string_view source;
  std::string_view id;
  std::string_view topic;
  std::string_view payload;
  const MessageExtras* extras;
  bool own_id = false;    ///< made for this very call: no other caller knows it
  bool replaces = false;  ///< replaces an unfinished message of the same key
};

/// New messages that one statement writes, or refuses: it needs no transaction around it.
[[nodiscard]] bool written_at_once(std::span<const Incoming> messages);

/// The handlers that get a delivery, checked and in the form of accept.
class TargetHandlers {
 public:
  /// No handlers: one delivery, by topic. Throws std::invalid_argument for a key that is named
  /// twice.
  explicit TargetHandlers(std::span<const HandlerName> handlers);

  [[nodiscard]] bool single() const noexcept { return single_; }
  [[nodiscard]] std::string_view only() const noexcept { return only_; }
  [[nodiscard]] std::string_view json() const noexcept { return json_; }

 private:
  bool single_;
  std::string only_;
  std::string json_;
};

/// Throws std::invalid_argument when the extras cannot be stored.
void check_extras(const MessageExtras& extras);
void check_hash(const std::optional<ContentHash>& hash);

/// A call of our own that stores messages, from its beginning: once one is stored, the database is
/// known to take writes.
class WriteRefusalReset {
 public:
  explicit WriteRefusalReset(const Box& box)
      : pool_(pool_of(box.database())), refusals_(pool_.refusals()) {}

  /// `answers` are Accepted, or optional. A duplicate is not stored.
  template <class Answers>
  void committed(const Answers& answers) const {
    const auto is_new = [](const std::optional<Accepted>& answer) {
      return answer && answer->state == Acceptance::accepted;
    };
    if (std::ranges::any_of(answers, is_new)) pool_.stored_messages(refusals_);
  }

 private:
  Pool& pool_;
  std::uint64_t refusals_;
};

/// Runs a piece of work in some transaction; may run it again, from the start.
using Transaction = std::function<void(const std::function<void(Session&)>&)>;

/// Writes the messages and answers for each, in order. Each statement runs in `transaction`: the
/// caller decides whether they share one.
std::vector<Accepted> write_messages(Box& box, const Transaction& transaction,
                                     std::span<const Incoming> messages,
                                     const TargetHandlers& targets);

/// Writes the messages of callers who share a commit. A message is durable once its answer is set;
/// one without an answer after an exception is not.
void write_shared(Box& box, std::span<const Incoming> messages, const TargetHandlers& targets,
                  std::span<std::optional<Accepted>> answers);

}  // namespace twinbox
