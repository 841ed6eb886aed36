// Sinks as a configuration describes them, called without a dispatcher.
#include "daemon/dispatch/sinks.hpp"

#include <gtest/gtest.h>

#include "daemon/config/secrets.hpp"
#include "unit/transport/a_message.hpp"
#include <twinbox/error.hpp>

namespace twinbox::app {
namespace {

/// The sink `out` of a configuration; messages come from the outbox of its first store.
class Sinks {
 public:
  explicit Sinks(const std::string& text) : config_(parse_config(text, "t", {})) {}

  HandlerCall out() { return factory_.make("out", BoxKind::outbox, {stores_.all()[0].store}); }
  Store& store(std::string_view name) { return *stores_.find(name, BoxKind::inbox); }

 private:
  Config config_;
  Stores stores_{config_, {}};
  SinkFactory factory_{config_, stores_, {}};
};

TEST(Sink, of_an_inbox_throws_without_a_secret_and_keeps_the_kind_of_the_error) {
  remember_secret("abcd1234");
  Sinks sinks{
      "[access]\ntoken_file = \"t\"\n[store.main]\nurl = \"sqlite:/nowhere/abcd1234/x.db\"\n"
      "[store.other]\nurl = \"sqlite::memory:\"\n[sink.out]\ntype = \"inbox\"\nstore = \"main\"\n"};
  const auto error_of = [](const auto& call) {
    try {
      call();
    } catch (const DatabaseError& error) {
      return error;
    }
    throw std::logic_error("there is no such folder");
  };
  const auto call = std::get<TransactionalHandler>(sinks.out());
  sinks.store("other").database().in_transaction([&](Session& session) {
    const DatabaseError plain = error_of([&] { sinks.store("main").inbox(); });
    const DatabaseError masked = error_of([&] { call(session, test::claimed(), {}); });
    EXPECT_NE(std::string{plain.what()}.find("abcd1234"), std::string::npos) << plain.what();
    EXPECT_EQ(std::string{masked.what()}.find("abcd1234"), std::string::npos) << masked.what();
    EXPECT_NE(std::string{masked.what()}.find("[secret]"), std::string::npos) << masked.what();
    EXPECT_EQ(masked.kind(), plain.kind());
    EXPECT_EQ(masked.native_code(), plain.native_code());
  });
}

TEST(Sink, of_a_command_makes_no_exit_code_dead_at_once_where_the_list_is_empty) {
  const std::string command =
      "[store.main]\nurl = \"sqlite::memory:\"\n[sink.out]\ntype = \"command\"\n"
      "command = [\"/bin/sh\", \"-c\", \"exit 65\"]\n";
  const auto outcome = [](const std::string& text) {
    return std::get<MessageHandler>(Sinks{text}.out())(test::claimed(), {}).kind();
  };
  EXPECT_EQ(outcome(command), Outcome::Kind::dead);
  EXPECT_EQ(outcome(command + "dead_on = []\n"), Outcome::Kind::retry);
}

}  // namespace
}  // namespace twinbox::app
