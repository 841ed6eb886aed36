#include "daemon/config/config.hpp"

#include <gtest/gtest.h>

#include "daemon/config/config_reader.hpp"

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;

Config parse(std::string_view text, const Variables& variables = {}) {
  return parse_config(text, "twinbox.toml", variables);
}

std::vector<std::string> problems(std::string_view text, const Variables& variables = {}) {
  std::vector<std::string> found;
  try {
    parse(text, variables);
  } catch (const ConfigError& error) {
    for (const ConfigProblem& problem : error.problems()) found.push_back(problem.str());
  }
  return found;
}

using Problems = std::vector<std::string>;

TEST(Config, without_a_file_there_is_one_store_in_the_current_folder) {
  const Config config = load_config({}, {});
  ASSERT_EQ(config.stores.size(), 1u);
  EXPECT_EQ(config.stores[0].name, "main");
  EXPECT_EQ(config.stores[0].url, "sqlite:twinbox.db");
  EXPECT_EQ(config.server.listen, "127.0.0.1:7117");
}

TEST(Config, reads_every_kind_of_section) {
  const Config config = parse(R"(
    [server]
    listen = "127.0.0.1:80"
    [limit]
    idle_timeout = "90s"
    [log]
    format = "json"
    level = "warning"
    [store.orders]
    url = "sqlite:orders.db"
    boxes = "outbox"
    outbox_retention = "7d"
    outbox_max_age = "3d"
    inbox_max_age = "1h"
    [retry.slow]
    first_delay = "1m"
    max_delay = "1h"
    jitter = "equal"
    [sink.audit]
    type = "command"
    command = ["/bin/cat", "-"]
    [[route]]
    name = "second"
    topic = "order.*"
    sink = "audit"
    retry = "slow"
    [[route]]
    topic = "#"
    sink = "audit"
    [dispatch]
    lease = "1m"
    no_route = "dead"
  )");
  EXPECT_EQ(config.server.listen, "127.0.0.1:80");
  EXPECT_EQ(config.limit.idle_timeout, 90s);
  EXPECT_TRUE(config.log.json);
  EXPECT_EQ(config.log.level, LogLevel::warning);
  EXPECT_EQ(config.stores[0].boxes, Boxes::outbox);
  EXPECT_EQ(config.stores[0].definition().outbox.retention, 24h * 7);
  EXPECT_EQ(config.stores[0].definition().outbox.max_age, 24h * 3);
  EXPECT_EQ(config.stores[0].definition().inbox.max_age, 1h);
  EXPECT_EQ(config.retries.at("slow").first_delay, 1min);
  EXPECT_EQ(config.find_sink("audit")->command, (std::vector<std::string>{"/bin/cat", "-"}));
  ASSERT_EQ(config.routes.size(), 2u);
  EXPECT_EQ(config.routes[0].name, "second");
  EXPECT_EQ(config.dispatch.lease, 1min);
  EXPECT_EQ(config.dispatch.no_handler, NoHandler::dead);
}

TEST(Config, the_environment_comes_before_the_file) {
  const Config config =
      parse("[server]\nlisten = \"127.0.0.1:80\"\n[store.a-b]\nurl = \"sqlite:x.db\"\n",
            {{"TWINBOX_SERVER_LISTEN", "[::1]:81"},
             {"TWINBOX_SERVER_HOSTS", "one.example, two.example"},
             {"TWINBOX_LOG_ACCESS", "false"},
             {"TWINBOX_STORE_A_B_URL", "sqlite:y.db"},
             {"TWINBOX_DISPATCH_WORKERS", "9"}});
  EXPECT_EQ(config.server.listen, "[::1]:81");
  EXPECT_EQ(config.server.hosts, (std::vector<std::string>{"one.example", "two.example"}));
  EXPECT_FALSE(config.log.access);
  EXPECT_EQ(config.stores[0].url, "sqlite:y.db");
  EXPECT_EQ(config.dispatch.workers, 9);
}

TEST(Config, names_file_line_key_and_what_was_expected_for_all_mistakes_at_once) {
  EXPECT_EQ(
      problems("[server]\nlisten = 7117\nio_threds = 2\n\n[limit]\nidle_timeout = \"1 hour\"\n"
               "[log]\nlevel = \"warn\"\n[sever]\n"),
      (Problems{
          "twinbox.toml:2: server.listen: expected a string in quotation marks",
          "twinbox.toml:3: server.io_threds: unknown key; did you mean \"io_threads\"?",
          "twinbox.toml:6: limit.idle_timeout: expected a duration like \"500ms\", \"30s\", "
          "\"5m\", "
          "\"1h\" or \"7d\", from 10ms to 1d, found \"1 hour\"",
          "twinbox.toml:8: log.level: expected one of \"debug\", \"info\", \"warning\", \"error\", "
          "found \"warn\"; did you mean \"warning\"?",
          "twinbox.toml:9: sever: unknown section; did you mean \"server\"?",
      }));
}

