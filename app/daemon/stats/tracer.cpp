#include "daemon/stats/tracer.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>

namespace twinbox::app {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

constexpr std::size_t batch_size = 512;

std::string nanoseconds(std::chrono::system_clock::time_point time) {
  return std::to_string(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

json::object attribute(const std::string& key, const std::string& value) {
  return {{"key", key}, {"value", json::object{{"stringValue", value}}}};
}

json::object span_json(const Span& span) {
  json::array attributes;
  for (const auto& [key, value] : span.attributes) attributes.push_back(attribute(key, value));
  json::object out{{"traceId", span.context.trace_id_text()},
                   {"spanId", span.context.span_id_text()},
                   {"name", span.name},
                   {"kind", static_cast<int>(span.kind)},
                   {"startTimeUnixNano", nanoseconds(span.started)},
                   {"endTimeUnixNano", nanoseconds(span.started + span.took)},
                   {"attributes", std::move(attributes)}};
  if (span.parent) out["parentSpanId"] = span.parent->span_id_text();
  if (!span.context.state.empty()) out["traceState"] = span.context.state;
  if (!span.error.empty()) out["status"] = json::object{{"code", 2}, {"message", span.error}};
  return out;
}

}  // namespace

std::string otlp_json(std::span<const Span> spans, const std::string& service) {
  json::array list;
  for (const Span& span : spans) list.push_back(span_json(span));
  const json::object resource{{"attributes", json::array{attribute("service.name", service)}}};
  const json::object scope{{"scope", json::object{{"name", "twinbox"}}}, {"spans", list}};
  return json::serialize(json::object{
      {"resourceSpans",
       json::array{json::object{{"resource", resource}, {"scopeSpans", json::array{scope}}}}}});
}

Tracer::Tracer(const TracingConfig& config, Environment environment)
    : config_(config), environment_(std::move(environment)) {
  if (!enabled()) return;
  HttpClientOptions options;
  options.allow = {"any"};  // collectors usually have private addresses
  client_ = std::make_unique<HttpClient>(options);
  thread_ = std::jthread{[this](std::stop_token stop) { run(stop); }};
}

Tracer::~Tracer() {
  if (!enabled()) return;
  thread_.request_stop();
  thread_.join();
}

void Tracer::add(Span span) {
  if (!enabled()) return;
  const std::lock_guard lock{mutex_};
  if (waiting_.size() >= config_.queue) {
    ++dropped_;
    return;
  }
  waiting_.push_back(std::move(span));
  if (waiting_.size() == batch_size) more_.notify_one();
}

void Tracer::run(const std::stop_token& stop) {
  while (true) {
    std::vector<Span> batch;
    {
      std::unique_lock lock{mutex_};
      more_.wait_for(lock, stop, 1s, [this] { return waiting_.size() >= batch_size; });
      const auto end =
          waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), batch_size));
      batch.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
      waiting_.erase(waiting_.begin(), end);
    }
    if (!batch.empty()) (send(batch, stop) ? sent_ : dropped_) += batch.size();
    if (!stop.stop_requested()) continue;
    const std::lock_guard lock{mutex_};
    if (waiting_.empty() || batch.empty()) return;
  }
}

bool Tracer::send(const std::vector<Span>& spans, const std::stop_token& stop) {
  HttpRequest request{.method = "POST",
                      .target = config_.endpoint,
                      .headers = {{"Content-Type", "application/json"}},
                      .body = otlp_json(spans, config_.service)};
  try {
    const auto limit = stop.stop_requested() ? 1s : 10s;
    const HttpResponse response = client_->send(request, limit);
    if (response.status / 100 == 2) return true;
    environment_.write(LogLevel::warning, "spans_refused",
                       {{"status", std::int64_t{response.status}}});
  } catch (const std::exception& error) {
    environment_.write(
        LogLevel::warning, "spans_dropped",
        {{"count", static_cast<std::int64_t>(spans.size())}, {"error", error.what()}});
  }
  return false;
}

}  // namespace twinbox::app
