#include "queue/arrivals.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/json.hpp"
#include "core/text.hpp"
#include "queue/delay.hpp"

namespace twinbox {
namespace {

using Positions = std::vector<std::size_t>;

/// The columns of @source … @position, filled for some of the messages.
class Columns {
 public:
  Columns(std::span<const Incoming> messages, const Positions& chosen)
      : rows_(chosen.size()), values_(names.size() * chosen.size()) {
    for (std::size_t row = 0; row < rows_; ++row) set(row, messages[chosen[row]], chosen[row]);
  }

  /// The arguments of accept; those for known messages come last.
  [[nodiscard]] std::vector<Arg> args() const {
    std::vector<Arg> result;
    result.reserve(names.size() + 2);
    for (std::size_t i = 0; i < names.size(); ++i)
      result.emplace_back(names[i], types[i], std::span{values_}.subspan(i * rows_, rows_));
    return result;
  }

 private:
  static constexpr std::array<std::string_view, 14> names{
      "source",         "id",      "topic",          "payload", "content_type", "headers",
      "correlation_id", "hash",    "hash_algorithm", "due_at",  "expires_at",   "partition_key",
      "position",       "replaces"};
  static constexpr std::array<ValueType, 14> types{
      ValueType::text,    ValueType::text,    ValueType::text,    ValueType::bytes,
      ValueType::text,    ValueType::text,    ValueType::text,    ValueType::bytes,
      ValueType::text,    ValueType::instant, ValueType::instant, ValueType::text,
      ValueType::integer, ValueType::boolean};

  void set(std::size_t row, const Incoming& message, std::size_t position) {
    const MessageExtras& extras = *message.extras;
    std::size_t at = row;
    const auto put = [&](Value value) {
      values_[at] = value;
      at += rows_;
    };
    const auto put_text = [&](const auto& maybe) {
      if (!maybe) {
        put({});
      } else if constexpr (requires { maybe->view(); }) {
        put(maybe->view());
      } else {
        put(std::string_view{*maybe});
      }
    };
    put(message.source);
    put(message.id);
    put(message.topic);
    put(Bytes{message.payload});
    put_text(extras.content_type);
    put_text(extras.headers);
    put_text(extras.correlation_id);
    put(extras.hash ? Value{Bytes{extras.hash->bytes}} : Value{});
    put(extras.hash ? Value{std::string_view{extras.hash->algorithm}} : Value{});
    put(extras.due_at ? Value{*extras.due_at} : Value{});
    put(extras.expires_at ? Value{*extras.expires_at} : Value{});
    put_text(extras.partition_key);
    put(static_cast<std::int64_t>(position));
    put(message.replaces);
  }

