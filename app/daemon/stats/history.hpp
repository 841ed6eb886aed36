// The bounded history of the boxes for charts, kept over restarts in a small file.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/stats/throughput.hpp"

namespace twinbox::app {

/// The measurements at one time.
struct Sample {
  Throughput::Total total = {};  ///< since the start of the daemon
  std::optional<std::int64_t> open = {};
  std::optional<std::int64_t> dead = {};
  std::optional<double> oldest_seconds = {};
};

/// One step of a chart; unknown values are NaN.
struct HistoryPoint {
  float done_per_minute, failed_per_minute, open, dead, oldest_seconds, p50_ms, p99_ms;
};

enum class ChartSpan { quarter_hour, hour, day };

/// Parses `15m`, `1h`, `24h`. Empty: invalid.
std::optional<ChartSpan> parse_span(std::string_view text);

/// The caller passes the time. Not thread-safe.
class History {
 public:
  static constexpr std::size_t max_stores = 100;  ///< more stores count only in the sums

  /// An empty store name: all stores. Called about every ten seconds.
  void add(std::int64_t unix_seconds, BoxKind kind, const std::string& store, const Sample& sample);

  /// Removes outdated values, and stores without other values.
  void drop_old(std::int64_t unix_seconds);

  struct Chart {
    std::int64_t step_seconds;
    std::vector<std::int64_t> at;  ///< start times of the steps, oldest first
    std::vector<std::optional<HistoryPoint>> points;
  };
  [[nodiscard]] Chart chart(std::int64_t unix_seconds, BoxKind kind, const std::string& store,
                            ChartSpan span) const;

  /// Serializes and restores the points. False: the bytes are damaged or of another version;
  /// nothing has changed.
  [[nodiscard]] std::string encode() const;
  bool decode(std::string_view bytes);

 private:
  struct Ring {
    std::map<std::int64_t, HistoryPoint> points = {};  ///< by number of the step
    std::int64_t step = -1;                            ///< the current step
    std::int64_t started_at = 0;  ///< seconds: the first step began in its middle
    Sample first = {};
    Sample last = {};
    std::int64_t last_at = 0;

    [[nodiscard]] std::optional<HistoryPoint> current_point() const;
  };
  struct Key {
    BoxKind kind;
    std::string store;
    auto operator<=>(const Key&) const = default;
  };

  std::map<Key, std::array<Ring, 3>> series_;
};

/// Reads the file. Renames an unusable file to `….damaged` and logs a warning. A missing file is an
/// empty history.
void load_history(History& history, const std::filesystem::path& file,
                  const Environment& environment);
/// Replaces the file atomically. Throws std::runtime_error with its name.
void save_history(const History& history, const std::filesystem::path& file);

}  // namespace twinbox::app
