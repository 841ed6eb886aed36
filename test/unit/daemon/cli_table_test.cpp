// Tables, colour and progress as they appear.
#include <sstream>

#include <gtest/gtest.h>

#include "cli/table.hpp"
#include "cli/text.hpp"

namespace twinbox::cli {
namespace {

Table a_table() {
  Table table({{"ID"}, {"TOPIC", false, 8}, {"TRIES", true}, {"ERROR", false, 10, 1}});
  table.add({"m-1", "order.placed", 3, {"connection refused by the warehouse", Style::bad}});
  table.add({"m-2", "order.cancelled.by.customer", 12, ""});
  return table;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(CliTable, shows_everything_where_the_width_has_no_limit) {
  EXPECT_EQ(a_table().text({}),
            "ID   TOPIC                        TRIES  ERROR\n"
            "m-1  order.placed                     3  connection refused by the warehouse\n"
            "m-2  order.cancelled.by.customer     12\n");
}

TEST(CliTable, cuts_the_widest_columns_first_and_fits) {
  EXPECT_EQ(a_table().text({.colour = false, .width = 48}),
            "ID   TOPIC              TRIES  ERROR\n"
            "m-1  order.placed           3  connection refus…\n"
            "m-2  order.cancelled.…     12\n");
  for (int width = 24; width < 90; ++width) {
    for (const std::string& line : lines_of(a_table().text({.colour = false, .width = width})))
      EXPECT_LE(display_width(line), width) << line;
  }
}

TEST(CliTable, leaves_a_column_out_where_there_is_no_room_for_it) {
  EXPECT_EQ(a_table().text({.colour = false, .width = 24}),
            "ID   TOPIC         TRIES\n"
            "m-1  order.placed      3\n"
            "m-2  order.cance…     12\n");
}

TEST(CliTable, colours_cells_without_moving_them) {
  const std::string plain = a_table().text({});
  std::string coloured = a_table().text({.colour = true});
  EXPECT_NE(coloured.find("\x1b[31mconnection refused by the warehouse\x1b[0m"), std::string::npos);
  for (std::size_t at = coloured.find('\x1b'); at != std::string::npos; at = coloured.find('\x1b'))
    coloured.erase(at, coloured.find('m', at) - at + 1);
  EXPECT_EQ(coloured, plain);
}

TEST(CliTable, shows_what_would_steer_a_terminal_as_text) {
  Table table({{"TOPIC"}});
  table.add({std::string{"evil\x1b]0;title\x07\nline"}});
  EXPECT_EQ(table.text({}), "TOPIC\nevil\\x1b]0;title\\x07\\nline\n");
}

TEST(CliProgress, fits_the_line_and_never_passes_its_end) {
  EXPECT_EQ(progress_line({.colour = false, .width = 40}, "requeue", 5, 10),
            "requeue  ━━━━━━━━━━───────────  5 of 10");
  for (int width = 20; width < 100; ++width) {
    const TextStyle look{.colour = false, .width = width};
    EXPECT_LE(display_width(progress_line(look, "requeue", 15, 10)), width);
  }
  EXPECT_NE(progress_line({}, "prune", 0, 0).find("0 of 0"), std::string::npos);
}

}  // namespace
}  // namespace twinbox::cli
