// How figures are shown: a table, JSON, a plot.
#pragma once

#include <span>
#include <string>

#include "measure.hpp"

namespace twinbox::bench {

std::string table(std::span<const Figure> figures);
std::string json(std::span<const Figure> figures);
/// An SVG that reads well on light and on dark pages: a line per question, a dot per backend.
std::string plot(std::span<const Figure> figures, const char* title);

/// `8.42`, `842`, `84 200`.
std::string number_text(double number);

}  // namespace twinbox::bench
