#include "cli/table.hpp"

#include <algorithm>
#include <numeric>

#include "cli/text.hpp"

namespace twinbox::cli {
namespace {

constexpr int gap = 2;

int total(const std::vector<int>& widths) {
  return std::accumulate(widths.begin(), widths.end(), 0) +
         gap * (static_cast<int>(widths.size()) - 1);
}

}  // namespace

std::vector<int> Table::natural_widths(const std::vector<std::size_t>& columns) const {
  std::vector<int> widths;
  for (const std::size_t column : columns) {
    int width = display_width(columns_[column].title);
    for (const auto& row : rows_)
      width = std::max(width, display_width(printable(row[column].text)));
    widths.push_back(width);
  }
  return widths;
}

Table::Plan Table::plan(int width) const {
  Plan plan;
  plan.columns.resize(columns_.size());
  std::iota(plan.columns.begin(), plan.columns.end(), std::size_t{0});
  for (;;) {
    plan.widths = natural_widths(plan.columns);
    if (width == 0 || total(plan.widths) <= width) return plan;
    // The widest column shrinks first, so that short ones are not truncated.
    while (total(plan.widths) > width) {
      std::size_t widest = plan.columns.size();
      for (std::size_t i = 0; i < plan.columns.size(); ++i) {
        const int least = columns_[plan.columns[i]].least;
        if (least == 0 || plan.widths[i] <= least) continue;
        if (widest == plan.columns.size() || plan.widths[i] > plan.widths[widest]) widest = i;
      }
      if (widest == plan.columns.size()) break;
      --plan.widths[widest];
    }
    if (total(plan.widths) <= width) return plan;
    const auto last = std::max_element(
        plan.columns.begin(), plan.columns.end(),
        [&](std::size_t a, std::size_t b) { return columns_[a].drop < columns_[b].drop; });
    if (last == plan.columns.end() || columns_[*last].drop == 0) return plan;
    plan.columns.erase(last);
  }
}

std::string Table::text(const TextStyle& look) const {
  const Plan plan = this->plan(look.width);
  std::string result;
  const auto line = [&](const auto& cell_of) {
    std::string text;
    for (std::size_t i = 0; i < plan.columns.size(); ++i) {
      const Cell& cell = cell_of(plan.columns[i]);
      const bool right = columns_[plan.columns[i]].right;
      const bool last = i + 1 == plan.columns.size();
      const std::string shown =
          last && !right ? cut(cell.text, plan.widths[i]) : fit(cell.text, plan.widths[i], right);
      if (i > 0) text += std::string(gap, ' ');
      text += look.paint(cell.style, shown);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    result += text + "\n";
  };
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title, Style::faint);
  line([&](std::size_t column) -> const Cell& { return titles[column]; });
  for (const auto& row : rows_)
    line([&](std::size_t column) -> const Cell& { return row[column]; });
  return result;
}

}  // namespace twinbox::cli
