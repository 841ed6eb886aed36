// Spans for a collector: OTLP over HTTP, as JSON.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/config/config.hpp"
#include <twinbox/event.hpp>
#include <twinbox/sink.hpp>

namespace twinbox::app {

struct Span {
  enum class Kind { server = 2, consumer = 5 };

  TraceContext context;
  std::optional<TraceContext> parent = {};
  std::string name;
  Kind kind = Kind::server;
  std::chrono::system_clock::time_point started;
  std::chrono::microseconds took{0};
  std::vector<std::pair<std::string, std::string>> attributes = {};
  std::string error = {};  ///< empty: success
};

/// An ExportTraceServiceRequest.
std::string otlp_json(std::span<const Span> spans, const std::string& service);

/// Collects spans and sends them in batches from its own thread. Thread-safe.
class Tracer {
 public:
  /// Does nothing without an endpoint. Throws std::invalid_argument for an invalid one.
  Tracer(const TracingConfig& config, Environment environment);
  /// Sends the remaining spans, without retrying.
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  [[nodiscard]] bool enabled() const noexcept { return !config_.endpoint.empty(); }
  /// Drops and counts the span if too many are waiting.
  void add(Span span);
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  void run(const std::stop_token& stop);
  bool send(const std::vector<Span>& spans, const std::stop_token& stop);

  const TracingConfig config_;
  Environment environment_;
  std::unique_ptr<HttpClient> client_;
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::mutex mutex_;
  std::condition_variable_any more_;
  std::deque<Span> waiting_;
  std::jthread thread_;
};

}  // namespace twinbox::app
