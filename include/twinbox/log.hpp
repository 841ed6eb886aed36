// Log events as lines of text, for programs that have no logger of their own.
#pragma once

#include <string>
#include <string_view>

#include "twinbox/environment.hpp"

namespace twinbox {

/// Characters that have no shape of their own but change how the text around them is shown: DEL and
/// C1 controls, marks of direction and of no width, line and paragraph separators, tags.
bool is_hidden(char32_t code) noexcept;

/// debug, info, warning or error.
std::string_view to_string(LogLevel level) noexcept;

/// `event field=value field="value with blanks"`, without a line end: values that are empty or hold
/// a blank, a quotation mark, `=` or anything that a terminal could obey are JSON strings.
std::string log_text(const LogEvent& event);

/// For Environment::log: every event as one line on stderr, `twinbox: <level> <event> field=value
/// …`. Without a log of its own an Environment does this for warnings and errors.
void log_to_stderr(const LogEvent& event);

}  // namespace twinbox
