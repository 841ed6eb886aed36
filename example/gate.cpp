// A consumer that Twinbox does not call, here the callback of some broker's client, handles each
// message at most once.
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

#include <twinbox/inbox.hpp>

namespace {

using namespace twinbox;

void expect(bool holds, const std::string& what) {
  std::cout << (holds ? "ok      " : "FAILED  ") << what << "\n";
  if (!holds) std::exit(1);
}

bool throws(const auto& call) {
  try {
    call();
    return false;
  } catch (const std::runtime_error&) {
    return true;
  }
}

}  // namespace

int main() {
  Database database{"sqlite::memory:"};
  Inbox inbox{database, {.deploy_schema = true}};
  const auto key = [](const char* id) { return MessageKey{Source{"shop"}, MessageId{id}}; };
  int mails = 0;
  const auto send_mail = [&] { ++mails; };
  const auto broken = [] { throw std::runtime_error("mail server is down"); };

  AtMostOnce gate{inbox, {.handler = HandlerKey{"mail"}}};
  expect(gate.run(key("order-1"), send_mail), "the first delivery is handled");
  expect(!gate.run(key("order-1"), send_mail) && mails == 1, "a redelivery is not");

  expect(throws([&] { gate.run(key("order-2"), broken); }), "an exception reaches the broker");
  expect(!gate.run(key("order-2"), send_mail), "by default the message is not handled again");

  AtMostOnce retrying{inbox, {.handler = HandlerKey{"sms"}, .release_claim_on_error = true}};
  expect(throws([&] { retrying.run(key("order-3"), broken); }), "with release_claim_on_error");
  expect(retrying.run(key("order-3"), send_mail), "the redelivery is handled");

  // The claim and your own writes in one transaction: both happen, or neither.
  AtMostOnce ledger{inbox, {.handler = HandlerKey{"ledger"}}};
  database.in_transaction([&](Session& session) {
    session.execute("create table entry (total integer)");
    ledger.run(session, key("order-4"),
               [&] { session.execute("insert into entry values (1999)"); });
  });
  expect(!ledger.run(key("order-4"), send_mail), "the claim has been committed with the entry");
}
