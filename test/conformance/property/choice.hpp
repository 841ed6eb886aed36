// What a step's small numbers choose among.
#pragma once

#include "conformance/property/store.hpp"

namespace twinbox::test {

template <class T, std::size_t n>
const T& pick(const std::array<T, n>& from, int choice) {
  return from[static_cast<std::size_t>(choice) % n];
}

inline const OwnerToken& owner_of(int choice) {
  static const std::array<OwnerToken, 3> owners{
      OwnerToken{Uuid::parse("00000000-0000-4000-8000-00000000000a")},
      OwnerToken{Uuid::parse("00000000-0000-4000-8000-00000000000b")},
      OwnerToken{Uuid::parse("00000000-0000-4000-8000-00000000000c")}};
  return pick(owners, choice);
}

inline MessageKey key_of(int choice) {
  static const std::array<MessageKey, 5> keys{
      MessageKey{Source{"-"}, MessageId{"a"}}, MessageKey{Source{"-"}, MessageId{"b"}},
      MessageKey{Source{"-"}, MessageId{"c"}}, MessageKey{Source{"-"}, MessageId{"d"}},
      MessageKey{Source{"shop"}, MessageId{"a"}}};
  return pick(keys, choice);
}

inline std::string handler_of(int choice) {
  static const std::array<std::string, 4> handlers{"", "h1", "h2", "h3"};
  return pick(handlers, choice);
}

inline HandlerKey handler_key(const std::string& name) { return HandlerKey{name, Unchecked{}}; }

inline model::Key name_of(const MessageKey& key) { return {key.source.str(), key.id.str()}; }

inline std::optional<model::Time> micros(const std::optional<Instant>& instant) {
  if (!instant) return std::nullopt;
  return instant->time_since_epoch().count();
}

inline Duration lease_of(int choice) { return choice % 2 == 0 ? 10s : 30s; }

inline std::string error_of(int choice) {
  return choice % 3 == 0 ? "" : "error " + std::to_string(choice);
}

}  // namespace twinbox::test
