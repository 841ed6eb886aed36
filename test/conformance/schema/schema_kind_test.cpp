// The tables of one kind of box are not opened as the other.
#include "support/outbox_test.hpp"
#include <twinbox/schema.hpp>

namespace twinbox::test {
namespace {

class SchemaKind : public OutboxTest {
 protected:
  BoxOptions named(bool deploy) {
    BoxOptions result = options();
    result.table = "letters";
    result.deploy_schema = deploy;
    return result;
  }

  template <class Box>
  void expect_refused() {
    for (const bool deploy : {true, false}) {
      SCOPED_TRACE(deploy);
      try {
        Box box(database(), named(deploy));
        ADD_FAILURE() << "was opened";
      } catch (const SchemaError& error) {
        for (const char* part : {"test store", "inbox", "outbox", "letters"}) {
          EXPECT_NE(std::string_view{error.what()}.find(part), std::string_view::npos)
              << part << ": " << error.what();
        }
      }
    }
  }

  std::string scripts() {
    return read("select count(*) from {schema}twinbox_schema where box = 'letters'");
  }
};

TEST_P(SchemaKind, an_inbox_is_not_opened_on_the_tables_of_an_outbox) {
  Outbox outbox(database(), named(true));
  const std::string before = scripts();
  expect_refused<Inbox>();
  EXPECT_EQ(scripts(), before);
  outbox.enqueue(a_message());
  EXPECT_EQ(outbox.claim(worker_a, 30s, 10).size(), 1u);
  EXPECT_NO_THROW(Outbox(database(), named(true)));
}

TEST_P(SchemaKind, an_outbox_is_not_opened_on_the_tables_of_an_inbox) {
  Inbox inbox(database(), named(true));
  const std::string before = scripts();
  expect_refused<Outbox>();
  EXPECT_EQ(scripts(), before);
  EXPECT_EQ(inbox.accept(an_arrival()).state, Acceptance::accepted);
  EXPECT_NO_THROW(Inbox(database(), named(false)));
}

TWINBOX_ON_EVERY_BACKEND(SchemaKind);

}  // namespace
}  // namespace twinbox::test
