#include "end_to_end/concurrency/role.hpp"

#include <cstdlib>
#include <iostream>
#include <memory>
#include <poll.h>
#include <random>
#include <spawn.h>
#include <system_error>
#include <tuple>
#include <unistd.h>

#include "end_to_end/concurrency/act_log.hpp"
#include <twinbox/inbox.hpp>
#include <twinbox/outbox.hpp>
#if TWINBOX_SQLITE
#include "driver/sqlite/checkpoint.hpp"
#endif

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;

/// Short, so that what a killed worker held comes back soon.
constexpr Duration lease = 200ms;

BoxOptions box_options(const RoleOptions& options) {
  BoxOptions box;
  box.schema = options.schema;
  box.max_expiries = 0;
  return box;
}

std::string words(const Message& message) {
  return std::to_string(message.delivery_id.number()) + " " + std::to_string(message.epoch);
}

/// True once the supervisor has closed its end; waits a little for it.
bool told_to_end(std::chrono::milliseconds wait) {
  pollfd control{STDIN_FILENO, POLLIN, 0};
  return poll(&control, 1, static_cast<int>(wait.count())) > 0;
}

void tell_progress() {
  const char byte = 'c';
  if (write(progress_descriptor, &byte, 1) != 1) _exit(4);  // the supervisor is gone
}

class WorkerRole {
 public:
  explicit WorkerRole(const RoleOptions& options)
      : options_(options),
        log_(options.log),
        chance_(options.seed),
        database_(options.address, {}, {.log = [](const LogEvent&) {}}) {
    if (options.role == Role::inbox_worker) {
      inbox_ = std::make_unique<Inbox>(database_, box_options(options));
    } else {
      outbox_ = std::make_unique<Outbox>(database_, box_options(options));
    }
  }

  void run() {
    for (bool ending = false;;) {
      const std::vector<Message> messages = queue().claim(owner_, lease, 5);
      for (const Message& message : messages) note_claim(message);
      tell_progress();
      for (const Message& message : messages) handle(message);
      if (chance_() % 20 == 0) queue().reap();
      ending = ending || told_to_end(messages.empty() ? 5ms : 0ms);
      if (ending && messages.empty() && open_deliveries() == 0) return;
    }
  }

 private:
  WorkQueue& queue() {
    if (inbox_) return *inbox_;
    return *outbox_;
  }

  void note_claim(const Message& message) {
    const std::int64_t end = message.lease_until.time_since_epoch().count();
    log_.write(Line::claimed, words(message) + " " + std::to_string(end - lease.count()) + " " +
                                  std::to_string(end));
  }

  void handle(const Message& message) {
    if (chance_() % 4 == 0) std::ignore = queue().renew(owner_, message, lease);
    log_.write(Line::settling, words(message));
    const auto what = chance_() % 20;
    std::size_t changed = 0;
    if (what < 5) {
      changed = queue().abandon(owner_, message, "again", 1ms);
    } else if (what < 7) {
      changed = queue().release(owner_, message);
    } else if (what < 8) {
      changed = queue().fail(owner_, message, "never");
    } else {
      changed = queue().ack(owner_, message);
    }
    if (changed == 1 && what >= 7) log_.write(Line::finished, words(message));
  }

  std::int64_t open_deliveries() {
    const bool server = database_.dialect() != Dialect::sqlite;
    const std::string prefix = server ? "\"" + options_.schema + "\"." : "";
    std::int64_t count = 0;
    database_.in_transaction([&](Session& session) {
      session.execute("select count(*) from " + prefix + (inbox_ ? "inbox_work" : "outbox_work"),
                      {}, [&](const Row& row) { count = row.integer(0); });
    });
    return count;
  }

  RoleOptions options_;
  ActLog log_;
  std::mt19937_64 chance_;
  Database database_;
  std::unique_ptr<Inbox> inbox_;
  std::unique_ptr<Outbox> outbox_;
  OwnerToken owner_ = OwnerToken::make(database_.environment());
};

