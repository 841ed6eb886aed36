#include "daemon/dashboard.hpp"

#include <algorithm>

#include "daemon/access.hpp"
#include "daemon/json.hpp"
#include "daemon/overview.hpp"
#include "daemon/parameters.hpp"

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

/// The next time that is a multiple of the interval.
Clock::time_point next_multiple(std::chrono::seconds interval) {
  const auto now = Clock::now().time_since_epoch();
  return Clock::time_point{(now / interval + 1) * interval};
}

Reading reading_of(const Reports& reports, BoxKind kind, const std::string& store,
                   Pulse::Total total) {
  Reading reading{.total = std::move(total)};
  for (const auto& report : reports) {
    if (report->kind != kind || !report->at) continue;
    if (!store.empty() && report->store->name() != store) continue;
    const StateCounts& counts = report->counts.all;
    reading.open = reading.open.value_or(0) + counts.open();
    reading.dead = reading.dead.value_or(0) + counts.dead;
    const Duration oldest = counts.oldest_pending.value_or(Duration{0});
    reading.oldest_seconds =
        std::max(reading.oldest_seconds.value_or(0), std::chrono::duration<double>(oldest).count());
  }
  return reading;
}

}  // namespace

std::filesystem::path history_file(const Config& config) {
  return token_file(config).replace_extension(".history");
}

Dashboard::Dashboard(const Stores& stores, Pulse& pulse, const Dispatching& dispatching,
                     Environment environment, std::filesystem::path file)
    : stores_(stores),
      pulse_(pulse),
      dispatching_(dispatching),
      environment_(std::move(environment)),
      file_(std::move(file)),
      census_(stores, environment_, [this] {
        {
          const std::lock_guard lock{mutex_};
          counted_ = true;
        }
        changed_.notify_one();
      }) {}

Dashboard::~Dashboard() { stop(); }

void Dashboard::start() {
  if (!file_.empty()) load_history(history_, file_, environment_);
  census_.start();
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
    counted_ = true;
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
    changed_.wait_until(lock, stop, next_record, [&] { return counted_; });
    if (counted_ && !stop.stop_requested()) {
      // What is counted meanwhile goes with it.
      changed_.wait_until(lock, stop, std::min(may_publish, next_record), [] { return false; });
    }
    const bool news = counted_ && Clock::now() >= may_publish;
    if (news) counted_ = false;
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
  Reports reports = census_.glance();
  const std::vector<OwnerToken> ours = dispatching_.view().owners;
  for (const auto& report : reports) {
    if (report->at) pulse_.hear(report->kind, report->store->name(), report->workers, ours);
  }
  return reports;
}

/// What nobody can tell from the last one is not sent.
void Dashboard::publish() {
  if (feed_.listeners() > 0) census_.watch();
  const Reports reports = take_reports();
  json::object overview = overview_json(reports, pulse_, dispatching_.view(), health());
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
    history_.add(now, kind, "", reading_of(reports, kind, "", pulse_.total(kind)));
  }
  for (const auto& report : reports) {
    const std::string& store = report->store->name();
    history_.add(now, report->kind, store,
                 reading_of({report}, report->kind, store, pulse_.total(report->kind, store)));
  }
}

/// A disk that is full today may have room tomorrow: it is tried again, and told once.
void Dashboard::save() {
  if (file_.empty()) return;
  History copy;
  {
    const std::lock_guard lock{mutex_};
    history_.tidy(unix_seconds());
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
  return answer(overview_json(census_.reports(), pulse_, dispatching_.view(), health()));
}

HttpResponse Dashboard::stores(const Call& call) {
  refuse_unknown(call.target, {"store", "after", "limit"});
  StoresPage page{.after = call.target.find("after").value_or(""),
                  .store = call.target.find("store").value_or("")};
  for (const std::string_view name : {page.after, page.store}) {
    if (!name.empty()) find_store(stores_, name, {});
  }
  page.limit = static_cast<std::size_t>(number_of(call.target, "limit", 1, StoresPage::most_stores,
                                                  static_cast<std::int64_t>(page.limit)));
  return answer(stores_json(census_.reports(), pulse_, dispatching_.view(), health(), page));
}

HttpResponse Dashboard::groups(const Call& call) {
  refuse_unknown(call.target, {"store", "box", "topic", "limit"});
  const std::string_view box = call.target.find("box").value_or("");
  GroupsWanted wanted{.store = call.target.find("store").value_or(""),
                      .topic = call.target.find("topic").value_or("")};
  if (!box.empty()) wanted.kind = parse_box(box);
  if (!wanted.store.empty()) find_store(stores_, wanted.store, wanted.kind);
  wanted.limit = static_cast<std::size_t>(number_of(
      call.target, "limit", 1, GroupsWanted::most_groups, static_cast<std::int64_t>(wanted.limit)));
  return answer(groups_json(census_.reports(), wanted));
}

HttpResponse Dashboard::workers(const Call& call) {
  refuse_unknown(call.target, {"store"});
  const std::string_view store = call.target.find("store").value_or("");
  if (!store.empty()) find_store(stores_, store, {});
  return answer(workers_json(census_.reports(), pulse_, store));
}

HttpResponse Dashboard::chart(const Call& call) {
  refuse_unknown(call.target, {"store", "box", "span"});
  const std::string store{call.target.find("store").value_or("")};
  const BoxKind kind = parse_box(call.target.find("box").value_or(""));
  const std::string_view text = call.target.find("span").value_or("15m");
  const auto span = parse_span(text);
  if (!span) throw Refused(400, "span: expected 15m, 1h or 24h");
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

void Dashboard::add_to(Router& router) {
  router.add({"GET", "/v1/overview", Need::read, [this](const Call&) { return overview(); }});
  router.add({"GET", "/v1/history", Need::read, [this](const Call& call) { return chart(call); }});
  router.add({"GET", "/v1/stores", Need::read, [this](const Call& call) { return stores(call); }});
  router.add({"GET", "/v1/groups", Need::read, [this](const Call& call) { return groups(call); }});
  router.add(
      {"GET", "/v1/workers", Need::read, [this](const Call& call) { return workers(call); }});
  // Streamed by the connection; what is answered here is what cannot be.
  router.add({"GET", "/v1/live", Need::read,
              [](const Call& call) {
                if (call.request.method == "HEAD") {
                  return HttpResponse{200, {{"Content-Type", "text/event-stream"}}};
                }
                HttpResponse busy = problem(503, "Service Unavailable",
                                            "too many pages listen already; ask /v1/overview");
                busy.headers.add("Retry-After", "30");
                return busy;
              },
              true});
}

}  // namespace twinbox::app
