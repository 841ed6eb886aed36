#include "daemon/config/config_safety.hpp"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "daemon/service.hpp"

namespace twinbox::app {
namespace {

using Keys = std::vector<std::string>;

class Safety : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, unsigned mode, const std::string& text = "") {
    const std::filesystem::path path = folder_ / name;
    std::ofstream{path} << text;
    std::filesystem::permissions(path, std::filesystem::perms{mode});
    return path.string();
  }
  static Keys keys(const std::vector<ConfigProblem>& problems) {
    Keys list;
    for (const ConfigProblem& one : problems) list.push_back(one.key);
    return list;
  }
  /// A configuration whose files have these modes.
  Config a_config(unsigned configuration, unsigned tokens, unsigned secret) {
    const std::string text = "[access]\ntoken_file = \"" + file("tokens", tokens) +
                             "\"\n[webhook.shop]\nscheme = \"github\"\nsecrets = [\"file:" +
                             file("secret", secret, std::string(32, 's')) + "\"]\n";
    return parse_config(text, file("twinbox.toml", configuration, text), {});
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("twinbox_safety_" + std::to_string(getpid()));
};

TEST_F(Safety, files_of_the_owner_alone_are_well) {
  EXPECT_EQ(keys(config_warnings(a_config(0644, 0600, 0400))), Keys{});
  EXPECT_EQ(keys(unsafe_files(a_config(0644, 0640, 0440))), Keys{});
}

TEST_F(Safety, what_others_may_read_is_told) {
  const Config config = a_config(0644, 0644, 0604);
  EXPECT_EQ(keys(config_warnings(config)), (Keys{"access.token_file", "webhook.shop.secrets"}));
  EXPECT_EQ(keys(unsafe_files(config)), Keys{});
}

TEST_F(Safety, what_everybody_may_write_is_refused) {
  const Config config = a_config(0646, 0666, 0602);
  EXPECT_EQ(keys(unsafe_files(config)),
            (Keys{"file", "access.token_file", "webhook.shop.secrets"}));
  EXPECT_EQ(keys(check_config(config)),
            (Keys{"file", "access.token_file", "webhook.shop.secrets"}));
  EXPECT_EQ(keys(config_warnings(a_config(0664, 0660, 0600))), (Keys{"file", "access.token_file"}));
}

TEST_F(Safety, a_folder_in_which_every_user_may_replace_files_is_told) {
  const Config config = a_config(0600, 0600, 0600);
  const auto allow = [&](unsigned mode) {
    std::filesystem::permissions(folder_, std::filesystem::perms{mode});
  };
  allow(0777);
  const auto warnings = config_warnings(config);
  ASSERT_EQ(keys(warnings), (Keys{"file", "access.token_file", "webhook.shop.secrets"}));
  EXPECT_NE(warnings[1].text.find("chmod o-w " + folder_.string()), std::string::npos)
      << warnings[1].text;
  EXPECT_EQ(keys(unsafe_files(config)), Keys{}) << "it starts";
  allow(01777);
  EXPECT_EQ(keys(config_warnings(config)), Keys{}) << "the sticky bit keeps files of others";
  allow(0775);
  EXPECT_EQ(keys(config_warnings(config)), Keys{});
}

TEST_F(Safety, tokens_of_one_name_are_told_once) {
  const std::string hash(64, 'a');
  const std::string path = file(
      "tokens", 0600,
      "ci send " + hash + "\nops admin " + hash + "\nci read " + hash + "\nci send " + hash + "\n");
  const auto warnings =
      config_warnings(parse_config("[access]\ntoken_file = \"" + path + "\"\n", "t", {}));
  ASSERT_EQ(keys(warnings), Keys{"access.token_file"});
  EXPECT_NE(warnings[0].text.find("name \"ci\""), std::string::npos) << warnings[0].text;
}

TEST_F(Safety, a_token_named_as_the_source_of_a_relay_is_told) {
  const std::string path = file("tokens", 0600, "outbox send " + std::string(64, 'a') + "\n");
  const auto warnings = config_warnings(parse_config(
      "[access]\ntoken_file = \"" + path + "\"\n[sink.local]\ntype = \"inbox\"\n", "t", {}));
  ASSERT_EQ(keys(warnings), Keys{"access.token_file"});
  EXPECT_NE(warnings[0].text.find("without a source"), std::string::npos) << warnings[0].text;
}

TEST_F(Safety, a_short_secret_of_a_sink_and_a_short_verify_token_are_told) {
  const Variables variables{
      {"SHORT", "q"}, {"SIGNS", "whsec_cQ=="}, {"LONG", std::string(32, 'x')}};
  const std::string text =
      "[access]\ntoken_file = \"/none\"\n[sink.out]\ntype = \"http\"\n"
      "url = \"https://a.test/\"\nsecrets = [\"env:SIGNS\"]\n[webhook.meta]\nscheme = \"hmac\"\n"
      "header = \"X-Signature\"\nsecrets = [\"env:LONG\"]\nhandshake = \"meta\"\n"
      "verify_tokens = [\"env:LONG\", \"env:SHORT\"]\n";
  const auto warnings = config_warnings(parse_config(text, "t", variables));
  ASSERT_EQ(keys(warnings), (Keys{"sink.out.secrets", "webhook.meta.verify_tokens"}));
  EXPECT_EQ(warnings[0].text.find("secret 1 "), 0u) << warnings[0].text;
  EXPECT_EQ(warnings[1].text.find("secret 2 "), 0u) << warnings[1].text;
}

TEST_F(Safety, the_key_of_the_certificate_is_a_secret) {
  const std::string text = "[server]\ntls_certificate = \"c\"\ntls_key = \"" +
                           file("key.pem", 0644) + "\"\n[access]\ntoken_file = \"/none\"\n";
  EXPECT_EQ(keys(config_warnings(parse_config(text, "t", {}))), Keys{"server.tls_key"});
}

TEST_F(Safety, the_key_and_the_credentials_for_a_broker_are_secrets) {
  const std::string key = "key_file = \"" + file("broker.pem", 0644) + "\"\n";
  const std::string credentials = "credentials_file = \"" + file("user.creds", 0644) + "\"\n";
  const std::string certificate = "certificate_file = \"" + file("cert.pem", 0644) + "\"\n";
  const std::string url = "url = \"tls://broker.test:4222\"\nca_file = \"ca.pem\"\n";
  const std::string text = "[access]\ntoken_file = \"/none\"\n[sink.out]\ntype = \"nats\"\n" + url +
                           certificate + key + credentials +
                           "stream = \"s\"\n[source.in]\ntype = \"nats\"\n" + url + certificate +
                           key + credentials + "stream = \"s\"\nconsumer = \"c\"\n";
  EXPECT_EQ(keys(config_warnings(parse_config(text, "t", {}))),
            (Keys{"sink.out.key_file", "sink.out.credentials_file", "source.in.key_file",
                  "source.in.credentials_file"}));
}

TEST_F(Safety, the_key_of_an_http_sink_is_a_secret_wherever_it_is) {
  const auto warned = [&](const std::string& keys_of_sink) {
    return keys(
        config_warnings(parse_config("[access]\ntoken_file = \"/none\"\n[sink.out]\ntype = "
                                     "\"http\"\nurl = \"https://a.test/\"\n" +
                                         keys_of_sink,
                                     "t", {})));
  };
  const std::string certificate = "certificate_file = \"" + file("both.pem", 0644) + "\"\n";
  EXPECT_EQ(warned(certificate), Keys{"sink.out.certificate_file"});
  EXPECT_EQ(warned(certificate + "key_file = \"" + file("key.pem", 0644) + "\"\n"),
            Keys{"sink.out.key_file"});
}

TEST_F(Safety, what_everybody_may_write_makes_no_client_a_friend) {
  const std::string text = "[server]\ntls_certificate = \"c\"\ntls_key = \"k\"\nclient_ca = \"" +
                           file("ca.pem", 0646) + "\"\n";
  EXPECT_EQ(keys(unsafe_files(parse_config(text, "t", {}))), Keys{"server.client_ca"});
}

TEST_F(Safety, a_secret_that_can_be_guessed_is_told_without_being_shown) {
  const Variables variables{{"SHORT", "q"}, {"LONG", std::string(16, 'x')}};
  const auto warnings = config_warnings(
      parse_config("[access]\ntoken_file = \"/none\"\n[webhook.shop]\nscheme = \"github\"\n"
                   "secrets = [\"env:LONG\", \"env:SHORT\"]\n",
                   "t", variables));
  ASSERT_EQ(keys(warnings), Keys{"webhook.shop.secrets"});
  EXPECT_EQ(warnings[0].where, "t:5");
  EXPECT_EQ(warnings[0].text.find("secret 2 has fewer than 16 characters"), 0u);
}

TEST_F(Safety, a_webhook_that_accepts_nothing_is_told) {
  const auto warnings = [](std::string more) {
    return keys(config_warnings(parse_config(
        "[access]\ntoken_file = \"/none\"\n" + more + "[webhook.here]\nscheme = \"none\"\n", "t",
        {})));
  };
  EXPECT_EQ(warnings(""), Keys{"webhook.here.scheme"});
  EXPECT_EQ(warnings("loopback_without_token = true\n"), Keys{});
}

TEST_F(Safety, rules_without_effect_are_told) {
  const auto warnings = config_warnings(
      parse_config("[server]\nhosts = [\"box.example\"]\n[access]\ntoken_file = \"/none\"\n"
                   "loopback_without_token = true\n[webhook.here]\nscheme = \"none\"\n",
                   "t", {}));
  EXPECT_EQ(keys(warnings), (Keys{"webhook.here.scheme", "access.loopback_without_token"}));
}

/// What it enqueues cannot be brought into an inbox: it would be taken for the endpoint's.
TEST_F(Safety, a_token_named_as_a_source_that_has_an_owner_is_told_where_a_sink_is_an_inbox) {
  const std::string hash(64, 'a');
  const std::string path = file("tokens", 0600,
                                "shop send " + hash + "\ntills admin " + hash + "\nbank read " +
                                    hash + "\nmine send " + hash + "\n");
  const std::string text = "[access]\ntoken_file = \"" + path +
                           "\"\n[webhook.shop]\nscheme = \"github\"\nsecrets = [\"file:" +
                           file("secret", 0600, std::string(32, 's')) +
                           "\"]\n[source.tills]\nurl = \"amqp://x\"\nqueue = \"q\"\n"
                           "[source.bank]\nurl = \"amqp://x\"\nqueue = \"q\"\n";
  EXPECT_EQ(keys(config_warnings(parse_config(text, "t", {}))), Keys{});
  const std::string sink = "[sink.local]\ntype = \"inbox\"\n";
  const auto warnings = config_warnings(parse_config(text + sink, "t", {}));
  ASSERT_EQ(keys(warnings), (Keys{"access.token_file", "access.token_file"}));
  EXPECT_NE(warnings[0].text.find("token \"shop\""), std::string::npos) << warnings[0].text;
  EXPECT_NE(warnings[1].text.find("token \"tills\""), std::string::npos) << warnings[1].text;
}

}  // namespace
}  // namespace twinbox::app
