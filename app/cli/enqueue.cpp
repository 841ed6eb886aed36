// The commands enqueue and accept.
#include "cli/json.hpp"
#include "cli/open_store.hpp"
#include "cli/payload.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"

namespace twinbox::cli {
namespace {

struct MessageFields {
  PayloadOptions payload;
  std::optional<std::string> correlation, partition_key, due, delay, expires, content_type, headers;

  std::vector<Option> options() {
    return with(
        payload.options(),
        {{{"--content-type", "TYPE", "Content type, such as application/json", &content_type},
          {"--headers", "JSON", "Headers as a JSON object", &headers},
          {"--correlation", "ID", "Correlation id of messages that belong together", &correlation},
          {"--partition-key", "KEY",
           "Partition key: messages with the same key are delivered in order", &partition_key},
          {"--delay", "DURATION", "Deliver no earlier than this long from now, such as 10m",
           &delay},
          {"--due", "TIME", "Deliver no earlier than this time, such as 2026-11-15T20:00:00Z",
           &due},
          {"--expires", "DURATION", "Dead-letter the message if it is not handled within this time",
           &expires}}});
  }

  [[nodiscard]] MessageExtras read(OpenStore& store) const {
    if (due && delay) throw CliError(exit_usage, "--due and --delay are both given; leave one out");
    MessageExtras extras;
    if (correlation) extras.correlation_id = CorrelationId{*correlation};
    if (partition_key) extras.partition_key = PartitionKey{*partition_key};
    if (delay) extras.delay = parse_duration("--delay", *delay);
    if (due) extras.due_at = parse_instant("--due", *due, {});
    if (expires) extras.expires_at = store.now() + parse_duration("--expires", *expires);
    extras.content_type = content_type;
    extras.headers = headers;
    return extras;
  }
};

struct EnqueueOptions {
  std::string topic;
  std::optional<std::string> id, source;
  MessageFields extras;
};

struct AcceptOptions {
  std::string source, topic, id;
  std::vector<std::string> handlers;
  MessageFields extras;
};

int enqueue(const CommonOptions& common, const EnqueueOptions& options, const Screen& screen) {
  OpenStore store(common);
  Outbox& outbox = store.outbox();
  NewMessage message{.topic = Topic{options.topic}, .payload = options.extras.payload.read()};
  if (options.id) message.id = MessageId{*options.id};
  if (options.source) message.source = Source{*options.source};
  message.extras = options.extras.read(store);
  const Enqueued enqueued = outbox.enqueue(message);
  if (common.json) {
    print_json(screen, {{"id", enqueued.id.view()},
                        {"duplicate", enqueued.duplicate},
                        {"conflict", enqueued.conflict}});
  } else {
    screen.print(printable(enqueued.id.view()) + "\n");
    if (enqueued.conflict) {
      screen.note(
          "enqueue: this id was already used with another topic or payload; nothing was stored. "
          "Use a new id for new content\n");
    } else if (enqueued.duplicate) {
      screen.note("enqueue: this id was already used with the same content; nothing was stored\n");
    }
  }
  return exit_ok;
}

const char* words_for(Acceptance acceptance) {
  switch (acceptance) {
    case Acceptance::accepted: return "accepted";
    case Acceptance::duplicate_open: return "duplicate of an open message";
    case Acceptance::duplicate_done: return "duplicate of a finished message";
    case Acceptance::duplicate_dead: return "duplicate of a dead message";
  }
  return "unknown";
}

int accept(const CommonOptions& common, const AcceptOptions& options, const Screen& screen) {
  OpenStore store(common);
  Inbox& inbox = store.inbox();
  Arrival arrival{.source = Source{options.source},
                  .id = MessageId{options.id},
                  .topic = Topic{options.topic},
                  .payload = options.extras.payload.read()};
  arrival.extras = options.extras.read(store);
  arrival.extras.hash = ContentHash::of(arrival.payload);
  std::vector<HandlerName> handlers;
  for (const std::string& key : options.handlers) handlers.push_back({HandlerKey{key}});
  const Accepted accepted =
      handlers.empty() ? inbox.accept(arrival) : inbox.accept(arrival, handlers);
  if (common.json) {
    print_json(screen, {{"state", to_string(accepted.state)},
                        {"duplicate", accepted.duplicate()},
                        {"conflict", accepted.conflict}});
    return exit_ok;
  }
  screen.print(std::string{words_for(accepted.state)} +
               (accepted.conflict ? ", but with different content" : "") + "\n");
  return exit_ok;
}

}  // namespace

Verb enqueue_verb(CommonOptions& common) {
  auto options = std::make_shared<EnqueueOptions>();
  return {.name = "enqueue",
          .group = "Send",
          .summary = "Add a message to the outbox and print its id",
          .text =
              "The payload comes from --payload, --file or standard input. Give an --id of your "
              "own to retry safely: a second enqueue with the same id stores nothing.",
          .options =
              with({{"topic", "TOPIC", "Topic of the message", &options->topic, {}, true},
                    {"--id", "ID", "Id of the message (default: a new UUID)", &options->id},
                    {"--source", "SOURCE", "Source of the message (default: -)", &options->source}},
                   {options->extras.options(), store_options(common), answer_options(common)}),
          .examples = {{"twinbox enqueue order.placed --payload '{\"order\":7}'",
                        "a message that is due at once"},
                       {"curl -s https://example.com/feed | twinbox enqueue feed.read --delay 10m",
                        "from standard input, due in ten minutes"}},
          .run = [&common, options](const Screen& screen) {
            return enqueue(common, *options, screen);
          }};
}

Verb accept_verb(CommonOptions& common) {
  auto options = std::make_shared<AcceptOptions>();
  return {
      .name = "accept",
      .group = "Send",
      .summary = "Add a message from another system to the inbox, once",
      .text = "A duplicate is not an error: the answer shows the state of the first message.",
      .options =
          with({{"source", "SOURCE", "System that sent the message", &options->source, {}, true},
                {"topic", "TOPIC", "Topic of the message", &options->topic, {}, true},
                {"--id",
                 "ID",
                 "Id that stays the same when the message is sent again",
                 &options->id,
                 {},
                 true},
                {"--handler", "KEY",
                 "Create a delivery for this handler; repeat the option for several handlers",
                 &options->handlers}},
               {options->extras.options(), store_options(common), answer_options(common)}),
      .examples = {{"twinbox accept stripe payment.received --id evt_1 --file event.json",
                    "a second time, this reports a duplicate"}},
      .run = [&common, options](const Screen& screen) { return accept(common, *options, screen); }};
}

}  // namespace twinbox::cli
