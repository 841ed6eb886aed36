#include "daemon/stats/metrics.hpp"

#include <array>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <tuple>
#include <utility>

#include "daemon/http/http_server.hpp"

namespace twinbox::app {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Families = std::vector<MetricFamily>;
using Labels = std::vector<ClientMetric::Label>;

MetricFamily family(std::string name, std::string help, MetricType type) {
  return {std::move(name), std::move(help), type, {}};
}

void add(MetricFamily& family, Labels labels, double value) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

MetricFamily single(std::string name, std::string help, MetricType type, double value) {
  MetricFamily one = family(std::move(name), std::move(help), type);
  add(one, {}, value);
  return one;
}

/// The dispatcher's buckets: powers of two microseconds up to nine hours.
void add(MetricFamily& family, Labels labels, const Histogram& histogram) {
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.histogram.sample_count = histogram.count;
  metric.histogram.sample_sum = static_cast<double>(histogram.sum) / 1e6;
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < 36; ++i) {
    below += histogram.buckets[i];
    if (i < 6) continue;  // finer than needed
    metric.histogram.bucket.push_back({below, static_cast<double>(std::uint64_t{1} << i) / 1e6});
  }
  metric.histogram.bucket.push_back({histogram.count, std::numeric_limits<double>::infinity()});
  family.metric.push_back(std::move(metric));
}

struct CounterOf {
  const char* name;
  const char* help;
  std::uint64_t StoreStats::*value;
};

constexpr std::array counters{
    CounterOf{"twinbox_claimed_total", "Claimed deliveries", &StoreStats::claimed},
    CounterOf{"twinbox_handled_total", "Finished handler calls", &StoreStats::handled},
    CounterOf{"twinbox_failed_total", "Failed attempts that will be retried", &StoreStats::failed},
    CounterOf{"twinbox_dead_letters_total", "Deliveries moved to dead letters", &StoreStats::dead},
    CounterOf{"twinbox_settled_total", "Deliveries settled in the store", &StoreStats::settled},
    CounterOf{"twinbox_lease_lost_total", "Settles rejected because the lease had expired",
              &StoreStats::lease_lost},
    CounterOf{"twinbox_timeouts_total", "Handler calls that exceeded their timeout",
              &StoreStats::timeouts},
    CounterOf{"twinbox_dispatch_errors_total", "Store errors during dispatch",
              &StoreStats::loop_errors},
    CounterOf{"twinbox_reaped_total", "Expired leases cleared by the reaper", &StoreStats::reaped},
    CounterOf{"twinbox_expired_total", "Deliveries past their expiry", &StoreStats::expired},
    CounterOf{"twinbox_pruned_total", "Messages deleted after the retention period",
              &StoreStats::pruned},
};

struct HistogramOf {
  const char* name;
  const char* help;
  Histogram StoreStats::*value;
};

constexpr std::array dispatch_histograms{
    HistogramOf{"twinbox_handler_seconds", "Time in handlers", &StoreStats::handler_time},
    HistogramOf{"twinbox_queue_latency_seconds", "Time from the due time to the handler call",
                &StoreStats::queue_latency},
    HistogramOf{"twinbox_claim_seconds", "Duration of a claim", &StoreStats::claim_time},
    HistogramOf{"twinbox_settle_seconds", "Duration of a settle transaction",
                &StoreStats::settle_time},
};

void add_dispatch(Families& families, const StatsSnapshot& outbox, const StatsSnapshot& inbox) {
  const std::array boxes{std::pair{"outbox", &outbox}, std::pair{"inbox", &inbox}};
  for (const CounterOf& counter : counters) {
    MetricFamily one = family(counter.name, counter.help, MetricType::Counter);
    for (const auto& [box, snapshot] : boxes) {
      for (const StoreStats& store : snapshot->stores) {
        add(one, {{"box", box}, {"store", store.store}}, static_cast<double>(store.*counter.value));
      }
    }
    families.push_back(std::move(one));
  }
  MetricFamily running = family("twinbox_in_flight", "Handler calls in flight", MetricType::Gauge);
  for (const auto& [box, snapshot] : boxes) {
    for (const StoreStats& store : snapshot->stores) {
      add(running, {{"box", box}, {"store", store.store}}, static_cast<double>(store.in_flight));
    }
  }
  families.push_back(std::move(running));
  MetricFamily slow =
      family("twinbox_handlers_slow",
             "Handler calls that have been running for more than a third of their lease",
             MetricType::Gauge);
  for (const auto& [box, snapshot] : boxes) {
    for (const StoreStats& store : snapshot->stores) {
      add(slow, {{"box", box}, {"store", store.store}}, static_cast<double>(store.slow));
    }
  }
  families.push_back(std::move(slow));
  for (const HistogramOf& histogram : dispatch_histograms) {
    MetricFamily one = family(histogram.name, histogram.help, MetricType::Histogram);
    for (const auto& [box, snapshot] : boxes) {
      for (const StoreStats& store : snapshot->stores) {
        add(one, {{"box", box}, {"store", store.store}}, store.*histogram.value);
      }
    }
    families.push_back(std::move(one));
  }
  MetricFamily topics = family("twinbox_topic_outcomes_total", "Handler calls by topic and outcome",
                               MetricType::Counter);
  for (const auto& [box, snapshot] : boxes) {
    for (const TopicStats& topic : snapshot->topics) {
      for (const auto& [outcome, value] :
           {std::pair{"handled", topic.handled}, std::pair{"failed", topic.failed},
            std::pair{"dead", topic.dead}}) {
        add(topics, {{"box", box}, {"topic", topic.topic}, {"outcome", outcome}},
            static_cast<double>(value));
      }
    }
  }
  families.push_back(std::move(topics));
}

