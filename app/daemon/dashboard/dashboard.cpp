#include "daemon/dashboard/dashboard.hpp"

#include <algorithm>

#include "daemon/access/access.hpp"
#include "daemon/dashboard/overview.hpp"
#include "daemon/http/json.hpp"
#include "daemon/http/request_parameters.hpp"

namespace twinbox::app {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using Clock = std::chrono::system_clock;

constexpr auto shortest_silence = 2s;
constexpr auto record_interval = 10s;
constexpr auto save_interval = 60s;

std::int64_t unix_seconds() {
  return std::chrono::floor<std::chrono::seconds>(Clock::now()).time_since_epoch().count();
}

/// The next multiple of the interval.
Clock::time_point next_multiple(std::chrono::seconds interval) {
  const auto now = Clock::now().time_since_epoch();
  return Clock::time_point{(now / interval + 1) * interval};
}

Sample sample_of(const Reports& reports, BoxKind kind, const std::string& store,
                 Throughput::Total total) {
  Sample sample{.total = std::move(total)};
  for (const auto& report : reports) {
    if (report->kind != kind || !report->at) continue;
    if (!store.empty() && report->store->name() != store) continue;
    const StateCounts& counts = report->counts.all;
    sample.open = sample.open.value_or(0) + counts.open();
    sample.dead = sample.dead.value_or(0) + counts.dead;
    const Duration oldest = counts.oldest_pending.value_or(Duration{0});
    sample.oldest_seconds =
        std::max(sample.oldest_seconds.value_or(0), std::chrono::duration<double>(oldest).count());
  }
  return sample;
}

}  // namespace

std::filesystem::path history_file(const Config& config) {
  return token_file(config).replace_extension(".history");
}

Dashboard::Dashboard(const Stores& stores, Throughput& throughput, const Dispatchers& dispatchers,
                     Environment environment, std::filesystem::path file)
    : stores_(stores),
      throughput_(throughput),
      dispatchers_(dispatchers),
      environment_(std::move(environment)),
      file_(std::move(file)),
      stats_collector_(stores, environment_, [this] {
        {
          const std::lock_guard lock{mutex_};
          has_new_stats_ = true;
        }
        changed_.notify_one();
      }) {}

Dashboard::~Dashboard() { stop(); }

void Dashboard::start() {
  if (!file_.empty()) load_history(history_, file_, environment_);
  stats_collector_.start();
  record();
  thread_ = std::jthread{[this](std::stop_token stop) { run(stop); }};
}

void Dashboard::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  record();
  save();
}

void Dashboard::set(const HealthThresholds& health) {
  {
    const std::lock_guard lock{mutex_};
    health_ = health;
    has_new_stats_ = true;
  }
  changed_.notify_one();
}

HealthThresholds Dashboard::health() const {
  const std::lock_guard lock{mutex_};
  return health_;
}

void Dashboard::run(const std::stop_token& stop) {
  Clock::time_point next_record = next_multiple(record_interval);
  Clock::time_point next_save = next_multiple(save_interval);
  Clock::time_point may_publish = Clock::now();
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    changed_.wait_until(lock, stop, next_record, [&] { return has_new_stats_; });
    if (has_new_stats_ && !stop.stop_requested()) {
      // Also saves what is counted in the meantime.
      changed_.wait_until(lock, stop, std::min(may_publish, next_record), [] { return false; });
    }
    const bool news = has_new_stats_ && Clock::now() >= may_publish;
    if (news) has_new_stats_ = false;
    lock.unlock();
    if (news) {
      publish();
      may_publish = Clock::now() + shortest_silence;
    }
    if (Clock::now() >= next_record) {
      record();
      next_record = next_multiple(record_interval);
    }
    if (Clock::now() >= next_save) {
      save();
      next_save = next_multiple(save_interval);
    }
    lock.lock();
  }
}

Reports Dashboard::take_reports() {
  Reports reports = stats_collector_.latest();
  const std::vector<OwnerToken> own = dispatchers_.view().owners;
  for (const auto& report : reports) {
    if (report->at)
      throughput_.add_workers(report->kind, report->store->name(), report->workers, own);
  }
  return reports;
}

/// An unchanged snapshot is not sent.
void Dashboard::publish() {
  if (feed_.listeners() > 0) stats_collector_.watch();
  const Reports reports = take_reports();
  json::object overview = overview_json(reports, throughput_, dispatchers_.view(), health());
  const std::string data = json_text(overview);
  overview.erase("at");
  std::string content = json_text(overview);
  if (content == published_) return;
  published_ = std::move(content);
  feed_.publish("overview", data);
}