  std::size_t rows_;
  std::vector<Value> values_;  ///< column after column
};

using Key = std::pair<std::string_view, std::string_view>;

Key key_of(const Incoming& message) { return {message.id, message.source}; }

[[noreturn]] void refuse_repeated(const Incoming& message) {
  throw UsageError("enqueue: the id " + std::string{message.id} +
                   " was made for this message and is known already: Environment::random repeats "
                   "itself; give it a source of randomness, or give messages ids of your own");
}

/// Rounds in which no key occurs twice, each in the order of its keys: two batches that lock the
/// same keys in different orders would wait for each other. A repeated key is written after its
/// first one, as if by a later call.
std::vector<Positions> rounds_of(std::span<const Incoming> messages) {
  std::vector<Positions> rounds(1);
  Positions order(messages.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto in_order = [&](std::size_t a, std::size_t b) {
    const Key first = key_of(messages[a]);
    const Key second = key_of(messages[b]);
    return first < second || (first == second && a < b);
  };
  if (!std::is_sorted(order.begin(), order.end(), in_order)) {
    std::sort(order.begin(), order.end(), in_order);
  }
  rounds[0].reserve(order.size());
  std::size_t round = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool repeated = i > 0 && key_of(messages[order[i]]) == key_of(messages[order[i - 1]]);
    if (repeated && messages[order[i]].own_id) refuse_repeated(messages[order[i]]);
    round = repeated ? round + 1 : 0;
    if (round == rounds.size()) rounds.emplace_back();
    rounds[round].push_back(order[i]);
  }
  return rounds;
}

bool can_insert_directly(const Incoming& message) { return !message.extras->partition_key; }

bool have_own_ids(std::span<const Incoming> messages, const Positions& chosen) {
  return std::ranges::all_of(chosen, [&](std::size_t at) { return messages[at].own_id; });
}

/// The direct insert for messages that are most likely new, sorted by key. Returns the positions of
/// the others, in the same order.
Positions add_new(Box& box, const Transaction& transaction, std::span<const Incoming> messages,
                  const Positions& chosen, const TargetHandlers& targets) {
  const Columns columns(messages, chosen);
  std::vector<Arg> args = columns.args();
  // The direct insert takes neither a partition key nor fields for known messages only.
  args.resize(args.size() - 3, args.front());
  args.emplace_back("handler", targets.only());
  args.push_back(box.now());
  const bool own = have_own_ids(messages, chosen);
  std::vector<bool> named;
  transaction([&](Session& session) {
    named.assign(chosen.size(), false);
    box.run(session, own ? box.sql().insert_generated : box.sql().insert_new, args,
            [&](const Row& row) {
              const auto found =
                  std::lower_bound(chosen.begin(), chosen.end(), Key{row.text(0), row.text(1)},
                                   [&](std::size_t position, const Key& key) {
                                     return key_of(messages[position]) < key;
                                   });
              named[static_cast<std::size_t>(found - chosen.begin())] = true;
            });
  });
  // On PostgreSQL the statement returns the new ones, which costs it less; the other dialects
  // return the others.
  const bool names_new = !own && box.database().dialect() == Dialect::postgres;
  Positions known;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (named[i] == names_new) continue;
    if (own) refuse_repeated(messages[chosen[i]]);
    known.push_back(chosen[i]);
  }
  return known;
}

/// `way` is accept, or the one for known messages, sorted by key; that one may leave some
/// unanswered.
void accept_some(Box& box, const Transaction& transaction, std::span<const Incoming> messages,
                 const Positions& chosen, const TargetHandlers& targets, const Statement& way,
                 std::span<std::optional<Accepted>> answers) {
  const Columns columns(messages, chosen);
  std::vector<Arg> args = columns.args();
  args.emplace_back("handlers", targets.json());
  args.push_back(box.now());
  std::vector<std::pair<std::size_t, Accepted>> found;
  transaction([&](Session& session) {
    found.clear();
    box.run(session, way, args, [&](const Row& row) {
      found.emplace_back(static_cast<std::size_t>(row.integer(0)),
                         Accepted{static_cast<Acceptance>(row.integer(1)), row.boolean(2)});
    });
  });
  for (const auto& [position, accepted] : found) answers[position] = accepted;
}

/// Sets each answer once its statement has run in `transaction`.
void write_rounds(Box& box, const Transaction& transaction, std::span<const Incoming> messages,
                  const TargetHandlers& targets, std::span<std::optional<Accepted>> answers) {
  for (const Positions& round : rounds_of(messages)) {
    Positions plain;
    Positions rest;
    plain.reserve(round.size());
    for (const std::size_t position : round) {
      const bool fast = targets.single() && can_insert_directly(messages[position]);
      (fast ? plain : rest).push_back(position);
    }
    if (!plain.empty()) {
      const Positions known = add_new(box, transaction, messages, plain, targets);
      for (const std::size_t position : plain) answers[position] = Accepted{Acceptance::accepted};
      for (const std::size_t position : known) answers[position].reset();
      // In a batch with partition keys all use the same statement: a message that came with a key
      // the last time keeps its order.
      if (!known.empty() && rest.empty())
        accept_some(box, transaction, messages, known, targets, box.sql().accept_known, answers);
      for (const std::size_t position : known) {
        if (!answers[position]) rest.push_back(position);
      }
    }
    std::sort(rest.begin(), rest.end());  // within a partition key, the caller's order counts
    if (!rest.empty())
      accept_some(box, transaction, messages, rest, targets, box.sql().accept, answers);
  }
}

}  // namespace

