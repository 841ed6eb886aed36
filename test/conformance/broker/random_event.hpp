// Events of every shape that CloudEvents allows, for round trips over brokers.
#pragma once

#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <twinbox/event.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/outbox.hpp>
#include <twinbox/sink.hpp>

namespace twinbox::test {

/// The same seed gives the same events.
class RandomEvents {
 public:
  explicit RandomEvents(unsigned seed) : chance_(seed) {}

  std::vector<CloudEvent> make(int count) {
    std::vector<CloudEvent> events;
    for (int i = 0; i < count; ++i) events.push_back(event("e-" + std::to_string(i)));
    return events;
  }

 private:
  int below(int limit) { return static_cast<int>(chance_() % static_cast<unsigned>(limit)); }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<int>(list.size()))];
  }

  std::string text(int longest) {
    std::string out;
    for (int left = below(longest + 1); left > 0; --left) {
      out += one_of<const char*>({"a", "Z", "7",        " ", ":", "%", "%41", "\"", "\\", ",", ";",
                                  "=", "'", "ce-id: x", "ä", "€", "😀", "{",   "}",  "~",  "/"});
    }
    return out;
  }
  /// Many of them are the beginning of another, as far as the 20 characters of an attribute go.
  std::string name() {
    static constexpr std::string_view stem = "abcdefghijklmnopqrst";
    if (below(2) == 0) return std::string{stem.substr(0, static_cast<std::size_t>(1 + below(20)))};
    std::string out;
    for (int left = 1 + below(12); left > 0; --left) out += static_cast<char>('a' + below(26));
    return "x" + out;
  }
  Extension value() {
    switch (below(6)) {
      case 0: return std::string{};
      case 1: return below(2) == 0;
      case 2: return static_cast<std::int32_t>(chance_());
      default: return text(12);
    }
  }
  void set_data(CloudEvent& event) {
    switch (below(6)) {
      case 0: break;
      case 1: event.set_data(R"({"total":)" + std::to_string(below(1000)) + "}"); break;
      case 2: event.set_data(R"([ 1 , "ä" ,null ])", "application/json; charset=utf-8"); break;
      case 3: event.set_data("text " + text(40), "text/plain; charset=utf-8"); break;
      case 4: event.set_data("<order/>", "application/xml"); break;
      default: {
        std::string bytes(static_cast<std::size_t>(1 + below(200)), '\0');
        for (char& byte : bytes) byte = static_cast<char>(chance_());
        event.set_data(std::move(bytes), "application/octet-stream");
      }
    }
  }
  CloudEvent event(std::string id) {
    CloudEvent event{.id = std::move(id), .source = "/shop", .type = "order.placed"};
    event.id += text(10);
    if (below(2) == 0) event.subject = "s" + text(20);
    if (below(2) == 0) event.time = Timestamp::parse("2026-11-18T12:00:00.125+01:00");
    if (below(3) == 0) event.dataschema = "https://shop.example/schema?v=1%20x";
    for (int left = below(12); left > 0; --left) event.extensions.insert_or_assign(name(), value());
    set_data(event);
    event.check();
    return event;
  }

  std::mt19937 chance_;
};

/// The events as a dispatcher claims them.
inline std::vector<Message> claimed(Outbox& outbox, std::span<const CloudEvent> events) {
  for (const CloudEvent& event : events) outbox.enqueue(to_message(event));
  return outbox.claim(OwnerToken::make({}), std::chrono::seconds{60},
                      static_cast<int>(events.size()));
}

/// Binary mode carries every attribute as text, and the content type that JSON data has anyway.
inline CloudEvent as_binary_mode_brings(CloudEvent event) {
  for (auto& [name, value] : event.extensions) value = *event.extension(name);
  if (event.data_kind == DataKind::json && !event.datacontenttype) {
    event.datacontenttype = "application/json";
  }
  return event;
}

/// Every event is in the inbox, with every attribute and every byte of its data.
inline void expect_all(Admin admin, std::span<const CloudEvent> sent, BodyFormat form) {
  for (const CloudEvent& event : sent) {
    const auto found = admin.get(MessageKey{Source{event.source}, MessageId::event_id(event.id)});
    ASSERT_TRUE(found.has_value()) << to_json(event);
    const CloudEvent expected = form == BodyFormat::binary ? as_binary_mode_brings(event) : event;
    EXPECT_EQ(found->payload, to_json(expected));
  }
}

}  // namespace twinbox::test