void Dashboard::record() {
  const Reports reports = take_reports();
  const std::int64_t now = unix_seconds();
  const std::lock_guard lock{mutex_};
  for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
    history_.add(now, kind, "", sample_of(reports, kind, "", throughput_.total(kind)));
  }
  for (const auto& report : reports) {
    const std::string& store = report->store->name();
    history_.add(now, report->kind, store,
                 sample_of({report}, report->kind, store, throughput_.total(report->kind, store)));
  }
}

/// A full disk may get space again, so saving is retried; the failure is logged once.
void Dashboard::save() {
  if (file_.empty()) return;
  History copy;
  {
    const std::lock_guard lock{mutex_};
    history_.drop_old(unix_seconds());
    copy = history_;
  }
  try {
    save_history(copy, file_);
    save_failed_ = false;
  } catch (const std::exception& error) {
    if (!save_failed_) {
      environment_.write(LogLevel::warning, "history_not_saved", {{"error", error.what()}});
    }
    save_failed_ = true;
  }
}

HttpResponse Dashboard::overview() {
  return answer(
      overview_json(stats_collector_.reports(), throughput_, dispatchers_.view(), health()));
}

HttpResponse Dashboard::stores(const EndpointRequest& call) {
  refuse_unknown(call.target, {"store", "after", "limit"});
  StoresQuery page{.after = call.target.find("after").value_or(""),
                   .store = call.target.find("store").value_or("")};
  for (const std::string_view name : {page.after, page.store}) {
    if (!name.empty()) find_store(stores_, name, {});
  }
  page.limit = static_cast<std::size_t>(number_of(call.target, "limit", 1, StoresQuery::max_stores,
                                                  static_cast<std::int64_t>(page.limit)));
  return answer(
      stores_json(stats_collector_.reports(), throughput_, dispatchers_.view(), health(), page));
}

HttpResponse Dashboard::groups(const EndpointRequest& call) {
  refuse_unknown(call.target, {"store", "box", "topic", "limit"});
  const std::string_view box = call.target.find("box").value_or("");
  GroupsQuery query{.store = call.target.find("store").value_or(""),
                    .topic = call.target.find("topic").value_or("")};
  if (!box.empty()) query.kind = parse_box(box);
  if (!query.store.empty()) find_store(stores_, query.store, query.kind);
  query.limit = static_cast<std::size_t>(number_of(call.target, "limit", 1, GroupsQuery::max_groups,
                                                   static_cast<std::int64_t>(query.limit)));
  return answer(groups_json(stats_collector_.reports(), query));
}

HttpResponse Dashboard::workers(const EndpointRequest& call) {
  refuse_unknown(call.target, {"store"});
  const std::string_view store = call.target.find("store").value_or("");
  if (!store.empty()) find_store(stores_, store, {});
  return answer(workers_json(stats_collector_.reports(), throughput_, store));
}

HttpResponse Dashboard::chart(const EndpointRequest& call) {
  refuse_unknown(call.target, {"store", "box", "span"});
  const std::string store{call.target.find("store").value_or("")};
  const BoxKind kind = parse_box(call.target.find("box").value_or(""));
  const std::string_view text = call.target.find("span").value_or("15m");
  const auto span = parse_span(text);
  if (!span) throw HttpProblem(400, "span: expected 15m, 1h or 24h");
  if (!store.empty()) find_store(stores_, store, kind);
  History::Chart chart;
  {
    const std::lock_guard lock{mutex_};
    chart = history_.chart(unix_seconds(), kind, store, *span);
  }
  json::object out = chart_json(chart);
  out["box"] = json::string_view{to_string(kind)};
  out["span"] = json::string_view{text.data(), text.size()};
  return answer(out);
}

void Dashboard::add_to(HttpRouter& router) {
  router.add({"GET", "/v1/overview", RequiredAccess::read,
              [this](const EndpointRequest&) { return overview(); }});
  router.add({"GET", "/v1/history", RequiredAccess::read,
              [this](const EndpointRequest& call) { return chart(call); }});
  router.add({"GET", "/v1/stores", RequiredAccess::read,
              [this](const EndpointRequest& call) { return stores(call); }});
  router.add({"GET", "/v1/dead_letter_groups", RequiredAccess::read,
              [this](const EndpointRequest& call) { return groups(call); }});
  router.add({"GET", "/v1/workers", RequiredAccess::read,
              [this](const EndpointRequest& call) { return workers(call); }});
  // The connection streams the events; this response is for requests that cannot get a stream.
  router.add({"GET", "/v1/overview/stream", RequiredAccess::read,
              [](const EndpointRequest& call) {
                if (call.request.method == "HEAD") {
                  return HttpResponse{200, {{"Content-Type", "text/event-stream"}}};
                }
                HttpResponse busy =
                    problem(503, "Service Unavailable",
                            "too many open event streams; poll /v1/overview instead");
                busy.headers.add("Retry-After", "30");
                return busy;
              },
              true});
}

}  // namespace twinbox::app
