#include "cli/filter.hpp"

#include <array>
#include <cstdio>

#include "cli/text.hpp"

namespace twinbox::cli {

std::vector<Option> FilterOptions::options(std::vector<std::string> known_states) {
  std::vector<Option> result;
  if (!known_states.empty()) {
    std::string text = "one of ";
    for (const std::string& one : known_states) text += (text == "one of " ? "" : ", ") + one;
    result.push_back({"--state", "STATE", text, &state, known_states, false, "Which messages"});
  }
  const auto add = [&](const char* name, const char* value, const char* text,
                       std::optional<std::string>& target) {
    result.push_back({name, value, text, &target, {}, false, "Which messages"});
  };
  add("--topic", "TOPIC", "Only this topic", topic);
  add("--handler", "KEY", "Only this handler; - stands for deliveries by topic", handler);
  add("--source", "SOURCE", "Only messages from this source", source);
  add("--correlation", "ID", "Only messages with this correlation id", correlation);
  add("--error", "TEXT", "Only deliveries whose last error contains this text", error);
  add("--since", "TIME",
      "Created at or after this time: 2026-11-15T20:00:00Z, or 2h for two hours ago", since);
  add("--before", "TIME", "Created before this time", before);
  return result;
}

bool FilterOptions::empty() const {
  return !topic && !handler && !source && !id && !correlation && !error && !since && !before;
}

Filter FilterOptions::filter(Instant now) const {
  Filter filter;
  if (state) filter.state = parse_state(*state);
  if (topic) filter.topic = Topic::event_name(*topic);
  if (handler) filter.handler = parse_handler(*handler);
  if (source) filter.source = Source{*source};
  if (id) filter.id = MessageId::event_id(*id);
  if (correlation) filter.correlation_id = CorrelationId{*correlation};
  if (error) filter.error_contains = *error;
  if (since) filter.created_since = parse_instant("--since", *since, now);
  if (before) filter.created_before = parse_instant("--before", *before, now);
  return filter;
}

StateFilter parse_state(const std::string& state) {
  if (const auto known = parse_state_filter(state)) return *known;
  throw CliError(exit_usage, "--state: unknown state '" + printable(state) + "'");
}

HandlerKey parse_handler(const std::string& key) {
  return key.empty() || key == "-" ? HandlerKey::by_topic() : HandlerKey{key};
}

std::string group_name(const DeadGroup& group) {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  const std::string text = group.topic + '\0' + group.handler.str() + '\0' + group.error;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  std::array<char, 9> name{};
  std::snprintf(name.data(), name.size(), "%08x", hash);
  return name.data();
}

}  // namespace twinbox::cli
