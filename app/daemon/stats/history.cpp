#include "daemon/stats/history.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "daemon/state_file.hpp"
#include <twinbox/message.hpp>

namespace twinbox::app {
namespace {

struct Resolution {
  std::int64_t step;  ///< seconds
  std::int64_t count;
};

constexpr std::array<Resolution, 3> resolutions{{{10, 90}, {60, 60}, {600, 144}}};
constexpr std::string_view version = "twinbox history 1\n";
constexpr float unknown = std::numeric_limits<float>::quiet_NaN();

template <class Number>
float or_unknown(const std::optional<Number>& value) {
  return value ? static_cast<float>(*value) : unknown;
}

Histogram difference(const Histogram& from, const Histogram& to) {
  Histogram out = to;
  for (std::size_t i = 0; i < out.buckets.size(); ++i) out.buckets[i] -= from.buckets[i];
  out.count -= from.count;
  out.sum -= from.sum;
  return out;
}

HistoryPoint point_of(const Sample& first, const Sample& last, std::int64_t seconds) {
  const auto per_minute = [&](std::uint64_t from, std::uint64_t to) {
    if (seconds == 0) return unknown;
    return static_cast<float>(static_cast<double>(to - from) * 60 / static_cast<double>(seconds));
  };
  const Histogram times = difference(first.total.handler_times, last.total.handler_times);
  return {.done_per_minute = per_minute(first.total.done, last.total.done),
          .failed_per_minute = per_minute(first.total.failed, last.total.failed),
          .open = or_unknown(last.open),
          .dead = or_unknown(last.dead),
          .oldest_seconds = or_unknown(last.oldest_seconds),
          .p50_ms = times.count == 0 ? unknown : static_cast<float>(times.p50() / 1000),
          .p99_ms = times.count == 0 ? unknown : static_cast<float>(times.p99() / 1000)};
}

// ---- the file: numbers in native byte order, followed by a hash of the content

template <class Number>
void put(std::string& out, const Number& number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <class Number>
bool take(std::string_view& in, Number& number) {
  if (in.size() < sizeof number) return false;
  std::memcpy(&number, in.data(), sizeof number);
  in.remove_prefix(sizeof number);
  return true;
}

}  // namespace

std::optional<ChartSpan> parse_span(std::string_view text) {
  if (text == "15m") return ChartSpan::quarter_hour;
  if (text == "1h") return ChartSpan::hour;
  if (text == "24h") return ChartSpan::day;
  return {};
}

void History::add(std::int64_t now, BoxKind kind, const std::string& store, const Sample& sample) {
  Key key{kind, store};
  if (!series_.contains(key) && !store.empty() && series_.size() >= 2 * max_stores + 2) return;
  std::array<Ring, 3>& rings = series_[std::move(key)];
  for (std::size_t i = 0; i < resolutions.size(); ++i) {
    Ring& ring = rings[i];
    const std::int64_t step = now / resolutions[i].step;
    if (step < ring.step) continue;  // the clock was set back: wait until it catches up
    if (step > ring.step) {
      if (ring.step >= 0) {
        ring.last = sample;
        ring.last_at = now;
        ring.points[ring.step] = *ring.current_point();
      }
      ring.step = step;
      ring.started_at = now;
      ring.first = sample;
    }
    ring.last = sample;
    ring.last_at = now;
  }
}

/// A step may have started before a restart: missing values are taken from the file.
std::optional<HistoryPoint> History::Ring::current_point() const {
  if (step < 0) return {};
  HistoryPoint point = point_of(first, last, last_at - started_at);
  const auto before = points.find(step);
  if (before == points.end()) return point;
  for (float HistoryPoint::*member :
       {&HistoryPoint::done_per_minute, &HistoryPoint::failed_per_minute, &HistoryPoint::open,
        &HistoryPoint::dead, &HistoryPoint::oldest_seconds, &HistoryPoint::p50_ms,
        &HistoryPoint::p99_ms}) {
    if (std::isnan(point.*member)) point.*member = before->second.*member;
  }
  return point;
}

void History::drop_old(std::int64_t now) {
  for (auto series = series_.begin(); series != series_.end();) {
    std::size_t points = 0;
    for (std::size_t i = 0; i < resolutions.size(); ++i) {
      Ring& ring = series->second[i];
      const std::int64_t oldest = now / resolutions[i].step - resolutions[i].count;
      ring.points.erase(ring.points.begin(), ring.points.lower_bound(oldest));
      points += ring.points.size() + (ring.last_at > oldest * resolutions[i].step ? 1 : 0);
    }
    series = points == 0 ? series_.erase(series) : std::next(series);
  }
}

History::Chart History::chart(std::int64_t now, BoxKind kind, const std::string& store,
                              ChartSpan span) const {
  const Resolution resolution = resolutions[static_cast<std::size_t>(span)];
  Chart chart{.step_seconds = resolution.step, .at = {}, .points = {}};
  const auto found = series_.find(Key{kind, store});
  const std::int64_t newest = now / resolution.step;
  for (std::int64_t step = newest - resolution.count + 1; step <= newest; ++step) {
    chart.at.push_back(step * resolution.step);
    chart.points.emplace_back();
    if (found == series_.end()) continue;
    const Ring& ring = found->second[static_cast<std::size_t>(span)];
    const auto point = ring.points.find(step);
    if (ring.step == step && ring.current_point()) {
      chart.points.back() = ring.current_point();
    } else if (point != ring.points.end()) {
      chart.points.back() = point->second;
    }
  }
  return chart;
}

std::string History::encode() const {
  std::string out{version};
  put(out, static_cast<std::uint32_t>(series_.size()));
  for (const auto& [key, rings] : series_) {
    put(out, static_cast<std::uint8_t>(key.kind == BoxKind::inbox));
    put(out, static_cast<std::uint32_t>(key.store.size()));
    out += key.store;
    for (const Ring& ring : rings) {
      std::map<std::int64_t, HistoryPoint> points = ring.points;
      if (const auto now = ring.current_point()) points[ring.step] = *now;
      put(out, static_cast<std::uint32_t>(points.size()));
      for (const auto& [step, point] : points) {
        put(out, step);
        put(out, point);
      }
    }
  }
  return out + std::string{ContentHash::of(out).bytes};
}

bool History::decode(std::string_view bytes) {
  constexpr std::size_t hash_size = 32;
  if (bytes.size() < version.size() + hash_size || !bytes.starts_with(version)) return false;
  std::string_view in = bytes.substr(0, bytes.size() - hash_size);
  if (ContentHash::of(in).bytes != bytes.substr(in.size())) return false;
  in.remove_prefix(version.size());
  std::map<Key, std::array<Ring, 3>> series;
  std::uint32_t series_count = 0;
  if (!take(in, series_count)) return false;
  for (std::uint32_t i = 0; i < series_count; ++i) {
    std::uint8_t inbox = 0;
    std::uint32_t length = 0;
    if (!take(in, inbox) || !take(in, length) || in.size() < length) return false;
    auto& rings =
        series[{inbox != 0 ? BoxKind::inbox : BoxKind::outbox, std::string{in.substr(0, length)}}];
    in.remove_prefix(length);
    for (Ring& ring : rings) {
      std::uint32_t count = 0;
      if (!take(in, count)) return false;
      for (std::uint32_t j = 0; j < count; ++j) {
        std::int64_t step = 0;
        HistoryPoint point{};
        if (!take(in, step) || !take(in, point)) return false;
        ring.points[step] = point;
      }
    }
  }
  if (!in.empty()) return false;
  series_ = std::move(series);
  return true;
}

void load_history(History& history, const std::filesystem::path& file,
                  const Environment& environment) {
  std::ifstream stream{file, std::ios::binary};
  if (!stream) return;
  const std::string bytes{std::istreambuf_iterator<char>{stream}, {}};
  if (history.decode(bytes)) return;
  move_damaged_file(file, "history_unusable", environment);
}

void save_history(const History& history, const std::filesystem::path& file) {
  save_file(file, history.encode());
}

}  // namespace twinbox::app