void enqueue_all(const RoleOptions& options) {
  const ActLog log(options.log);
  Database database(options.address);
  Outbox outbox(database, box_options(options));
  const std::string payload =
      options.role == Role::large_enqueuer ? std::string(256 * 1024, 'x') : "content";
  for (int i = 0; i < options.messages; ++i) {
    const MessageId id{"p" + std::to_string(options.seed) + "_" + std::to_string(i)};
    outbox.enqueue({.topic = Topic{"campaign"}, .payload = payload, .id = id});
    log.write(Line::enqueued, id.str());
    tell_progress();
  }
}

void enqueue_ledger(const RoleOptions& options) {
  constexpr int at_once = 4;
  const ActLog log(options.log);
  Database database(options.address);
  Outbox outbox(database, box_options(options));
  for (int i = 0; i < options.messages;) {
    std::vector<NewMessage> messages;
    for (; messages.size() < at_once && i < options.messages; ++i) {
      const MessageId id{"p" + std::to_string(options.seed) + "_" + std::to_string(i)};
      messages.push_back({.topic = Topic{"campaign"}, .payload = payload_of(id.str()), .id = id});
    }
    outbox.enqueue(messages);
    for (const NewMessage& message : messages) {
      log.write(Line::enqueued, message.id->str());
      tell_progress();
    }
  }
}

// Every producer sends the same ids: each id must be new to exactly one of them.
void accept_all(const RoleOptions& options) {
  const ActLog log(options.log);
  Database database(options.address);
  Inbox inbox(database, box_options(options));
  for (int i = 0; i < options.messages; ++i) {
    const MessageId id{"m" + std::to_string(i)};
    const Arrival arrival{Source{"shop"}, id, Topic{"campaign"}, "content"};
    if (!inbox.accept(arrival).duplicate()) log.write(Line::accepted, id.str());
    tell_progress();
  }
}

}  // namespace

std::string payload_of(const std::string& id) {
  std::mt19937_64 chance{std::hash<std::string>{}(id)};
  std::string payload(3072 + chance() % 1024, ' ');
  for (char& letter : payload) letter = static_cast<char>('a' + chance() % 26);
  return payload;
}

pid_t start_role(const RoleOptions& options, int control, int progress) {
  std::vector<std::string> arguments{"/proc/self/exe",
                                     "--role",
                                     std::to_string(static_cast<int>(options.role)),
                                     options.address,
                                     options.schema,
                                     options.log,
                                     std::to_string(options.seed),
                                     std::to_string(options.messages),
                                     std::to_string(options.log_pages)};
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, control, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, progress, progress_descriptor);
  pid_t process = 0;
  const int error = posix_spawn(&process, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), "posix_spawn");
  return process;
}

std::optional<RoleOptions> role_of(int count, char** words) {
  if (count != 9 || std::string_view{words[1]} != "--role") return std::nullopt;
  return RoleOptions{.role = static_cast<Role>(std::atoi(words[2])),
                     .address = words[3],
                     .schema = words[4],
                     .log = words[5],
                     .seed = std::strtoull(words[6], nullptr, 10),
                     .messages = std::atoi(words[7]),
                     .log_pages = std::atoi(words[8])};
}

int run_role(const RoleOptions& options) {
#if TWINBOX_SQLITE
  if (options.log_pages > 0) Checkpoints::every = options.log_pages;
#endif
  try {
    switch (options.role) {
      case Role::ledger_enqueuer: enqueue_ledger(options); break;
      case Role::enqueuer:
      case Role::large_enqueuer: enqueue_all(options); break;
      case Role::accepter: accept_all(options); break;
      case Role::outbox_worker:
      case Role::inbox_worker: WorkerRole(options).run(); break;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "role " << static_cast<int>(options.role) << ": " << error.what() << '\n';
    return 3;
  }
}

}  // namespace twinbox::test
