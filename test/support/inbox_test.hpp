// What the tests of the inbox share: a message as it stands, and other programs on the same store.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/backend.hpp"
#include "support/race.hpp"
#include <twinbox/operations.hpp>

namespace twinbox::test {

class InboxTest : public BoxTest {
 protected:
  /// The message with everything that is known about it; throws when it is unknown.
  MessageDetail detail(const MessageKey& key = a_key()) { return Admin{inbox()}.get(key).value(); }

  /// The only delivery of the message.
  DeliveryView delivery(const MessageKey& key = a_key()) {
    const MessageDetail found = detail(key);
    EXPECT_EQ(found.deliveries.size(), 1u);
    return found.deliveries.at(0);
  }

  std::string count_messages() { return read("select count(*) from {schema}inbox_message"); }

  /// Accepts the message and makes it done.
  void make_done(const Arrival& arrival = an_arrival()) {
    const auto claimed = inbox().accept_and_claim(arrival, worker_a, 30s);
    ASSERT_EQ(inbox().ack(worker_a, claimed.messages), 1u);
  }

  /// Accepts the message and makes it dead.
  void make_dead(const Arrival& arrival = an_arrival()) {
    const auto claimed = inbox().accept_and_claim(arrival, worker_a, 30s);
    ASSERT_EQ(inbox().fail(worker_a, claimed.messages, "boom"), 1u);
  }

  /// The inbox as another program has it: through a Database of its own, where the store allows it.
  Inbox& other_inbox(std::size_t number) {
    inbox();
    if (GetParam() == Backend::sqlite_memory) return inbox();
    while (others_.size() <= number) others_.push_back(std::make_unique<Other>(*this));
    return others_[number]->inbox;
  }

  /// From now on the database refuses to `operation` ("insert" or "update") a message of the topic
  /// `poison`.
  void refuse_poison(const std::string& operation) {
    inbox();
    if (on_sqlserver()) {
      write("create trigger {schema}refuse_" + operation + " on {schema}inbox_message after " +
            operation +
            " as if exists (select 1 from inserted where topic = 'poison') "
            "throw 50001, 'refused', 1");
      return;
    }
    if (!on_postgres()) {
      write(
          "create trigger refuse_" + operation + " before " + operation +
          " on inbox_message when new.topic = 'poison' begin select raise(abort, 'refused'); end");
      return;
    }
    write(
        "create or replace function {schema}refuse() returns trigger language plpgsql as "
        "$$begin raise exception 'refused'; end$$");
    write("create trigger refuse_" + operation + " before " + operation +
          " on {schema}inbox_message for each row when (new.topic = 'poison') "
          "execute function {schema}refuse()");
  }

 private:
  struct Other {
    explicit Other(InboxTest& test)
        : database(test.test_store().address(), {}, test.environment()),
          inbox(database, test.options()) {}

    Database database;
    Inbox inbox;
  };

  std::vector<std::unique_ptr<Other>> others_;
};

}  // namespace twinbox::test
