// The whole story on one SQLite file: an order and its message in one transaction, a webhook that
// comes twice, a handler that fails and is retried, a dead letter that a person sends again.
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <unistd.h>

#include <twinbox/dispatcher.hpp>
#include <twinbox/inbox.hpp>
#include <twinbox/operations.hpp>
#include <twinbox/outbox.hpp>

namespace {

using namespace twinbox;
using namespace std::chrono_literals;

/// The tour's own clock: waiting for a retry takes no time.
Instant tour_now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());

void title(const std::string& text) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  std::cout << "\n" << (terminal ? "\033[1m" : "") << text << (terminal ? "\033[0m" : "") << "\n";
}
void say(const std::string& text) { std::cout << "  " << text << "\n"; }

std::string read(Database& database, const std::string& sql) {
  std::string value;
  database.in_transaction([&](Session& session) {
    session.execute(sql, {}, [&](const Row& row) { value = row.text(0); });
  });
  return value;
}

void place_order(Database& database, Outbox& outbox, int id, bool card_declined) {
  database.in_transaction([&](Session& session) {
    session.execute("insert into orders values (@id, 1999)", {{"id", id}});
    outbox.enqueue(session, {.topic = Topic{"order.placed"},
                             .payload = "{\"order\":" + std::to_string(id) + "}"});
    if (card_declined) throw std::runtime_error("card declined");
  });
}

/// Handles what is due and says what became of it. Returns how many messages there were.
template <class Handler>
std::size_t work_once(WorkQueue& queue, const Topic& topic, Handler handle) {
  Handlers handlers;
  handlers.on(topic, handle);
  DispatchObserver observer;
  observer.handled = [](std::string_view, const Message& message, const Outcome& outcome,
                        Duration) {
    const std::string attempt = ", attempt " + std::to_string(message.attempts + 1);
    say(outcome.kind() == Outcome::Kind::done
            ? "handled    " + message.topic.str() + " " + message.payload
            : "failed     " + message.topic.str() + attempt + ": " + outcome.reason());
  };
  return Dispatcher{queue, handlers, {}, observer}.drain();
}

void tour(const std::string& file) {
  Environment environment;
  environment.clock = [] { return tour_now; };
  Database database{"sqlite:" + file, {}, environment};
  BoxOptions options{.deploy_schema = true};
  options.retry.max_attempts = 3;
  Outbox outbox{database, options};
  Inbox inbox{database, options};

  title("1. An order and its message are one transaction");
  database.in_transaction([](Session& session) {
    session.execute("create table orders (id integer primary key, total integer)");
  });
  place_order(database, outbox, 7, false);
  say("order 7 committed: " + read(database, "select count(*) from orders") + " order, " +
      read(database, "select count(*) from outbox") + " message");
  try {
    place_order(database, outbox, 8, true);
  } catch (const std::runtime_error& error) {
    say("order 8 rolled back (" + std::string{error.what()} + "): still " +
        read(database, "select count(*) from orders") + " order, " +
        read(database, "select count(*) from outbox") + " message");
  }
  work_once(outbox, Topic{"order.placed"}, [](const Message&) {});

  title("2. A webhook arrives twice and is handled once");
  const Arrival webhook{Source{"stripe"}, MessageId{"evt_1"}, Topic{"payment.received"},
                        "{\"order\":7}"};
  say("delivery 1: " + std::string{to_string(inbox.accept(webhook).state)});
  work_once(inbox, webhook.topic, [](const Message&) {});
  say("delivery 2: " + std::string{to_string(inbox.accept(webhook).state)} + ", nothing to do");
  if (work_once(inbox, webhook.topic, [](const Message&) {}) != 0)
    throw std::logic_error("handled twice");

  title("3. A handler fails, and is tried again later and later");
  outbox.enqueue({.topic = Topic{"mail.send"}, .payload = "{\"to\":\"ann@example.com\"}"});
  const Instant begin = tour_now;
  int tries = 0;
  const auto mail = [&](const Message&) {
    if (++tries < 3) throw std::runtime_error("mail server is busy");
  };
  while (tries < 3) {
    if (work_once(outbox, Topic{"mail.send"}, mail) == 0) tour_now += 1s;
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(tour_now - begin).count();
  say("three tries within " + std::to_string(seconds) +
      " s of the tour's clock: 2 s later, then 4 s later");

  title("4. What cannot succeed is kept, and a person sends it again");
  outbox.enqueue({.topic = Topic{"invoice.print"}, .payload = "{\"order\":7}"});
  Admin admin{outbox};
  const auto jammed = [](const Message&) { throw std::runtime_error("printer 3 is jammed"); };
  while (admin.counts().all.dead == 0) {
    if (work_once(outbox, Topic{"invoice.print"}, jammed) == 0) tour_now += 1s;
  }
  for (const DeadGroup& group : admin.dead_groups().groups) {
    say("dead letters: " + std::to_string(group.count) + " × " + group.topic + ", \"" +
        group.error + "\"");
  }
  say("requeued: " +
      std::to_string(admin.requeue(Filter{}, {}, {.actor = "you", .reason = "paper removed"})));
  work_once(outbox, Topic{"invoice.print"}, [](const Message&) {});

  const Counts counts = admin.counts(true);
  title("The end");
  say(std::to_string(counts.all.done) + " messages done, " + std::to_string(counts.all.open()) +
      " open, " + std::to_string(counts.all.dead) + " dead. Look around:  sqlite3 " + file +
      " 'select * from outbox'");
}

}  // namespace

int main(int count, char** arguments) {
  const std::string file =
      count > 1 ? arguments[1] : std::filesystem::temp_directory_path() / "twinbox-tour.db";
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file + suffix);
  try {
    tour(file);
  } catch (const std::exception& error) {
    std::cerr << "tour: " << error.what() << "\n";
    return 1;
  }
}
