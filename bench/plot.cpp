#include <algorithm>
#include <cstdio>
#include <map>

#include "report.hpp"

namespace twinbox::bench {
namespace {

constexpr int width = 860;
constexpr int row_height = 19;
constexpr int top = 74;
constexpr int left = 306;   // where the ratio is 0
constexpr int right = 640;  // where it is `most`
constexpr double most = 1.5;

// Middle tones carry both kinds of page where the reader's wish is not known.
constexpr const char* style = R"(<style>
  text { font: 12px system-ui, sans-serif; fill: #6b7280; }
  .title { font-size: 15px; font-weight: 600; }
  .number { font-size: 11px; text-anchor: end; font-variant-numeric: tabular-nums; }
  .axis { stroke: #9ca3af; stroke-opacity: .35; }
  .target { stroke: #9ca3af; stroke-dasharray: 3 3; }
  .sqlite { fill: #0e9384; stroke: #0e9384; }
  .postgres { fill: #4f7cdb; stroke: #4f7cdb; }
  .number.sqlite, .number.postgres { stroke: none; }
  .spread { stroke-width: 2; stroke-opacity: .45; }
  @media (prefers-color-scheme: dark) {
    text { fill: #b6bdc8; }
    .sqlite { fill: #3cc7b5; stroke: #3cc7b5; }
    .postgres { fill: #86a9f5; stroke: #86a9f5; }
  }
  @media (prefers-color-scheme: light) {
    text { fill: #374151; }
  }
</style>
)";

void write(std::string& out, const char* text) { out += text; }

template <class... Values>
void write(std::string& out, const char* format, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  out += text;
}

double x_of(double ratio) { return left + (right - left) * std::clamp(ratio, 0.0, most) / most; }

std::string short_number(double number) {
  if (number < 1000) return number_text(number);
  char text[32];
  std::snprintf(text, sizeof text, number < 10'000 ? "%.1f k" : "%.0f k", number / 1000);
  return text;
}

void write_figure(std::string& out, const Figure& figure, int y) {
  const char* kind = figure.backend == "sqlite" ? "sqlite" : "postgres";
  const double half = figure.ratio * figure.spread / 2;
  const double x = x_of(figure.ratio);
  write(out, R"(<line class="spread %s" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>)", kind,
        x_of(figure.ratio - half), x_of(figure.ratio + half), y, y);
  write(out, R"(<line class="target" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>)", x_of(figure.target),
        x_of(figure.target), y - row_height / 2, y + row_height / 2);
  write(out, R"(<circle class="%s" cx="%.1f" cy="%d" r="4"/>)", kind, x, y);
  write(out, R"(<text class="number %s" x="%d" y="%d">%s</text>)", kind,
        figure.backend == "sqlite" ? right + 86 : right + 176, y + 4,
        (short_number(figure.value) + " " + figure.unit).c_str());
  out += '\n';
}

void write_frame(std::string& out, const char* title, int height) {
  write(out, R"(<text class="title" x="16" y="26">%s</text>)", title);
  write(out, R"(<text x="16" y="46">1.0: the raw ceiling; dashed: the target</text>)");
  write(out, R"(<text class="number sqlite" x="%d" y="46">SQLite</text>)", right + 86);
  write(out, R"(<text class="number postgres" x="%d" y="46">PostgreSQL</text>)", right + 176);
  out += '\n';
  for (const double ratio : {0.0, 0.5, 1.0, 1.5}) {
    write(out, R"(<line class="axis" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>)", x_of(ratio),
          x_of(ratio), top - 12, height - 14);
    write(out, R"(<text class="number" x="%.1f" y="%d">%.1f</text>)", x_of(ratio) + 8, top - 17,
          ratio);
  }
}

}  // namespace

std::string plot(std::span<const Figure> figures, const char* title) {
  std::map<std::string_view, int> rows;
  std::vector<std::string_view> names;
  for (const Figure& figure : figures) {
    // Where another target than the ceiling is meant, or none, the place on this axis would
    // mislead.
    if (figure.target != no_target && figure.target < 1 &&
        rows.emplace(figure.name, static_cast<int>(names.size())).second)
      names.push_back(figure.name);
  }
  const int height = top + row_height * static_cast<int>(names.size()) + 16;
  std::string out;
  write(out,
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" )"
        R"(role="img" aria-label="%s">)",
        width, height, width, height, title);
  out += '\n';
  out += style;
  write_frame(out, title, height);
  for (std::size_t i = 0; i < names.size(); ++i) {
    write(out, R"(<text x="16" y="%d">%.*s</text>)", top + row_height * static_cast<int>(i) + 4,
          static_cast<int>(names[i].size()), names[i].data());
    out += '\n';
  }
  for (const Figure& figure : figures) {
    const auto row = rows.find(figure.name);
    if (row != rows.end()) write_figure(out, figure, top + row_height * row->second);
  }
  return out + "</svg>\n";
}

}  // namespace twinbox::bench
