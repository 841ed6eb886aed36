// Formats and parses times, ages and sizes, and makes text safe to print on a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <twinbox/work_queue.hpp>

namespace twinbox::cli {

/// The number of terminal cells that `text` takes.
int display_width(std::string_view text);

/// `text` on one line. Control characters, invalid UTF-8 and marks that change the writing
/// direction become `\xNN`, `\n`, `\t`, `\u{…}`, so no input can control the terminal.
std::string printable(std::string_view text);
/// As `printable`, but keeps newlines and tabs.
std::string printable_lines(std::string_view text);

/// At most `width` cells of printable text; the truncated rest becomes `…`.
std::string cut(std::string_view text, int width);
/// Cut and padded to exactly `width` cells.
std::string fit(std::string_view text, int width, bool right = false);

/// `2026-11-15T20:31:07.123456Z`, for programs. Times outside the years 0000 to 9999 become the
/// first or the last time that RFC 3339 can express.
std::string rfc3339(Instant instant);
/// True if `instant` is displayed as `never` or `always`: RFC 3339 cannot express a later or an
/// earlier one.
bool is_end_of_time(Instant instant);
/// `2026-11-15 20:31:07` in UTC, for display; `never`, `always`.
std::string date_text(Instant instant);
/// `5 min ago`, `in 3 s`; `never`, `always`.
std::string relative_text(Instant instant, Instant now);
/// `12 ms`, `3 s`, `4 min`, `2 h 5 min`, `3 d 4 h`.
std::string age_text(Duration age);
/// `512 B`, `1.5 KiB`, `3.0 MiB`.
std::string size_text(std::int64_t bytes);
/// `1 message`, `2 messages`.
std::string counted(std::int64_t count, std::string_view one, std::string_view many = {});

/// Parses `250ms`, `30s`, `5m`, `2h`, `7d`, or several in a row (`1h30m`). Throws
/// std::invalid_argument with `what` and the expected format.
Duration parse_duration(std::string_view what, std::string_view text);
/// Parses a date (`2026-11-15`), a date and time (`2026-11-15T20:31:07Z`, `+02:00`), or, if `now`
/// is given, a duration before it (`2h`). Throws std::invalid_argument with `what` and the expected
/// format.
Instant parse_instant(std::string_view what, std::string_view text, std::optional<Instant> now);

/// `text` as one word of a POSIX shell, quoted if needed.
std::string shell_word(std::string_view text);

/// The closest match for `word` in `known`; empty if none is close.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace twinbox::cli
