#include "intake/request.hpp"

#include <algorithm>
#include <utility>

#include "core/json.hpp"
#include "twinbox/event.hpp"

namespace twinbox {
namespace {

std::string decode_segment(std::string_view text, const char* where = "path") {
  std::optional<std::string> decoded = percent_decode(text);
  if (decoded) return *std::move(decoded);
  throw RequestError(
      400, "the " + std::string{where} + " has a % without two hexadecimal digits behind it");
}

std::optional<Instant> instant_in(const HttpRequest& request, std::string_view name) {
  const auto text = request.headers.find(name);
  if (!text) return {};
  const auto time = Timestamp::parse(*text);
  if (!time) {
    throw RequestError(400, "header " + std::string{name} +
                                ": expected an RFC 3339 time such as 2030-01-31T17:00:00Z");
  }
  return time->instant();
}

void add_member(std::string& json, std::string_view name, std::string_view value) {
  if (json.size() > 1) json += ',';
  append_json_string(json, name);
  json += ':';
  append_json_string(json, value);
}

/// The trace context of this thread, or else the sender's.
std::optional<TraceContext> trace_of(const HttpRequest& request) {
  if (auto trace = current_trace()) return trace;
  const auto parent = request.headers.find("traceparent");
  if (!parent) return {};
  return TraceContext::parse(*parent, request.headers.find("tracestate").value_or(""));
}

}  // namespace

std::vector<std::string> path_segments(const HttpRequest& request, std::string_view prefix,
                                       std::size_t count) {
  std::string_view path = request.target;
  path = path.substr(0, path.find('?'));
  const auto not_found = [&]() -> RequestError { return {404, "there is nothing at this path"}; };
  if (!path.starts_with(prefix)) throw not_found();
  path.remove_prefix(prefix.size());
  if (count == 0 && path.empty()) return {};
  if (!path.starts_with('/')) throw not_found();
  path.remove_prefix(1);
  std::vector<std::string> segments;
  while (true) {
    const std::size_t end = path.find('/');
    segments.push_back(decode_segment(path.substr(0, end)));
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
    if (segments.size() == count) throw not_found();
  }
  if (segments.size() != count) throw not_found();
  return segments;
}

std::optional<std::string> query_value(const HttpRequest& request, std::string_view name) {
  std::string query =
      request.target.substr(std::min(request.target.find('?'), request.target.size()));
  std::ranges::replace(query, '+', ' ');
  std::string_view rest = query;
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the ? or & before it
    const std::string_view part = rest.substr(0, rest.find('&'));
    rest.remove_prefix(part.size());
    const std::size_t equals = std::min(part.find('='), part.size());
    if (decode_segment(part.substr(0, equals), "query") != name) continue;
    return decode_segment(part.substr(std::min(equals + 1, part.size())), "query");
  }
  return {};
}

std::string properties_of(const HttpRequest& request, const IntakeOptions& options,
                          const Properties& properties) {
  std::string json = "{";
  add_member(json, "transport", "http");
  for (const auto& [name, value] : properties.own) add_member(json, name, value);
  if (properties.with_trace) {
    if (const auto trace = trace_of(request)) {
      add_member(json, "traceparent", trace->traceparent());
      if (!trace->state.empty()) add_member(json, "tracestate", trace->state);
    }
  }
  std::string kept = "{";
  for (const std::string& name : options.keep_headers) {
    if (const auto value = request.headers.find(name)) add_member(kept, to_lower(name), *value);
  }
  if (kept.size() > 1) json += R"(,"http":)" + kept + "}";
  return json + "}";
}

MessageExtras extras_of(const HttpRequest& request, const IntakeOptions& options,
                        const Properties& properties) {
  MessageExtras extras;
  if (const auto id = request.headers.find("Twinbox-Correlation-Id")) {
    extras.correlation_id = CorrelationId::or_none(std::string{*id});
  }
  if (const auto key = request.headers.find("Twinbox-Partition-Key")) {
    extras.partition_key = PartitionKey{std::string{*key}};
  }
  extras.due_at = instant_in(request, "Twinbox-Due");
  extras.expires_at = instant_in(request, "Twinbox-Expires");
  if (const auto type = request.headers.find("Content-Type")) {
    extras.content_type = std::string{*type};
  }
  extras.headers = properties_of(request, options, properties);
  check_times(extras, options);
  return extras;
}

MessageExtras extras_of(const HttpRequest& request, const IntakeOptions& options) {
  return extras_of(request, options, Properties{});
}

std::optional<std::string> id_of(const HttpRequest& request) {
  if (const auto key = request.headers.find("Idempotency-Key")) return idempotency_key(*key);
  if (const auto id = request.headers.find("ce-id")) return std::string{*id};
  return {};
}

std::string idempotency_key(std::string_view text) {
  if (!text.starts_with('"')) return std::string{text};
  const auto refuse = [] {
    throw RequestError(400,
                       "header Idempotency-Key: a key in quotation marks must end with one, and "
                       "may have a backslash only before \" and \\ (RFC 8941)");
  };
  std::string key;
  std::size_t at = 1;
  for (; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') {
      ++at;
      if (at == text.size() || (text[at] != '"' && text[at] != '\\')) refuse();
    }
    key += text[at];
  }
  if (at + 1 != text.size()) refuse();
  return key;
}

void check_times(const MessageExtras& extras, const IntakeOptions& options) {
  const Instant now = now_of(options);
  if (extras.expires_at && *extras.expires_at <= now) {
    throw RequestError(400,
                       "the message's expiry has passed, so it would never be handled; send a "
                       "later Twinbox-Expires or expirytime, or leave it out");
  }
  if (extras.partition_key && extras.due_at && *extras.due_at > now + options.max_keyed_delay) {
    throw RequestError(
        400, "header Twinbox-Due: more than " + std::to_string(options.max_keyed_delay.count()) +
                 " s ahead, and every later message of this partition key would wait for it; send "
                 "an earlier time, or no Twinbox-Partition-Key");
  }
}

void check_source(const Source& source, const HttpRequest& request, const IntakeOptions& options) {
  if (options.reserved_sources.contains(source.view())) {
    throw RequestError(403,
                       "the source '" + source.str() +
                           "' belongs to a webhook endpoint, a broker or a relay; send it there, "
                           "or under another source");
  }
  if (options.sender_sources.contains(source.view()) && request.sender != source.view()) {
    throw RequestError(403, "the source '" + source.str() +
                                "' belongs to the sender of that name; send it with its token, or "
                                "under another source");
  }
}

Instant now_of(const IntakeOptions& options) {
  if (const auto now = options.environment.now()) return *now;
  return std::chrono::time_point_cast<Instant::duration>(std::chrono::system_clock::now());
}

}  // namespace twinbox
