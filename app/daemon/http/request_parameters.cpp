#include "daemon/http/request_parameters.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <charconv>

#include "daemon/http/json.hpp"

namespace twinbox::app {
namespace {

namespace json = boost::json;

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

template <class Text>
std::optional<Text> bounded_member(const json::object& object, std::string_view name) {
  std::string text = text_member(object, name);
  if (text.empty()) return {};
  return Text{std::move(text)};
}

/// Some of the names: a daemon may have a thousand stores.
std::string names_of(const Stores& stores) {
  constexpr std::size_t most = 20;
  std::string names;
  for (std::size_t i = 0; i < std::min(most, stores.all().size()); ++i) {
    names += (names.empty() ? "" : ", ") + stores.all()[i].store->name();
  }
  return names + (stores.all().size() > most ? ", …; GET /v1/stores lists them all" : "");
}

}  // namespace

void refuse_unknown(const RequestTarget& target, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : target.query) {
    if (std::ranges::find(known, std::string_view{name}) == known.end()) {
      throw HttpProblem(400, "unknown parameter '" + name + "'; see /openapi.json");
    }
  }
}

void refuse_unknown(const json::object& object, std::initializer_list<std::string_view> known) {
  for (const auto& member : object) {
    const std::string_view name{member.key().data(), member.key().size()};
    if (std::ranges::find(known, name) == known.end()) {
      throw HttpProblem(400, std::string{name} + ": unknown member; see /openapi.json");
    }
  }
}

std::int64_t parse_number(std::string_view name, std::string_view text, std::int64_t low,
                          std::int64_t high) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < low || number > high) {
    throw HttpProblem(400, std::string{name} + ": expected a whole number from " +
                               std::to_string(low) + " to " + std::to_string(high));
  }
  return number;
}

std::int64_t number_of(const RequestTarget& target, std::string_view name, std::int64_t low,
                       std::int64_t high, std::int64_t otherwise) {
  const auto text = target.find(name);
  return text ? parse_number(name, *text, low, high) : otherwise;
}

BoxKind parse_box(std::string_view text) {
  if (text.empty() || text == "outbox") return BoxKind::outbox;
  if (text == "inbox") return BoxKind::inbox;
  throw HttpProblem(400, "box: expected outbox or inbox");
}

Store& find_store(const Stores& stores, std::string_view name, std::optional<BoxKind> kind) {
  Store* found = stores.find(name, kind.value_or(BoxKind::outbox));
  if (found == nullptr && !kind) found = stores.find(name, BoxKind::inbox);
  if (found == nullptr && name.empty() && stores.all().size() > 1) {
    throw HttpProblem(
        400, "store: is missing, and there are several stores; choose one of " + names_of(stores));
  }
  if (found == nullptr) {
    throw HttpProblem(404, "unknown store '" + std::string{name} + "'" +
                               (kind ? " with an " + std::string{to_string(*kind)} : "") +
                               "; GET /v1/stores lists the stores");
  }
  return *found;
}

WorkQueue& find_box(const Stores& stores, const RequestTarget& target) {
  const BoxKind kind = parse_box(target.find("box").value_or(""));
  return box_of(find_store(stores, target.find("store").value_or(""), kind), kind);
}

json::object parse_body(const HttpRequest& request,
                        std::initializer_list<std::string_view> members) {
  boost::system::error_code error;
  json::value value =
      request.body.empty() ? json::value(json::object{}) : json::parse(view(request.body), error);
  if (error || !value.is_object())
    throw HttpProblem(400, "the body is not a JSON object; send one");
  refuse_unknown(value.as_object(), members);
  return std::move(value.as_object());
}

std::string text_member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(view(name));
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_string()) throw HttpProblem(400, std::string{name} + ": expected a string");
  return std::string{value->as_string().data(), value->as_string().size()};
}

bool bool_member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(view(name));
  if (value == nullptr || value->is_null()) return false;
  if (!value->is_bool()) throw HttpProblem(400, std::string{name} + ": expected true or false");
  return value->as_bool();
}

std::optional<Instant> instant_member(const json::object& object, std::string_view name) {
  const std::string text = text_member(object, name);
  if (text.empty()) return {};
  const auto instant = parse_instant(text);
  if (!instant) {
    throw HttpProblem(400, std::string{name} + ": expected a time like 2026-01-31T12:00:00Z");
  }
  return instant;
}

Filter parse_filter(const json::object& fields) {
  refuse_unknown(fields, {"state", "topic", "handler", "source", "id", "correlation_id",
                          "error_contains", "created_since", "created_before"});
  Filter filter;
  if (const std::string text = text_member(fields, "state"); !text.empty()) {
    const auto state = parse_state_filter(text);
    if (!state) {
      throw HttpProblem(400,
                        "state: expected one of ready, scheduled, leased, waiting, open, done, "
                        "dead, discarded, marked, seen, any");
    }
    filter.state = *state;
  }
  filter.topic = bounded_member<Topic>(fields, "topic");
  filter.handler = bounded_member<HandlerKey>(fields, "handler");
  filter.source = bounded_member<Source>(fields, "source");
  filter.id = bounded_member<MessageId>(fields, "id");
  filter.correlation_id = bounded_member<CorrelationId>(fields, "correlation_id");
  if (std::string text = text_member(fields, "error_contains"); !text.empty()) {
    if (!is_utf8(text)) throw HttpProblem(400, "error_contains: expected UTF-8");
    filter.error_contains = std::move(text);
  }
  filter.created_since = instant_member(fields, "created_since");
  filter.created_before = instant_member(fields, "created_before");
  return filter;
}

}  // namespace twinbox::app
