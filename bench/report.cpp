#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/json.hpp"

namespace twinbox::bench {
namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

std::string number_text(double number) {
  if (number < 100) return formatted(number < 10 ? "%.2f" : "%.1f", number);
  std::string text = formatted("%.0f", number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, " ");
  return text;
}

std::string table(std::span<const Figure> figures) {
  std::size_t width = 44;
  std::size_t asked = 0;
  std::size_t reached = 0;
  for (const Figure& figure : figures) {
    width = std::max(width, figure.name.size());
    asked += figure.target != no_target;
    reached += figure.target != no_target && figure.reached();
  }
  const auto column = static_cast<int>(width);
  std::string text =
      formatted("%-9s  %-*s %10s %10s  %-6s %6s %7s %7s\n", "backend", column, "question",
                "twinbox", "ceiling", "unit", "ratio", "target", "spread");
  for (const Figure& figure : figures) {
    const std::string target = figure.target == no_target ? "-" : formatted("%.2f", figure.target);
    text += formatted("%-9s  %-*s %10s %10s  %-6s %6.2f %7s %6.0f%%%s\n", figure.backend.c_str(),
                      column, figure.name.c_str(), number_text(figure.value).c_str(),
                      number_text(figure.ceiling).c_str(), figure.unit.c_str(), figure.ratio,
                      target.c_str(), figure.spread * 100, figure.reached() ? "" : "  below");
  }
  return text + formatted("%zu of %zu targets reached\n", reached, asked);
}

std::string json(std::span<const Figure> figures) {
  std::string text = "[";
  const char* separator = "\n  ";
  for (const Figure& figure : figures) {
    text += std::exchange(separator, ",\n  ");
    text += "{\"name\": ";
    append_json_string(text, figure.name);
    text += ", \"backend\": ";
    append_json_string(text, figure.backend);
    text += ", \"unit\": ";
    append_json_string(text, figure.unit);
    text += formatted(
        ", \"value\": %.6g, \"ceiling\": %.6g, \"ratio\": %.4f, \"spread\": %.4f, \"target\": %g}",
        figure.value, figure.ceiling, figure.ratio, figure.spread, figure.target);
  }
  return text + "\n]\n";
}

}  // namespace twinbox::bench
