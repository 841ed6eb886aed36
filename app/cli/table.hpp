// Rows and columns that fit the terminal.
#pragma once

#include <string>
#include <vector>

#include "cli/screen.hpp"

namespace twinbox::cli {

struct Column {
  std::string title;
  bool right = false;  ///< numbers
  int least = 0;       ///< may be cut to so many cells; 0: is shown whole
  int drop = 0;        ///< left out where there is no room, the highest number first; 0: never
};

struct Cell {
  Cell(std::string cell_text, Style cell_style = Style::plain)  // NOLINT: a row is written in place
      : text(std::move(cell_text)), style(cell_style) {}
  Cell(const char* cell_text) : text(cell_text) {}             // NOLINT
  Cell(std::int64_t number) : text(std::to_string(number)) {}  // NOLINT

  std::string text;
  Style style = Style::plain;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as there are columns.
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
  /// Title line and rows, each with a newline. No line is wider than `look.width`, unless the
  /// minimum widths do not fit.
  [[nodiscard]] std::string text(const TextStyle& look) const;

 private:
  struct Plan {
    std::vector<std::size_t> columns;
    std::vector<int> widths;
  };
  [[nodiscard]] Plan plan(int width) const;
  [[nodiscard]] std::vector<int> natural_widths(const std::vector<std::size_t>& columns) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace twinbox::cli
