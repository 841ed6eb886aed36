// Standard output and standard error: colour, width, progress and confirmations.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace twinbox::cli {

enum class Style { plain, faint, strong, good, warn, bad, accent };

/// Width and colour of a stream.
struct TextStyle {
  bool colour = false;
  int width = 0;  ///< in cells; 0: without a limit, as in a pipe

  /// `text` in `style`, unchanged if colours are off.
  [[nodiscard]] std::string paint(Style style, std::string_view text) const;
};

class Screen {
 public:
  enum class Colour { automatic, always, never };

  /// Standard output and error. Colour: on a terminal, unless NO_COLOR is set or TERM is `dumb`.
  explicit Screen(Colour colour = Colour::automatic);

  [[nodiscard]] const TextStyle& look() const noexcept { return out_style_; }
  [[nodiscard]] const TextStyle& error_style() const noexcept { return error_style_; }
  [[nodiscard]] bool error_is_terminal() const noexcept { return error_is_terminal_; }

  void print(std::string_view text) const;
  /// Prints notes, which are not part of the result, to standard error.
  void note(std::string_view text) const;
  /// Asks on the terminal; true only for `y` or `yes`. Throws CliError without a terminal.
  [[nodiscard]] bool confirm(const std::string& question) const;

 private:
  TextStyle out_style_;
  TextStyle error_style_;
  bool error_is_terminal_;
};

/// A progress bar on standard error; prints nothing if that is not a terminal.
class Progress {
 public:
  Progress(const Screen& screen, std::string what, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void at(std::int64_t done);

 private:
  const Screen& screen_;
  std::string what_;
  std::int64_t total_;
  std::chrono::steady_clock::time_point drawn_ = {};
};

/// The line that Progress draws.
std::string progress_line(const TextStyle& look, std::string_view what, std::int64_t done,
                          std::int64_t total);

/// Records Ctrl-C instead of ending the process, so that long work stops between two batches.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  [[nodiscard]] static bool interrupted() noexcept;

 private:
  void (*before_)(int);
};

}  // namespace twinbox::cli