void add_boxes(Families& families, const std::vector<StatsCollector::Report>& boxes,
               const WriteMonitor& writes) {
  MetricFamily states = family("twinbox_deliveries", "Deliveries by state", MetricType::Gauge);
  MetricFamily oldest =
      family("twinbox_oldest_pending_seconds", "Age of the oldest due delivery", MetricType::Gauge);
  MetricFamily age =
      family("twinbox_oldest_open_seconds",
             "Age of the oldest message with open deliveries, including postponed ones",
             MetricType::Gauge);
  MetricFamily blocked =
      family("twinbox_blocked_keys",
             "Partition keys blocked by a distant due time, counted up to 100", MetricType::Gauge);
  MetricFamily up = family("twinbox_store_up", "1 if the box could be queried", MetricType::Gauge);
  MetricFamily writable =
      family("twinbox_store_writable", "1 if the box could be queried and its store accepts writes",
             MetricType::Gauge);
  MetricFamily probes = family("twinbox_write_probes_total",
                               "Test writes made for readiness checks", MetricType::Counter);
  const Store* last = nullptr;
  for (const StatsCollector::Report& box : boxes) {
    const Labels labels{{"box", std::string{to_string(box->kind)}}, {"store", box->store->name()}};
    const bool is_up = box->error.empty();
    add(up, labels, is_up ? 1 : 0);
    add(writable, labels, is_up && !writes.refusal(*box->store) ? 1 : 0);
    if (std::exchange(last, box->store) != box->store) {
      add(probes, {{"store", box->store->name()}}, static_cast<double>(writes.probes(*box->store)));
    }
    if (!box->at) continue;
    const StateCounts& counts = box->counts.all;
    for (const auto& [state, value] :
         {std::pair{"ready", counts.ready}, std::pair{"scheduled", counts.scheduled},
          std::pair{"leased", counts.leased}, std::pair{"waiting", counts.waiting},
          std::pair{"dead", counts.dead}}) {
      Labels with_state = labels;
      with_state.push_back({"state", state});
      add(states, std::move(with_state), static_cast<double>(value));
    }
    const auto seconds = [](const std::optional<Duration>& duration) {
      return static_cast<double>(duration.value_or(Duration{0}).count()) / 1e6;
    };
    add(oldest, labels, seconds(counts.oldest_pending));
    add(age, labels, seconds(counts.oldest_open));
    add(blocked, labels, static_cast<double>(box->blocked_keys.size()));
  }
  for (MetricFamily* one : {&states, &oldest, &age, &blocked, &up, &writable, &probes}) {
    families.push_back(std::move(*one));
  }
}

void add_request_pools(Families& families, const std::vector<RequestPool::Status>& pools) {
  MetricFamily threads =
      family("twinbox_request_pool_threads", "Threads in the pool", MetricType::Gauge);
  MetricFamily running = family("twinbox_request_pool_running", "Busy threads", MetricType::Gauge);
  MetricFamily waiting =
      family("twinbox_request_pool_waiting", "Requests waiting for a thread", MetricType::Gauge);
  MetricFamily refused =
      family("twinbox_request_pool_refused_total",
             "Requests rejected with 503 because the pool was full", MetricType::Counter);
  for (const RequestPool::Status& pool : pools) {
    const Labels labels{{"pool", pool.name}};
    add(threads, labels, static_cast<double>(pool.threads));
    add(running, labels, static_cast<double>(pool.running));
    add(waiting, labels, static_cast<double>(pool.waiting));
    add(refused, labels, static_cast<double>(pool.refused));
  }
  for (MetricFamily* one : {&threads, &running, &waiting, &refused}) {
    families.push_back(std::move(*one));
  }
}

