#include "support/outbox_test.hpp"

#include <algorithm>
#include <charconv>

namespace twinbox::test {
namespace {

std::string of_message(const std::string& id) {
  return id.empty() ? " from {schema}outbox"
                    : " from {schema}outbox where MessageId = '" + id + "'";
}

std::int64_t to_number(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  EXPECT_TRUE(error == std::errc{} && end == text.data() + text.size()) << "no number: " << text;
  return number;
}

}  // namespace

Message OutboxTest::enqueue_and_claim(OwnerToken owner, Duration lease) {
  const MessageId id = outbox().enqueue(a_message()).id;
  for (Message& message : outbox().claim(owner, lease, 100)) {
    if (message.id == id) return std::move(message);
  }
  throw std::logic_error("the message was not claimed");
}

std::string OutboxTest::text_type() const {
  return on_sqlserver() ? " as nvarchar(4000))" : " as text)";
}

std::string OutboxTest::shown(const std::string& column, const std::string& id) {
  return read("select cast(" + column + text_type() + of_message(id));
}

std::optional<Instant> OutboxTest::shown_time(const std::string& column, const std::string& id) {
  const std::string seconds = on_postgres() ? "cast(extract(epoch from " + column + ") as bigint)"
                              : on_sqlserver() ? "datediff(second, '1970-01-01', " + column + ")"
                                               : "unixepoch(" + column + ")";
  const std::string text = read("select cast(" + seconds + text_type() + of_message(id));
  if (text == "null") return std::nullopt;
  return Instant{std::chrono::seconds{to_number(text)}};
}

std::optional<OwnerToken> OutboxTest::shown_owner(const std::string& column,
                                                  const std::string& id) {
  std::string text = shown(column, id);
  if (text == "null") return std::nullopt;
  std::erase(text, '-');
  EXPECT_EQ(text.size(), 32u) << column << ": " << text;
  for (const std::size_t at : {8u, 13u, 18u, 23u}) text.insert(std::min(at, text.size()), "-");
  return OwnerToken{Uuid::parse(text)};
}

std::int64_t OutboxTest::count(const std::string& sql) {
  return to_number(read("select cast((" + sql + ")" + text_type()));
}

std::int64_t OutboxTest::rows(const std::string& table) {
  return count("select count(*) from {schema}outbox_" + table);
}

void OutboxTest::refuse_topic(const std::string& topic) {
  outbox();
  if (!on_sqlite()) {
    write("alter table {schema}outbox_message add check (topic <> '" + topic + "')");
  } else {
    write("create trigger refuse before insert on outbox_message when new.topic = '" + topic +
          "' begin select raise(abort, 'refused'); end");
  }
}

std::vector<std::string> topics_of(const std::vector<Message>& messages) {
  std::vector<std::string> topics;
  for (const Message& message : messages) topics.push_back(message.topic.str());
  return topics;
}

std::vector<std::string> names_of(const std::vector<Message>& messages) {
  std::vector<std::string> names;
  for (const Message& message : messages) names.push_back(message.id.str());
  return names;
}

}  // namespace twinbox::test