bool written_at_once(std::span<const Incoming> messages) {
  return std::ranges::all_of(messages, [](const Incoming& message) {
    return message.own_id && can_insert_directly(message);
  });
}

TargetHandlers::TargetHandlers(std::span<const HandlerName> handlers)
    : single_(handlers.empty() || (handlers.size() == 1 && handlers.front().legacy_keys.empty())),
      only_(handlers.empty() ? "" : handlers.front().key.str()) {
  std::set<std::string_view> keys;
  const auto take = [&](const HandlerKey& key) {
    if (!keys.insert(key.view()).second) {
      throw std::invalid_argument("handler key '" + key.str() + "': named twice in one accept");
    }
  };
  static const HandlerName by_topic{HandlerKey::by_topic()};
  const std::span<const HandlerName> named = handlers.empty() ? std::span{&by_topic, 1} : handlers;
  char separator = '[';
  for (const HandlerName& handler : named) {
    take(handler.key);
    json_ += std::exchange(separator, ',');
    json_.append("{\"key\":");
    append_json_string(json_, handler.key.view());
    json_.append(",\"legacy\":[");
    for (std::size_t i = 0; i < handler.legacy_keys.size(); ++i) {
      take(handler.legacy_keys[i]);
      if (i > 0) json_ += ',';
      append_json_string(json_, handler.legacy_keys[i].view());
    }
    json_.append("]}");
  }
  json_ += ']';
}

void check_extras(const MessageExtras& extras) {
  check_times(extras);
  if (extras.headers && !is_json_object(*extras.headers)) {
    throw std::invalid_argument("headers: not a JSON object");
  }
  if (extras.content_type && !extras.content_type->empty()) {
    check_text("content type", *extras.content_type, 1000);
  }
  check_hash(extras.hash);
}

void check_hash(const std::optional<ContentHash>& hash) {
  if (!hash) return;
  if (hash->bytes.empty()) {
    throw std::invalid_argument("hash: empty (leave it out instead)");
  }
  check_text("hash algorithm", hash->algorithm, 255);
}

std::vector<Accepted> write_messages(Box& box, const Transaction& transaction,
                                     std::span<const Incoming> messages,
                                     const TargetHandlers& targets) {
  std::vector<std::optional<Accepted>> answers(messages.size());
  write_rounds(box, transaction, messages, targets, answers);
  std::vector<Accepted> result;
  result.reserve(answers.size());
  for (const auto& answer : answers) result.push_back(answer.value());
  return result;
}

void write_shared(Box& box, std::span<const Incoming> messages, const TargetHandlers& targets,
                  std::span<std::optional<Accepted>> answers) {
  const WriteRefusalReset storing{box};
  if (box.database().dialect() == Dialect::sqlite) {
    // A second commit would cost as much again as the first.
    const auto written =
        box.in_own_transaction(Access::write, Scope::transaction, [&](Session& session) {
          return write_messages(
              box, [&](const auto& work) { work(session); }, messages, targets);
        });
    std::copy(written.begin(), written.end(), answers.begin());
    storing.committed(answers);
    return;
  }
  // Most batches need one statement: alone it is a transaction, and one round trip.
  const Transaction each = [&](const std::function<void(Session&)>& work) {
    box.write([&](Session& session) { return work(session), true; });
  };
  write_rounds(box, each, messages, targets, answers);
  storing.committed(answers);
}

}  // namespace twinbox
