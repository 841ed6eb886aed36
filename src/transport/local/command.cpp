#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

#include "core/text.hpp"
#include "transport/local/process.hpp"
#include "twinbox/event.hpp"
#include "twinbox/sink.hpp"

namespace twinbox {
namespace {

// Variables that a program needs; the secrets of this process are not among them.
constexpr const char* inherited_variables[] = {"PATH", "HOME",   "LANG", "LC_ALL",
                                               "TZ",   "TMPDIR", "USER"};

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument("command sink: " + why);
}

bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

void check_variable(const std::string& name, const std::string& value) {
  if (name.empty() || name.find('=') != std::string::npos || has_nul(name) || has_nul(value)) {
    refuse("variable '" + name + "' cannot be set: a name has no '=', and no text has a NUL");
  }
  if (name.starts_with("TWINBOX_")) {
    refuse("variable '" + name + "': names that begin with TWINBOX_ belong to the message");
  }
}

CommandSinkOptions checked(CommandSinkOptions options) {
  if (options.command.empty() || options.command[0].empty()) {
    refuse("command is empty; it needs a program, as in [\"/usr/bin/logger\", \"-t\", \"orders\"]");
  }
  if (std::ranges::any_of(options.command, has_nul)) refuse("command holds a NUL character");
  if (has_nul(options.directory)) refuse("directory holds a NUL character");
  if (options.timeout <= Duration::zero()) refuse("timeout must be longer than zero");
  if (options.kill_after < Duration::zero()) refuse("kill_after must not be negative");
  for (const auto& [name, value] : options.variables) check_variable(name, value);
  for (const int code : options.dead_on) {
    if (code >= 1 && code <= 255) continue;
    refuse("dead_on holds " + std::to_string(code) + ", 1 to 255 are allowed");
  }
  return options;
}

std::vector<std::string> base_environment(const CommandSinkOptions& options) {
  std::vector<std::string> all;
  for (const auto& [name, value] : options.variables) all.push_back(name + "=" + value);
  for (const char* name : inherited_variables) {
    const char* value = std::getenv(name);
    const bool given = std::ranges::any_of(
        options.variables, [&](const auto& variable) { return variable.first == name; });
    if (value != nullptr && !given) all.push_back(std::string{name} + "=" + value);
  }
  return all;
}

void add_attributes(std::vector<std::string>& all, const Message& message) {
  const auto add = [&](const std::string& name, std::string_view value) {
    all.push_back("TWINBOX_" + name + "=" + std::string{value});
  };
  add("ID", message.id.view());
  add("SOURCE", message.source.view());
  add("TOPIC", message.topic.view());
  add("ATTEMPT", std::to_string(std::int64_t{message.attempts} + 1));
  add("CREATED_AT", Timestamp{message.created_at}.str());
  if (message.content_type) add("CONTENT_TYPE", *message.content_type);
  if (message.correlation_id) add("CORRELATION_ID", message.correlation_id->view());
  if (message.partition_key) add("PARTITION_KEY", message.partition_key->view());
  if (message.headers) add("HEADERS", *message.headers);
  std::optional<TraceContext> trace = current_trace();
  if (!trace) trace = trace_of(message);
  if (trace) add("TRACEPARENT", trace->traceparent());
}

class CommandSink {
 public:
  explicit CommandSink(CommandSinkOptions options)
      : options_(checked(std::move(options))), variables_(base_environment(options_)) {}

  Outcome operator()(const Message& message, const std::stop_token& stop) const {
    ProcessOptions process{options_.command, variables_, options_.directory, options_.timeout,
                           options_.kill_after};
    add_attributes(process.variables, message);
    try {
      return outcome_of(run_process(process, message.payload, stop));
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::argument_list_too_long) throw;
      return Outcome::dead(named() +
                           " cannot be run: the message's attributes do not fit into an "
                           "environment");
    }
  }

 private:
  [[nodiscard]] std::string named() const { return "'" + options_.command[0] + "'"; }

  [[nodiscard]] Outcome outcome_of(const ProcessResult& end) const {
    const bool exited = end.kind == ProcessResult::Kind::exited;
    if (exited && end.code == 0) return Outcome::done();
    std::string error = named() + " " + describe(end);
    if (!is_blank(end.error)) error += ": " + end.error;
    error = truncate_error(error);
    if (!exited) return Outcome::retry(std::move(error));
    const LogCause cause{"exit", end.code};
    if (options_.dead_on.contains(end.code)) return Outcome::dead(std::move(error), cause);
    return Outcome::retry(std::move(error), {}, cause);
  }

  [[nodiscard]] std::string describe(const ProcessResult& end) const {
    switch (end.kind) {
      case ProcessResult::Kind::exited: return "exited with " + std::to_string(end.code);
      case ProcessResult::Kind::signalled: return "was ended by signal " + std::to_string(end.code);
      case ProcessResult::Kind::stopped: return "was stopped";
      case ProcessResult::Kind::timed_out: break;
    }
    const auto limit =
        std::chrono::duration_cast<std::chrono::milliseconds>(options_.timeout).count();
    return "ran past its timeout of " + std::to_string(limit) + " ms";
  }

  CommandSinkOptions options_;
  std::vector<std::string> variables_;
};

}  // namespace

MessageHandler command_sink(CommandSinkOptions options) {
  // Shared by the copies that are made of a handler.
  const auto sink = std::make_shared<const CommandSink>(std::move(options));
  return [sink](const Message& message, const std::stop_token& stop) {
    return (*sink)(message, stop);
  };
}

}  // namespace twinbox
