// An act of a person as a row of the audit: begun once, moved by each batch, finished. Asked for
// again under its id it goes on where it stopped.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "queue/box.hpp"
#include "twinbox/admin.hpp"

namespace twinbox {

/// What was asked for, as text in which no two things look alike.
class Content {
 public:
  Content& add(std::string_view text);
  Content& add(std::int64_t number) { return add(std::string_view{std::to_string(number)}); }
  Content& add_maybe(const std::optional<Instant>& instant);
  Content& add_maybe(const std::optional<std::string>& text);
  Content& add(const Filter& filter);
  Content& add(std::span<const DutyKey> duties);

  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

class Operation {
 public:
  /// How far it has come.
  struct State {
    std::int64_t id = 0;
    Instant started_at = {};
    std::size_t changed = 0;
    std::size_t added = 0;  ///< by the last batch of this call
    bool finished = false;
    std::optional<DutyKey> position = {};  ///< empty: nothing has been looked at
  };
  struct Batch {
    std::size_t changed = 0;
    std::optional<DutyKey> position = {};  ///< the last that was looked at; empty: there is no more
  };
  using Step = std::function<Batch(Session&, const State&)>;

  /// `act` must outlive it.
  Operation(Box& box, std::string_view name, const Act& act, const Content& content);

  /// Batch after batch, each a transaction. Returns how many were changed under this id, also by
  /// those that were cut off. Throws UsageError when the id is another act's.
  std::size_t run(const Step& step);
  /// All of it in the caller's transaction.
  std::size_t run(Session& session, const Step& step);

 private:
  State advance(Session& session, std::optional<std::int64_t> row, const Step& step);
  [[nodiscard]] State enter(Session& session, std::optional<std::int64_t> row);
  void log(std::size_t count) const;

  Box& box_;
  const std::string_view name_;
  const Act& act_;
  const std::string hash_;
};

}  // namespace twinbox
