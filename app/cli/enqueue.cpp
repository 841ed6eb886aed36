// enqueue and accept: a message of the command line's own.
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
    return with(payload.options(),
                {{{"--content-type", "TYPE", "such as application/json", &content_type},
                  {"--headers", "JSON", "a JSON object", &headers},
                  {"--correlation", "ID", "ties messages of one story together", &correlation},
                  {"--partition-key", "KEY", "same key: one after the other", &partition_key},
                  {"--delay", "DURATION", "due after so long, such as 10m", &delay},
                  {"--due", "TIME", "due at, such as 2026-11-15T20:00:00Z", &due},
                  {"--expires", "DURATION", "dead unless done after so long", &expires}}});
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
          "enqueue: the id is known with another topic or payload, which stay; give other "
          "content an id of its own\n");
    } else if (enqueued.duplicate) {
      screen.note("enqueue: the id is known with the same content; nothing was stored\n");
    }
  }
  return exit_ok;
}

const char* words_for(Acceptance acceptance) {
  switch (acceptance) {
    case Acceptance::accepted: return "accepted";
    case Acceptance::duplicate_open: return "known, and still open";
    case Acceptance::duplicate_done: return "known, and done";
    case Acceptance::duplicate_dead: return "known, and dead";
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
               (accepted.conflict ? ", with other content than before" : "") + "\n");
  return exit_ok;
}

}  // namespace

Verb enqueue_verb(CommonOptions& common) {
  auto options = std::make_shared<EnqueueOptions>();
  return {
      .name = "enqueue",
      .group = "Send",
      .summary = "puts a message into the outbox and prints its id",
      .text =
          "The payload is --payload, --file, or standard input. To repeat an enqueue whose fate is "
          "not known, give an --id of your own: there will not be two.",
      .options =
          with({{"topic", "TOPIC", "what the message is about", &options->topic, {}, true},
                {"--id", "ID", "of your own (default: a new UUID)", &options->id},
                {"--source", "SOURCE", "where it comes from (default: -)", &options->source}},
               {options->extras.options(), store_options(common), answer_options(common)}),
      .examples = {{"twinbox enqueue order.placed --payload '{\"order\":7}'", "a message for now"},
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
      .summary = "puts a message from elsewhere into the inbox, once",
      .text = "A message that is known already is no error: the answer says how far it is.",
      .options = with({{"source", "SOURCE", "the system it came from", &options->source, {}, true},
                       {"topic", "TOPIC", "what the message is about", &options->topic, {}, true},
                       {"--id",
                        "ID",
                        "what makes it the same message when it arrives again",
                        &options->id,
                        {},
                        true},
                       {"--handler", "KEY", "a delivery for this handler; may be repeated",
                        &options->handlers}},
                      {options->extras.options(), store_options(common), answer_options(common)}),
      .examples = {{"twinbox accept stripe payment.received --id evt_1 --file event.json",
                    "again, and it says that it is known"}},
      .run = [&common, options](const Screen& screen) { return accept(common, *options, screen); }};
}

}  // namespace twinbox::cli