void add_http(Families& families, const Metrics::MetricsInput& input) {
  const HttpServerStats& stats = input.server.stats();
  const auto count = [&](const char* name, const char* help, std::uint64_t value) {
    families.push_back(single(name, help, MetricType::Counter, static_cast<double>(value)));
  };
  families.push_back(single("twinbox_http_connections", "Open connections", MetricType::Gauge,
                            static_cast<double>(input.server.connections())));
  MetricFamily bodies = family("twinbox_http_body_bytes",
                               "Bytes of request bodies in memory, by sender", MetricType::Gauge);
  for (const bool known : {true, false}) {
    add(bodies, {{"sender", known ? "token" : "anonymous"}},
        static_cast<double>(input.server.body_bytes(known)));
  }
  families.push_back(std::move(bodies));
  add_request_pools(families, input.pools);
  count("twinbox_http_accepted_total", "Connections accepted", stats.accepted);
  count("twinbox_http_evicted_total", "Idle connections closed for new ones", stats.evicted);
  count("twinbox_http_refused_total", "Connections rejected at the limit", stats.refused);
  count("twinbox_http_timeouts_total", "Requests that timed out", stats.timeouts);
  count("twinbox_http_malformed_total", "Malformed requests", stats.malformed);
  count("twinbox_conflicts_total", "Duplicates with different content under a known id",
        input.conflicts);
  count("twinbox_spans_sent_total", "Spans accepted by the collector", input.spans_sent);
  count("twinbox_spans_dropped_total",
        "Spans dropped because the collector was unreachable or too slow", input.spans_dropped);
}

void add_sources(Families& families, const std::map<std::string, SourceStatus>& sources) {
  MetricFamily up =
      family("twinbox_source_up", "1 if the broker delivers to this source", MetricType::Gauge);
  MetricFamily deliveries = family("twinbox_source_deliveries_total",
                                   "Deliveries of a broker by outcome", MetricType::Counter);
  for (const auto& [name, status] : sources) {
    add(up, {{"source", name}}, status.connected ? 1 : 0);
    for (const auto& [outcome, value] :
         {std::pair{"accepted", status.accepted}, std::pair{"duplicate", status.duplicates},
          std::pair{"retried", status.retried}, std::pair{"dead", status.dead}}) {
      add(deliveries, {{"source", name}, {"outcome", outcome}}, static_cast<double>(value));
    }
  }
  families.push_back(std::move(up));
  families.push_back(std::move(deliveries));
}

}  // namespace

struct Metrics::Series {
  Series(prometheus::Family<prometheus::Counter>& request_family,
         prometheus::Family<prometheus::Histogram>& seconds_family)
      : requests(request_family), seconds(seconds_family) {}

  prometheus::Family<prometheus::Counter>& requests;
  prometheus::Family<prometheus::Histogram>& seconds;
  std::mutex mutex = {};
  std::map<std::tuple<std::string, std::string, int>, prometheus::Counter*> counters = {};
  std::map<std::string, prometheus::Histogram*, std::less<>> histograms = {};
};

Metrics::Metrics() : registry_(std::make_unique<prometheus::Registry>()) {
  auto& requests = prometheus::BuildCounter()
                       .Name("twinbox_http_requests_total")
                       .Help("Requests by endpoint and status")
                       .Register(*registry_);
  auto& seconds = prometheus::BuildHistogram()
                      .Name("twinbox_http_request_seconds")
                      .Help("Time from the first byte of a request to its response")
                      .Register(*registry_);
  series_ = std::make_unique<Series>(requests, seconds);
}

Metrics::~Metrics() = default;

void Metrics::count_request(std::string_view method, std::string_view endpoint, int status,
                            std::chrono::microseconds took) {
  static const prometheus::Histogram::BucketBoundaries bounds{
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
  prometheus::Counter* counter = nullptr;
  prometheus::Histogram* histogram = nullptr;
  {
    const std::lock_guard lock{series_->mutex};
    counter = series_->counters[{std::string{method}, std::string{endpoint}, status}];
    if (counter == nullptr) {
      counter = &series_->requests.Add({{"method", std::string{method}},
                                        {"endpoint", std::string{endpoint}},
                                        {"status", std::to_string(status)}});
      series_->counters[{std::string{method}, std::string{endpoint}, status}] = counter;
    }
    histogram = series_->histograms[std::string{endpoint}];
    if (histogram == nullptr) {
      histogram = &series_->seconds.Add({{"endpoint", std::string{endpoint}}}, bounds);
      series_->histograms[std::string{endpoint}] = histogram;
    }
  }
  counter->Increment();
  histogram->Observe(static_cast<double>(took.count()) / 1e6);
}

std::string Metrics::text(const MetricsInput& input) const {
  Families families = registry_->Collect();
  add_http(families, input);
  add_sources(families, input.sources);
  add_dispatch(families, outbox_.snapshot(), inbox_.snapshot());
  add_boxes(families, input.boxes, input.writes);
  return prometheus::TextSerializer{}.Serialize(families);
}

}  // namespace twinbox::app
