// The command show: one message with its deliveries and failed attempts.
#include "cli/filter.hpp"
#include "cli/find_message.hpp"
#include "cli/json.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"
#include "daemon/http/json.hpp"

namespace twinbox::cli {
namespace {

constexpr std::size_t shown_bytes = 2048;

struct ShowOptions {
  std::string id;
  std::optional<std::string> source;
  bool full = false;
  bool raw = false;
};

class DetailPrinter {
 public:
  DetailPrinter(const Screen& screen, Instant now) : screen_(screen), now_(now) {}

  void line(const char* name, const std::string& text) {
    if (!text.empty())
      screen_.print("  " + screen_.look().paint(Style::faint, fit(name, 14)) + text + "\n");
  }
  void text(const char* name, std::string_view value) { line(name, printable(value)); }
  void time(const char* name, const std::optional<Instant>& instant) {
    if (!instant) return;
    const std::string date = date_text(*instant);
    line(name, is_end_of_time(*instant) ? date : date + " UTC, " + relative_text(*instant, now_));
  }
  void heading(const std::string& text) {
    screen_.print("\n" + screen_.look().paint(Style::strong, text) + "\n");
  }

 private:
  const Screen& screen_;
  Instant now_;
};

std::string indented(const std::string& text) {
  std::string result = "  ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result + "\n";
}

/// The reason why a partition key is blocked.
std::string held_text(const HeldKey& held) {
  const std::string behind = (held.waiting == HeldKey::max_counted ? "at least " : "") +
                             counted(held.waiting, "message waits", "messages wait") + " behind it";
  return held.requeued ? "blocks its key until it is done: " + behind
                       : "blocked by this dead letter: " + behind + "; requeue or discard it";
}

/// A partition key that waits for a distant due time.
std::string blocked_text(const BlockedKey& blocked) {
  return (blocked.waiting == HeldKey::max_counted ? "at least " : "") +
         counted(blocked.waiting, "message waits", "messages wait") +
         " behind this due time; postpone it to an earlier time or discard it";
}

void print_message(DetailPrinter& details, const MessageDetail& detail, Instant now) {
  const MessageView& message = detail.message;
  details.text("id", message.id.view());
  details.text("source", message.source.view());
  if (message.topic) details.text("topic", message.topic->view());
  details.time("created", message.created_at);
  if (const auto open = app::open_for(detail, now)) details.line("open for", age_text(*open));
  if (message.seen_count > 1) {
    details.line("seen", counted(message.seen_count, "time"));
    details.time("last seen", message.last_seen_at);
  }
  details.time("due", message.due_at);
  details.time("expires", message.expires_at);
  if (message.correlation_id) details.text("correlation", message.correlation_id->view());
  if (message.partition_key) details.text("partition key", message.partition_key->view());
  for (const HeldKey& held : detail.held_keys) details.line("", held_text(held));
  for (const BlockedKey& blocked : detail.blocked_keys) details.line("", blocked_text(blocked));
  if (message.content_version > 1)
    details.line("content", "version " + std::to_string(message.content_version));
  if (detail.headers) details.text("headers", *detail.headers);
}

std::string when(const DeliveryView& delivery, Instant now) {
  const auto told = [&](const char* word, const std::optional<Instant>& instant) {
    return instant ? word + relative_text(*instant, now) : std::string{};
  };
  switch (delivery.state) {
    case DeliveryState::ready:
    case DeliveryState::scheduled: return told("due ", delivery.visible_at);
    case DeliveryState::leased: return told("lease ends ", delivery.lease_until);
    case DeliveryState::waiting: return "behind an earlier message with its key";
    default: return told("finished ", delivery.finished_at);
  }
}

void print_deliveries(const Screen& screen, DetailPrinter& details, const MessageDetail& detail,
                      Instant now) {
  if (detail.deliveries.empty()) return;
  details.heading("Deliveries");
  Table table({{"  HANDLER", false, 10},
               {"STATE"},
               {"ATTEMPTS", true},
               {"WHEN", false, 12},
               {"REASON", false, 10, 1}});
  for (const DeliveryView& delivery : detail.deliveries) {
    const std::string handler =
        delivery.key.handler.view().empty() ? "(by topic)" : delivery.key.handler.str();
    table.add({"  " + handler,
               {std::string{to_string(delivery.state)}, style_of(delivery.state)},
               std::to_string(delivery.attempts),
               when(delivery, now),
               {delivery.reason, Style::faint}});
  }
  screen.print(table.text(screen.look()));
}

void print_timeline(const Screen& screen, DetailPrinter& details, const MessageDetail& detail) {
  if (detail.timeline.empty()) return;
  details.heading("Failed attempts");
  Table table({{"  AT (UTC)"}, {"ATTEMPT", true}, {"HANDLER", false, 8, 1}, {"ERROR", false, 20}});
  for (const FailedAttempt& attempt : detail.timeline) {
    table.add({"  " + date_text(attempt.failed_at),
               std::to_string(attempt.attempt),
               attempt.handler.view().empty() ? "–" : attempt.handler.str(),
               {attempt.error, Style::bad}});
  }
  screen.print(table.text(screen.look()));
  if (detail.more_attempts) {
    screen.print(screen.look().paint(Style::faint, "  earlier attempts are not shown") + "\n");
  }
}

void print_payload(const Screen& screen, DetailPrinter& details, const MessageDetail& detail,
                   bool full) {
  if (!detail.message.has_content) {
    details.heading("No payload: the message was only marked as seen");
    return;
  }
  const std::string type = detail.message.content_type.value_or("");
  details.heading("Payload (" + (type.empty() ? "" : printable(type) + ", ") +
                  size_text(detail.message.size) + ")");
  if (detail.payload.empty()) return;
  std::string text = indented_json(detail.payload);
  if (text.empty()) text = is_text(detail.payload) ? detail.payload : std::string{};
  const bool binary = text.empty();
  const std::size_t limit = full ? SIZE_MAX : binary ? shown_bytes / 4 : shown_bytes;
  const std::size_t size = binary ? detail.payload.size() : text.size();
  if (binary)
    text = hex_dump(std::string_view{detail.payload}.substr(0, limit));
  else if (size > limit) {
    text.resize(limit);
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80)
      text.pop_back();
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0) text.pop_back();
  }
  while (text.ends_with('\n')) text.pop_back();
  screen.print(indented(printable_lines(text)));
  if (size > limit) {
    screen.print(
        screen.look().paint(Style::faint, "  … truncated; --full shows the whole payload") + "\n");
  }
}

