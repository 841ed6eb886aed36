// An operation as a row of the audit: begun once, advanced by each batch, finished. Repeated under
// its id it continues where it stopped.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "queue/box.hpp"
#include "twinbox/operations.hpp"

namespace twinbox {

/// The request as unambiguous text.
class OperationFingerprint {
 public:
  OperationFingerprint& add(std::string_view text);
  OperationFingerprint& add(std::int64_t number) {
    return add(std::string_view{std::to_string(number)});
  }
  OperationFingerprint& add_maybe(const std::optional<Instant>& instant);
  OperationFingerprint& add_maybe(const std::optional<std::string>& text);
  OperationFingerprint& add(const Filter& filter);
  OperationFingerprint& add(std::span<const DeliveryKey> deliveries);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

class OperationRecord {
 public:
  /// Its progress.
  struct State {
    std::int64_t id = 0;
    Instant started_at = {};
    std::size_t changed = 0;
    std::size_t added = 0;  ///< by the last batch of this call
    bool finished = false;
    std::optional<DeliveryKey> position = {};  ///< empty: nothing has been processed
  };
  struct Batch {
    std::size_t changed = 0;
    std::optional<DeliveryKey> position =
        {};  ///< the last processed delivery; empty: there is no more
  };
  using Step = std::function<Batch(Session&, const State&)>;

  /// `operation` must outlive it.
  OperationRecord(Box& box, std::string_view name, const Operation& operation,
                  const OperationFingerprint& content);

  /// Batch after batch, each a transaction. Returns how many deliveries were changed under this id,
  /// interrupted runs included. Throws UsageError when the id is another operation's.
  std::size_t run(const Step& step);
  /// All of it in the caller's transaction.
  std::size_t run(Session& session, const Step& step);

 private:
  State advance(Session& session, std::optional<std::int64_t> row, const Step& step);
  [[nodiscard]] State enter(Session& session, std::optional<std::int64_t> row);
  void log(std::size_t count) const;

  Box& box_;
  const std::string_view name_;
  const Operation& operation_;
  const std::string hash_;
};

}  // namespace twinbox
