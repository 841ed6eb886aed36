#include "dispatch/announcement.hpp"

#include <algorithm>
#include <stdexcept>

#include "core/json.hpp"
#include "queue/box.hpp"

namespace twinbox {
namespace {

constexpr std::string_view keys_member = "keys";
constexpr std::string_view patterns_member = "patterns";
constexpr std::string_view topics_member = "topics";

/// Appends a member with as many of the names as fit.
void append_names(Announcement& out, std::string_view member,
                  const std::vector<std::string>& names) {
  constexpr std::size_t brackets = 64;  // of all members
  if (out.text.size() > 1) out.text += ",";
  append_json_string(out.text, member);
  out.text += ":[";
  bool first = true;
  for (const std::string& name : names) {
    std::string one = first ? "" : ",";
    append_json_string(one, name);
    if (out.text.size() + one.size() + brackets > max_announcement_size) {
      ++out.left_out;
      continue;
    }
    out.text += one;
    first = false;
  }
  out.text += "]";
}

}  // namespace

Announcement announcement_of(const Handlers& handlers) {
  std::vector<std::string> keys;
  for (const HandlerKey& key : handlers.keys()) keys.push_back(key.str());
  Announcement out{.text = "{"};
  append_names(out, keys_member, keys);
  append_names(out, patterns_member, handlers.patterns());
  append_names(out, topics_member, handlers.topics());
  out.text += "}";
  return out;
}

bool OtherWorkers::handle(const Message& message, std::chrono::steady_clock::time_point since) {
  const std::scoped_lock lock{mutex_};
  if (read_at_ <= since) {
    try {
      read();
    } catch (const DatabaseError& error) {
      box_of(queue_).log(LogLevel::warning, "announcement_error",
                         {{"error", std::string_view{error.what()}}});
      return error.retryable() || error.kind() == DatabaseError::Kind::cancelled;
    }
  }
  if (!message.handler.view().empty()) return keys_.contains(message.handler.view());
  return topics_.contains(message.topic.view()) ||
         std::ranges::any_of(patterns_, [&](const TopicPattern& pattern) {
           return pattern.matches(message.topic.view());
         });
}

void OtherWorkers::read() {
  Box& box = box_of(queue_);
  const auto now = std::chrono::steady_clock::now();
  const auto told = box.in_own_transaction(Access::read, Scope::statement, [&](Session& session) {
    std::vector<std::string> all;
    box.run(session, box.sql().worker_handles, {{"owner", Value{owner_.uuid()}}, box.now()},
            [&](const Row& row) { all.emplace_back(row.text(0)); });
    return all;
  });
  keys_.clear();
  topics_.clear();
  patterns_.clear();
  for (const std::string& one : told) add(one);
  read_at_ = now;
}

/// Skips entries in a format of another version.
void OtherWorkers::add(std::string_view announcement) {
  for (const JsonPart& member : split_json_object(announcement).value_or(std::vector<JsonPart>{})) {
    for (const JsonPart& part : split_json_array(member.value).value_or(std::vector<JsonPart>{})) {
      std::optional<std::string> name = json_string(part.value);
      if (!name) continue;
      if (member.name == keys_member) keys_.insert(*name);
      if (member.name == topics_member) topics_.insert(*name);
      if (member.name != patterns_member) continue;
      try {
        patterns_.emplace_back(*name);
      } catch (const std::invalid_argument&) {
        // No pattern that this version knows.
      }
    }
  }
}

}  // namespace twinbox