TEST(Config, what_is_no_toml_names_its_line) {
  const Problems found = problems("[server]\nlisten = \n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].starts_with("twinbox.toml:2: TOML: ")) << found[0];
}

TEST(Config, numbers_out_of_bounds_name_the_bounds) {
  EXPECT_EQ(problems("[dispatch]\nworkers = 0\n"),
            (Problems{"twinbox.toml:2: dispatch.workers: expected a whole number from 1 to 1024, "
                      "found 0"}));
}

TEST(Config, a_mistake_in_the_environment_names_the_variable) {
  EXPECT_EQ(problems("", {{"TWINBOX_SERVER_IO_THREADS", "many"}, {"TWINBOX_SERVER_LISTN", "x"}}),
            (Problems{"environment TWINBOX_SERVER_IO_THREADS: server.io_threads: expected a whole "
                      "number from 1 to 64",
                      "environment: TWINBOX_SERVER_LISTN: matches no key of this "
                      "configuration; did you mean TWINBOX_SERVER_LISTEN?"}));
}

TEST(Config, routes_and_events_must_lead_somewhere) {
  EXPECT_EQ(problems("[sink.audit]\ntype = \"log\"\n[[route]]\nname = \"r\"\nsink = \"audti\"\n"
                     "retry = \"none\"\n[[event]]\nmode = \"inline\"\nname = \"e\"\n"),
            (Problems{"twinbox.toml:5: route.r.sink: unknown [sink.audti]; did you mean "
                      "\"audit\"?",
                      "twinbox.toml:6: route.r.retry: unknown [retry.none]",
                      "twinbox.toml:7: event.e.sink: is missing; mode = \"inline\" needs the "
                      "sink that it calls"}));
}

TEST(Config, what_the_dashboard_hides_is_named_by_json_pointers) {
  const Config config = parse(
      "[dashboard]\nredact = [\"/card/number\", \"/a~1b\"]\n"
      "trace_link = \"https://t.example/{trace_id}\"\n");
  EXPECT_EQ(config.dashboard.redact.size(), 2u);
  for (const char* pointer : {"card", "/a~2", "/a~"}) {
    const Problems found = problems("[dashboard]\nredact = [\"" + std::string{pointer} + "\"]\n");
    ASSERT_EQ(found.size(), 1u) << pointer;
    EXPECT_NE(found[0].find("is not a JSON pointer"), std::string::npos) << found[0];
  }
  EXPECT_EQ(problems("[dashboard]\ntrace_link = \"https://t.example/\"\n").size(), 1u);
  EXPECT_EQ(problems("[dashboard]\ntrace_link = \"javascript:{trace_id}\"\n").size(), 1u);
}

TEST(Config, a_time_that_no_clock_can_count_is_none) {
  EXPECT_EQ(parse_duration("90m"), 90min);
  for (const char* text : {"1000000000000m", "10000000000h", "10000000000d", "-1s", "s", "1", ""}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(Config, secrets_come_from_the_environment_or_a_file_only) {
  const std::string text = "[webhook.stripe]\nscheme = \"stripe\"\nsecrets = [\"env:STRIPE\"]\n";
  EXPECT_EQ(parse(text, {{"STRIPE", "whsec_1"}}).webhooks[0].secrets,
            std::vector<std::string>{"whsec_1"});
  EXPECT_EQ(problems(text), (Problems{"twinbox.toml:3: webhook.stripe.secrets: the environment "
                                      "variable STRIPE is not set"}));
  EXPECT_EQ(problems("[webhook.stripe]\nscheme = \"stripe\"\nsecrets = []\n"),
            (Problems{"twinbox.toml:3: webhook.stripe.secrets: is missing; set [\"env:NAME\"], or "
                      "several during a rotation"}));
  EXPECT_EQ(problems("[webhook.stripe]\nscheme = \"strip\"\n").size(), 1u);
  const Problems plain =
      problems("[webhook.stripe]\nscheme = \"stripe\"\nsecrets = [\"whsec_1\"]\n");
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_EQ(plain[0],
            "twinbox.toml:3: webhook.stripe.secrets: a secret must come from the environment "
            "or a file: use \"env:NAME\" or \"file:path\"");
  for (const std::string& problem : plain) EXPECT_EQ(problem.find("whsec_1"), std::string::npos);
}

TEST(Config, a_password_in_an_address_is_refused) {
  const Problems found =
      problems("[store.main]\nurl = \"postgresql://me:s3cr3t@db.example/app\"\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].starts_with("twinbox.toml:2: store.main.url: contains a password"));
  const Problems odbc = problems("[store.main]\nurl = \"Driver=x;Server=y;UID=me;Pwd = s3cr3t\"\n");
  ASSERT_FALSE(odbc.empty());
  EXPECT_TRUE(odbc[0].starts_with("twinbox.toml:2: store.main.url: contains a password"));
  EXPECT_EQ(parse("[store.main]\nurl = \"env:PLACE\"\n",
                  {{"PLACE", "postgresql://me:s3cr3t@db.example/app"}})
                .stores[0]
                .url,
            "postgresql://me:s3cr3t@db.example/app");
}

TEST(Config, a_reload_leads_nothing_to_a_store_that_needs_a_restart) {
  const Config running = parse("[store.main]\nurl = \"sqlite:a.db\"\n");
  const std::string stores =
      "[store.main]\nurl = \"sqlite:a.db\"\n[store.new]\nurl = \"sqlite:b.db\"\n";
  Config unused = parse(stores);
  EXPECT_EQ(keep_restart_only(unused, running), std::vector<std::string>{"store"});
  Config used = parse(stores +
                      "[webhook.pay]\nscheme = \"none\"\nstore = \"new\"\n"
                      "[sink.in]\ntype = \"inbox\"\nstore = \"new\"\n"
                      "[[event]]\nname = \"paid\"\nstore = \"new\"\n"
                      "[[event]]\nname = \"seen\"\nstore = \"main\"\n");
  try {
    keep_restart_only(used, running);
    FAIL();
  } catch (const ConfigError& error) {
    ASSERT_EQ(error.problems().size(), 3u);
    EXPECT_EQ(error.problems()[0].str(),
              "twinbox.toml:7: webhook.pay.store: the inbox of [store.new] is only served after a "
              "restart; restart the daemon");
    EXPECT_EQ(error.problems()[1].key, "sink.in.store");
    EXPECT_EQ(error.problems()[2].key, "event.paid.store");
  }
}

TEST(Config, with_several_stores_everything_names_its_own) {
  const std::string stores =
      "[store.main]\nurl = \"sqlite:a.db\"\n[store.archive]\nurl = \"sqlite:b.db\"\n";
  const std::string text =
      "is missing, and there are several stores; add store = \"archive\" or \"main\"";
  EXPECT_EQ(
      problems(stores + "[webhook.pay]\nscheme = \"none\"\n"
                        "[sink.in]\ntype = \"inbox\"\n"
                        "[sink.log]\ntype = \"log\"\n"
                        "[[event]]\nname = \"paid\"\n"
                        "[[subscription]]\nname = \"p\"\ntopic = \"t\"\nroute = \"/sidecar/t\"\n"
                        "[source.rabbit]\nurl = \"amqp://x\"\nqueue = \"q\"\n"
                        "[source.kafka]\ntype = \"kafka\"\nurl = \"x:9092\"\ntopics = [\"t\"]\n"
                        "group = \"g\"\n"
                        "[source.nats]\ntype = \"nats\"\nurl = \"nats://x\"\nstream = \"s\"\n"
                        "consumer = \"c\"\n"),
      (Problems{"twinbox.toml:5: webhook.pay.store: " + text,
                "twinbox.toml:7: sink.in.store: " + text,
                "twinbox.toml:11: event.paid.store: " + text,
                "twinbox.toml:13: subscription.p.store: " + text,
                "twinbox.toml:17: source.rabbit.store: " + text,
                "twinbox.toml:20: source.kafka.store: " + text,
                "twinbox.toml:25: source.nats.store: " + text}));
  EXPECT_EQ(problems(stores + "[webhook.pay]\nscheme = \"none\"\nstore = \"archive\"\n"),
            Problems{});
}

TEST(Config, a_reload_that_names_no_store_is_refused_while_several_are_served) {
  const Config running =
      parse("[store.main]\nurl = \"sqlite:a.db\"\n[store.archive]\nurl = \"sqlite:b.db\"\n");
  Config one = parse("[store.main]\nurl = \"sqlite:a.db\"\n[webhook.pay]\nscheme = \"none\"\n");
  EXPECT_THROW(keep_restart_only(one, running), ConfigError);
}

TEST(Config, durations_have_a_unit) {
  EXPECT_EQ(parse_duration("250ms"), 250ms);
  EXPECT_EQ(parse_duration("5m"), 5min);
  EXPECT_EQ(parse_duration("2h"), 2h);
  EXPECT_EQ(parse_duration("1d"), 24h);
  for (const char* text : {"", "5", "s", "-1s", "1.5s", "5 s", "99999999999999999999s"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

}  // namespace
}  // namespace twinbox::app
