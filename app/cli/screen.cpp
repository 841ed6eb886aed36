#include "cli/screen.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/exit_code.hpp"
#include "cli/text.hpp"

namespace twinbox::cli {
namespace {

constexpr int usual_width = 80;

const char* code_of(Style style) {
  switch (style) {
    case Style::plain: return "";
    case Style::faint: return "\x1b[2m";
    case Style::strong: return "\x1b[1m";
    case Style::good: return "\x1b[32m";
    case Style::warn: return "\x1b[33m";
    case Style::bad: return "\x1b[31m";
    case Style::accent: return "\x1b[36m";
  }
  return "";
}

int width_of(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return usual_width;
}

bool set_and_not_empty(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

TextStyle look_of(int descriptor, Screen::Colour colour) {
  const bool terminal = isatty(descriptor) == 1;
  const char* kind = std::getenv("TERM");
  const bool dumb = kind != nullptr && std::string_view{kind} == "dumb";
  const bool wanted =
      colour == Screen::Colour::always ||
      (colour == Screen::Colour::automatic && terminal && !dumb && !set_and_not_empty("NO_COLOR"));
  return {.colour = wanted, .width = terminal ? width_of(descriptor) : 0};
}

volatile std::sig_atomic_t interrupt_seen = 0;

void note_interrupt(int) { interrupt_seen = 1; }

}  // namespace

std::string TextStyle::paint(Style style, std::string_view text) const {
  if (!colour || style == Style::plain || text.empty()) return std::string{text};
  return code_of(style) + std::string{text} + "\x1b[0m";
}

Screen::Screen(Colour colour)
    : out_style_(look_of(STDOUT_FILENO, colour)),
      error_style_(look_of(STDERR_FILENO, colour)),
      error_is_terminal_(isatty(STDERR_FILENO) == 1) {}

void Screen::print(std::string_view text) const { std::cout << text << std::flush; }

void Screen::note(std::string_view text) const { std::cerr << text << std::flush; }

bool Screen::confirm(const std::string& question) const {
  if (isatty(STDIN_FILENO) != 1 || !error_is_terminal_) {
    throw CliError(
        exit_usage,
        question + " There is no terminal to confirm on; add --yes, or count first with --dry-run");
  }
  note(question + " [y/N] ");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

std::string progress_line(const TextStyle& look, std::string_view what, std::int64_t done,
                          std::int64_t total) {
  constexpr int longest_bar = 30;
  const std::string numbers = std::to_string(done) + " of " + std::to_string(total);
  const int width = look.width > 0 ? look.width : usual_width;
  const int room = width - display_width(what) - display_width(numbers) - 5;
  const int cells = std::clamp(room, 0, longest_bar);
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0)
                : 1.0;
  const int full = static_cast<int>(share * cells);
  std::string bar;
  for (int i = 0; i < full; ++i) bar += "━";
  std::string rest;
  for (int i = full; i < cells; ++i) rest += "─";
  return std::string{what} + "  " + look.paint(Style::accent, bar) +
         look.paint(Style::faint, rest) + "  " + numbers;
}

Progress::Progress(const Screen& screen, std::string what, std::int64_t total)
    : screen_(screen), what_(std::move(what)), total_(total) {}

Progress::~Progress() {
  if (drawn_ != std::chrono::steady_clock::time_point{}) screen_.note("\r\x1b[K");
}

void Progress::at(std::int64_t done) {
  using namespace std::chrono_literals;
  if (!screen_.error_is_terminal()) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < 50ms) return;
  drawn_ = now;
  screen_.note("\r\x1b[K" + progress_line(screen_.error_style(), what_, done, total_));
}

InterruptGuard::InterruptGuard() : before_(std::signal(SIGINT, note_interrupt)) {
  interrupt_seen = 0;
}

InterruptGuard::~InterruptGuard() { std::signal(SIGINT, before_); }

bool InterruptGuard::interrupted() noexcept { return interrupt_seen != 0; }

}  // namespace twinbox::cli
