#include <type_traits>

#include "twinbox/testing.hpp"

namespace twinbox {
namespace {

std::string text_of(const LogField& field) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string_view>) {
          return std::string{value};
        } else if constexpr (std::is_same_v<T, bool>) {
          return value ? "true" : "false";
        } else {
          return std::to_string(value);
        }
      },
      field.value);
}

}  // namespace

// SplitMix64: good numbers from any seed, and a state that advances in one atomic step.
std::uint64_t SeededRandom::bits() {
  constexpr std::uint64_t step = 0x9e3779b97f4a7c15u;
  std::uint64_t z = state_.fetch_add(step) + step;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::string RecordedEvent::field(std::string_view field_name) const {
  for (const auto& [known, value] : fields) {
    if (known == field_name) return value;
  }
  return {};
}

void RecordingLog::write(const LogEvent& event) {
  RecordedEvent copy{event.level, std::string{event.name}, {}};
  for (const LogField& field : event.fields) {
    copy.fields.emplace_back(std::string{field.name}, text_of(field));
  }
  const std::scoped_lock lock{mutex_};
  events_.push_back(std::move(copy));
}

std::vector<RecordedEvent> RecordingLog::events(std::string_view name) const {
  const std::scoped_lock lock{mutex_};
  std::vector<RecordedEvent> found;
  for (const RecordedEvent& event : events_) {
    if (name.empty() || event.name == name) found.push_back(event);
  }
  return found;
}

void RecordingLog::clear() {
  const std::scoped_lock lock{mutex_};
  events_.clear();
}

Environment TestEnvironment::environment() {
  return {.clock = [this] { return clock.now(); },
          .random = [this] { return random.bits(); },
          .log = [this](const LogEvent& event) { log.write(event); },
          .log_level = LogLevel::debug};
}

}  // namespace twinbox
