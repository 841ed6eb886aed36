// Mistakes that only show when the parts are made: each still has its file, line and key.
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "daemon/config/config.hpp"
#include "daemon/service.hpp"

namespace twinbox::app {
namespace {

using Problems = std::vector<std::string>;

const Variables secrets{{"GOOD", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
                        {"BAD", "no secret of theirs"},
                        {"PUBLIC", "whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}};

/// Where and which, for every problem.
Problems key_locations(std::string_view text, const Variables& variables = secrets) {
  Problems found;
  try {
    for (const ConfigProblem& problem : check_config(parse_config(text, "t", variables))) {
      found.push_back(problem.where + " " + problem.key);
    }
  } catch (const ConfigError& error) {
    for (const ConfigProblem& problem : error.problems()) {
      EXPECT_FALSE(problem.text.empty());
      EXPECT_EQ(problem.text.find("no secret of theirs"), std::string::npos);
      found.push_back(problem.where + " " + problem.key);
    }
  }
  return found;
}

std::string only_text(std::string_view text, const Variables& variables = secrets) {
  try {
    parse_config(text, "t", variables);
  } catch (const ConfigError& error) {
    return error.problems().size() == 1 ? error.problems()[0].text : error.what();
  }
  return "";
}

TEST(CheckConfig, only_postgres_can_require_a_synchronous_standby) {
  EXPECT_EQ(
      key_locations("[store.main]\nurl = \"sqlite::memory:\"\ninbox_require_synchronous = true\n"),
      Problems{"t:3 store.main.inbox_require_synchronous"});
  const Config config = parse_config(
      "[store.main]\nurl = \"postgresql://localhost/shop\"\ninbox_require_synchronous = true\n",
      "t", secrets);
  EXPECT_TRUE(config.stores.at(0).definition().inbox.require_synchronous);
  EXPECT_FALSE(config.stores.at(0).definition().outbox.require_synchronous);
}

TEST(CheckConfig, a_good_one_has_no_problem) {
  EXPECT_EQ(key_locations("[store.main]\nurl = \"sqlite::memory:\"\n"
                          "[sink.a]\ntype = \"http\"\nurl = \"https://example.com/\"\n"
                          "secrets = [\"env:GOOD\"]\nallow = [\"10.0.0.0/8\"]\n"
                          "[sink.b]\ntype = \"command\"\ncommand = [\"true\"]\n"
                          "[sink.c]\ntype = \"inbox\"\n"
                          "[[route]]\nsink = \"a\"\n[[route]]\ntopic = \"b.*\"\nsink = \"b\"\n"
                          "[[route]]\nbox = \"inbox\"\nsink = \"b\"\n"
                          "[webhook.x]\nscheme = \"standard_webhooks\"\nsecrets = [\"env:GOOD\"]\n"
                          "[webhook.y]\nscheme = \"none\"\n"
                          "[[event]]\nname = \"e\"\nmode = \"inline\"\nsink = \"a\"\n"
                          "[[subscription]]\nname = \"p\"\ntopic = \"t\"\nroute = \"/sidecar/t\"\n"
                          "[tracing]\nendpoint = \"http://collector:4318/v1/traces\"\n"),
            Problems{});
}

TEST(CheckConfig, the_tokens_of_several_stores_have_a_file_that_is_named) {
  const std::string stores =
      "[store.a]\nurl = \"sqlite:/x/a.db\"\n[store.b]\nurl = \"sqlite:/y/b.db\"\n";
  const auto found = check_config(parse_config(stores, "t", {}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, "access.token_file");
  EXPECT_NE(found[0].text.find("several stores"), std::string::npos) << found[0].text;
  EXPECT_EQ(key_locations(stores + "[access]\ntoken_file = \"/x/twinbox.tokens\"\n"), Problems{});
}

TEST(CheckConfig, what_came_from_the_environment_or_a_file_is_never_printed) {
  const Variables hidden{{"HOOK", "https://hooks.example/services/T0K3N/S3CR3T#x"},
                         {"HOST", "htps://hooks.example/services/0TH3R"},
                         {"PLACE", "postgresql://me:pa55word@[db.example/app"},
                         {"HEADER", "Bearer\nt0p5ecret"}};
  const std::string text =
      "[store.main]\nurl = \"env:PLACE\"\n"
      "[sink.a]\ntype = \"http\"\nurl = \"env:HOOK\"\n"
      "headers = { Authorization = \"env:HEADER\" }\n"
      "[sink.b]\ntype = \"http\"\nurl = \"env:HOST\"\n";
  try {
    parse_config(text, "t", hidden);
    FAIL() << "was taken";
  } catch (const ConfigError& error) {
    const std::string told = error.what();
    for (const char* secret : {"T0K3N", "S3CR3T", "0TH3R", "pa55word", "t0p5ecret"}) {
      EXPECT_EQ(told.find(secret), std::string::npos) << told;
    }
    EXPECT_NE(told.find("sink.a.url"), std::string::npos) << told;
  }
}

TEST(CheckConfig, sinks_over_http) {
  EXPECT_EQ(
      key_locations("[sink.a]\n"
                    "type = \"http\"\n"
                    "url = \"https://me:w0rd9@example.com/\"\n"
                    "method = \"GET\"\n"
                    "headers = { \"Content-Length\" = \"1\", \"two words\" = \"x\" }\n"
                    "secrets = [\"env:GOOD\", \"env:BAD\"]\n"
                    "done_on = [100]\n"
                    "dead_on = [1]\n"
                    "allow = [\"there\", \"10.0.0.0/8\", \"10.0.0.0/99\"]\n"
                    "proxy = \"ftp://proxy\"\n"),
      (Problems{"t:3 sink.a.url", "t:4 sink.a.method", "t:5 sink.a.headers", "t:5 sink.a.headers",
                "t:6 sink.a.secrets", "t:7 sink.a.done_on", "t:8 sink.a.dead_on",
                "t:9 sink.a.allow", "t:9 sink.a.allow", "t:10 sink.a.proxy"}));
}

TEST(CheckConfig, a_receiver_on_this_machine_must_be_allowed) {
  const auto found = [](const std::string& url, const std::string& more = {}) {
    return key_locations("[sink.a]\ntype = \"http\"\nurl = \"" + url + "\"\n" + more);
  };
  for (const char* url : {"http://127.0.0.1:8080/", "http://localhost", "https://[::1]:80/a?b",
                          "http://127.1.2.3?a", "http://localhost:80"}) {
    EXPECT_EQ(found(url), Problems{"t:3 sink.a.url"}) << url;
    EXPECT_EQ(found(url, "allow = [\"any\"]\n"), Problems{}) << url;
    EXPECT_EQ(found(url, "proxy = \"http://proxy.example\"\n"), Problems{}) << url;
  }
  for (const char* url :
       {"http://example.com/127.0.0.1", "https://localhost.example.com", "http://8.8.8.8"}) {
    EXPECT_EQ(found(url), Problems{}) << url;
  }
  EXPECT_EQ(found("nonsense"), Problems{"t:3 sink.a.url"});
}

TEST(CheckConfig, sinks_that_run_a_program_or_fill_an_inbox) {
  EXPECT_EQ(key_locations("[store.main]\nboxes = \"outbox\"\n"
                          "[sink.a]\n"
                          "type = \"command\"\n"
                          "command = [\"\"]\n"
                          "variables = { TWINBOX_ID = \"x\", \"a=b\" = \"y\" }\n"
                          "dead_on = [400]\n"
                          "[sink.b]\n"
                          "type = \"inbox\"\n"
                          "source = \" \"\n"
                          "[sink.c]\n"
                          "type = \"inbox\"\n"
                          "store = \"other\"\n"),
            (Problems{"t:5 sink.a.command", "t:6 sink.a.variables", "t:6 sink.a.variables",
                      "t:7 sink.a.dead_on", "t:8 sink.b.store", "t:10 sink.b.source",
                      "t:13 sink.c.store"}));
}

TEST(CheckConfig, the_number_of_the_secret_that_is_none_is_told) {
  EXPECT_NE(only_text("[webhook.shop]\nscheme = \"standard_webhooks\"\n"
                      "secrets = [\"env:GOOD\", \"env:BAD\"]\n")
                .find("secret 2"),
            std::string::npos);
}

TEST(CheckConfig, webhooks) {
  EXPECT_EQ(key_locations("[webhook.a]\n"
                          "scheme = \"hmac\"\n"
                          "header = \"X-Signature\"\n"
                          "secrets = [\"env:GOOD\"]\n"
                          "signed_content = \"{timestamp}.{body}\"\n"
                          "id = \"somewhere\"\n"
                          "topic = \"/a~2\"\n"
                          "[webhook.\"b c\"]\n"
                          "scheme = \"bearer\"\n"
                          "secrets = [\"env:GOOD\"]\n"
                          "source = \"signature\"\n"
                          "[webhook.d]\n"
                          "scheme = \"none\"\n"
                          "secrets = [\"env:GOOD\"]\n"
                          "store = \"far\"\n"),
            (Problems{"t:5 webhook.a.signed_content", "t:6 webhook.a.id", "t:7 webhook.a.topic",
                      "t:8 webhook.b c", "t:11 webhook.b c.source", "t:14 webhook.d.secrets",
                      "t:15 webhook.d.store"}));
}

TEST(CheckConfig, a_webhook_refuses_what_its_scheme_does_not_use) {
  EXPECT_EQ(key_locations("[webhook.a]\n"
                          "scheme = \"github\"\n"
                          "secrets = [\"env:GOOD\"]\n"
                          "header = \"X-Signature\"\n"
                          "header_prefix = \"svix-\"\n"
                          "tolerance = \"1m\"\n"
                          "[webhook.b]\n"
                          "scheme = \"standard_webhooks\"\n"
                          "secrets = [\"env:GOOD\"]\n"
                          "header_prefix = \"svix-\"\n"
                          "tolerance = \"1m\"\n"
                          "encoding = \"hex\"\n"),
            (Problems{"t:4 webhook.a.header", "t:5 webhook.a.header_prefix",
                      "t:6 webhook.a.tolerance", "t:12 webhook.b.encoding"}));
  EXPECT_EQ(only_text("[webhook.a]\nscheme = \"gitlab\"\nsecrets = [\"env:GOOD\"]\n"
                      "algorithm = \"sha1\"\n"),
            "the scheme gitlab does not use it; remove it");
}

TEST(CheckConfig, a_webhook_with_fields_in_its_header) {
  const std::string paddle =
      "[webhook.paddle]\n"
      "scheme = \"hmac\"\n"
      "secrets = [\"env:GOOD\"]\n"
      "header = \"Paddle-Signature\"\n"
      "timestamp_field = \"ts\"\n"
      "separator = \";\"\n";
  const std::string signature = "signature_field = \"h1\"\n";
  EXPECT_EQ(key_locations(paddle + signature + "signed_content = \"{timestamp}:{body}\"\n"),
            (Problems{}));
  EXPECT_EQ(key_locations(paddle),
            (Problems{"t:5 webhook.paddle.timestamp_field", "t:6 webhook.paddle.separator"}));
  EXPECT_EQ(key_locations(paddle + signature + "prefix = \"v1\"\ntimestamp_header = \"X-Time\"\n"),
            (Problems{"t:5 webhook.paddle.timestamp_field", "t:8 webhook.paddle.prefix"}));
}

TEST(CheckConfig, a_webhook_by_ed25519_takes_public_keys_only) {
  EXPECT_EQ(key_locations("[webhook.discord]\n"
                          "scheme = \"ed25519\"\n"
                          "secrets = [\"env:GOOD\"]\n"),
            (Problems{"t:3 webhook.discord.secrets"}));
}

TEST(CheckConfig, what_may_be_there_once) {
  const std::string text =
      "[sink.a]\ntype = \"log\"\n"
      "[[route]]\nname = \"r\"\nsink = \"a\"\n"
      "[[route]]\nname = \"r\"\ntopic = \"b\"\nsink = \"a\"\n"
      "[[route]]\nname = \"s\"\ntopic = \"b\"\nsink = \"a\"\n"
      "[[route]]\nbox = \"inbox\"\ntopic = \"e.v1\"\nsink = \"a\"\n"
      "[[event]]\nname = \"e\"\nmode = \"inline\"\nsink = \"a\"\n"
      "[[event]]\nname = \"e\"\n"
      "[[subscription]]\nname = \"p\"\ntopic = \"t\"\nroute = \"/sidecar/t\"\n"
      "[[subscription]]\nname = \"p\"\ntopic = \"u\"\nroute = \"/sidecar/t\"\n";
  EXPECT_EQ(key_locations(text),
            (Problems{"t:7 route.r.name", "t:12 route.s.topic", "t:19 event.e.name",
                      "t:23 event.e.name", "t:31 subscription.p.route"}));
  EXPECT_EQ(only_text("[sink.a]\ntype = \"log\"\n[[route]]\nsink = \"a\"\n[[route]]\nsink = "
                      "\"a\"\n"),
            "\"#\" is defined twice; the first definition is at t:3");
}

TEST(CheckConfig, names_and_topics_that_cannot_be) {
  EXPECT_EQ(
      key_locations("[sink.a]\ntype = \"log\"\n"
                    "[[route]]\nname = \" \"\nsink = \"a\"\n"
                    "[[route]]\nname = \"r\"\ntopic = \"a..b\"\nsink = \"a\"\n"
                    "[[event]]\nname = \" \"\n"
                    "[[subscription]]\nname = \"p\"\ntopic = \" \"\nroute = \"/sidecar/a/b\"\n"
                    "[tracing]\nendpoint = \"collector:4318\"\n"
                    "[store.main]\nschema = \"a\\u0000b\"\n"),
      (Problems{"t:4 route. .name", "t:8 route.r.topic", "t:11 event. .name",
                "t:14 subscription.p.topic", "t:15 subscription.p.route", "t:17 tracing.endpoint",
                "t:19 store.main.schema"}));
}

TEST(CheckConfig, a_mistake_in_a_variable_names_the_variable) {
  EXPECT_EQ(key_locations("[sink.a]\ntype = \"http\"\nurl = \"https://example.com\"\n",
                          {{"TWINBOX_SINK_A_METHOD", "GET"}}),
            Problems{"environment TWINBOX_SINK_A_METHOD sink.a.method"});
}

TEST(CheckConfig, files_that_are_none) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("twinbox_check_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream{folder / "tokens"} << "somebody boss 12\n";
  EXPECT_EQ(
      key_locations("[server]\ntls_certificate = \"/none.pem\"\ntls_key = \"/none.key\"\n"
                    "[access]\ntoken_file = \"" +
                    (folder / "tokens").string() + "\"\n"),
      (Problems{"t:2 server.tls_certificate", "t:3 server.tls_key", "t:5 access.token_file"}));
  std::filesystem::remove_all(folder);
}

TEST(CheckConfig, a_secret_in_a_file_without_an_end_is_refused) {
  EXPECT_NE(only_text("[sink.a]\ntype = \"http\"\nurl = \"https://example.com\"\n"
                      "secrets = [\"file:/dev/zero\"]\n")
                .find("the file /dev/zero cannot be read"),
            std::string::npos);
}

}  // namespace
}  // namespace twinbox::app
