// Text as a person reads and writes it: times, ages, sizes, and what may be shown on a terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <twinbox/work_queue.hpp>

namespace twinbox::cli {

/// How many cells of a terminal `text` takes.
int display_width(std::string_view text);

/// `text` on one line, without anything that could steer a terminal: control characters, invalid
/// UTF-8 and marks that turn the writing direction become `\xNN`, `\n`, `\t`, `\u{…}`.
std::string printable(std::string_view text);
/// The same, but newlines and tabs stay.
std::string printable_lines(std::string_view text);

/// At most `width` cells of printable text; what is cut off becomes `…`.
std::string cut(std::string_view text, int width);
/// Cut and padded to exactly `width` cells.
std::string fit(std::string_view text, int width, bool right = false);

/// `2026-11-15T20:31:07.123456Z`, for programs; what lies beyond four digits of the year, the ends
/// of time among them, is the last or the first that can be written.
std::string rfc3339(Instant instant);
/// Whether people are told `never` or `always` instead of a date: rfc3339 can write no later or no
/// earlier one.
bool is_end_of_time(Instant instant);
/// `2026-11-15 20:31:07`, UTC, for people; `never`, `always`.
std::string date_text(Instant instant);
/// `5 min ago`, `in 3 s`; `never`, `always`.
std::string relative_text(Instant instant, Instant now);
/// `12 ms`, `3 s`, `4 min`, `2 h 5 min`, `3 d 4 h`.
std::string age_text(Duration age);
/// `512 B`, `1.5 KiB`, `3.0 MiB`.
std::string size_text(std::int64_t bytes);
/// `1 message`, `2 messages`.
std::string counted(std::int64_t count, std::string_view one, std::string_view many = {});

/// `250ms`, `30s`, `5m`, `2h`, `7d`, or several in a row (`1h30m`). Throws std::invalid_argument
/// that names `what` and says what is expected.
Duration parse_duration(std::string_view what, std::string_view text);
/// A date (`2026-11-15`), date and time (`2026-11-15T20:31:07Z`, `+02:00`), or, where there is
/// a `now`, a duration before it (`2h`). Throws std::invalid_argument that names `what` and says
/// what is expected.
Instant parse_instant(std::string_view what, std::string_view text, std::optional<Instant> now);

/// `text` as one word of a POSIX shell: quoted where it has to be.
std::string shell_word(std::string_view text);

/// The one of `known` that `word` was probably meant to be; empty: none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace twinbox::cli
