// How the boxes fared: a bounded history for charts, kept over restarts in a small file.
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

/// What is known at one moment.
struct Sample {
  Throughput::Total total = {};  ///< since the start of the daemon
  std::optional<std::int64_t> open = {};
  std::optional<std::int64_t> dead = {};
  std::optional<double> oldest_seconds = {};
};

/// One step of a chart; what is not known is no number (NaN).
struct HistoryPoint {
  float done_per_minute, failed_per_minute, open, dead, oldest_seconds, p50_ms, p99_ms;
};

enum class ChartSpan { quarter_hour, hour, day };

/// `15m`, `1h`, `24h`. Empty: it is none.
std::optional<ChartSpan> parse_span(std::string_view text);

/// Time is handed in; not thread-safe.
class History {
 public:
  static constexpr std::size_t max_stores = 100;  ///< further ones count in the sums only

  /// An empty store: all of them. Called about every ten seconds.
  void add(std::int64_t unix_seconds, BoxKind kind, const std::string& store, const Sample& sample);

  /// Lets go of what is too old to be shown, and of stores that have nothing else.
  void drop_old(std::int64_t unix_seconds);

  struct Chart {
    std::int64_t step_seconds;
    std::vector<std::int64_t> at;  ///< beginnings of the steps, the oldest first
    std::vector<std::optional<HistoryPoint>> points;
  };
  [[nodiscard]] Chart chart(std::int64_t unix_seconds, BoxKind kind, const std::string& store,
                            ChartSpan span) const;

  /// The points as bytes, and back. False: these bytes are damaged or of another version; nothing
  /// has changed.
  [[nodiscard]] std::string encode() const;
  bool decode(std::string_view bytes);

 private:
  struct Ring {
    std::map<std::int64_t, HistoryPoint> points = {};  ///< by number of the step
    std::int64_t step = -1;                            ///< that is under way
    std::int64_t started_at = 0;  ///< seconds: the first step started_at in its middle
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

/// Reads the file. One that cannot be used is put aside, as `….damaged`, with a warning. A file
/// that is not there is an empty history.
void load_history(History& history, const std::filesystem::path& file,
                  const Environment& environment);
/// Replaces the file in one step. Throws std::runtime_error that names it.
void save_history(const History& history, const std::filesystem::path& file);

}  // namespace twinbox::app