int show(const CommonOptions& common, const ShowOptions& options, const Screen& screen) {
  OpenStore store(common);
  const auto found = find_message(store.boxes(), options.id, options.source);
  if (!found) throw CliError(exit_negative, unknown_message(options.id));
  const auto& [box, detail] = *found;
  if (options.raw) {
    screen.print(detail.payload);
    return exit_ok;
  }
  if (common.json) {
    boost::json::object answer{{"box", box.name()}};
    for (const auto& [key, value] : app::to_json(detail)) answer[key] = value;
    app::add_payload(answer, detail.payload, detail.payload.size());
    print_json(screen, answer);
    return exit_ok;
  }
  const Instant now = store.now();
  DetailPrinter details(screen, now);
  screen.print(screen.look().paint(
                   Style::strong,
                   "Message " + std::to_string(detail.message.number) + " of the " + box.name()) +
               "\n");
  print_message(details, detail, now);
  print_deliveries(screen, details, detail, now);
  print_timeline(screen, details, detail);
  print_payload(screen, details, detail, options.full);
  return exit_ok;
}

}  // namespace

Verb show_verb(CommonOptions& common) {
  auto options = std::make_shared<ShowOptions>();
  return {
      .name = "show",
      .group = "Inspect",
      .summary = "Show one message: payload, deliveries, failed attempts",
      .text =
          "JSON is indented, other text is printed unchanged, and binary payloads are printed in "
          "hexadecimal.",
      .options = with(
          {{"id", "ID", "Id of the message", &options->id, {}, true},
           {"--source", "SOURCE",
            "Source of the message, needed if several sources use the same id", &options->source},
           {"--full", "", "Print the whole payload", &options->full},
           {"--raw", "", "Print only the payload, byte for byte", &options->raw}},
          {box_options(common), store_options(common), answer_options(common)}),
      .examples = {{"twinbox show evt_1", "everything about one message"},
                   {"twinbox show evt_1 --raw > payload.bin", "only its payload"}},
      .run = [&common, options](const Screen& screen) { return show(common, *options, screen); }};
}

}  // namespace twinbox::cli
