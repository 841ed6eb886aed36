#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "core/encoding.hpp"
#include "crypto/ed25519.hpp"
#include "twinbox/webhook.hpp"

namespace twinbox {
namespace {

using namespace std::chrono_literals;

constexpr Instant sent{1614265330s};

HttpRequest a_request(HttpHeaders headers, std::string body) {
  return {.headers = std::move(headers), .body = std::move(body)};
}

// ---- every scheme, on a genuine request

struct Sample {
  const char* name;
  SignatureScheme scheme;
  std::string secret;
  HttpRequest request;
  Instant at;
  bool has_timestamp;
  const char* header;  ///< that holds the signature
};

const std::string seed = *decode_hex(  // RFC 8032, section 7.1, test 1
    "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
const std::string private_key = "whsk_" + base64(seed);
const std::string public_key = "whpk_" + base64(ed25519_public_key(seed));

Sample stripe() {
  return {"stripe",
          StripeSignature{},
          "whsec_test_secret",
          a_request({{"Stripe-Signature",
                      "t=1614265330,"
                      "v1=a77f58ed88dac6c2cb9d24f149d7424c41f234b3beb04e25d9492b330816350e,"
                      "v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"}},
                    R"({"id":"evt_1","type":"charge.succeeded"})"),
          sent,
          true,
          "Stripe-Signature"};
}

// The example of GitHub's documentation.
Sample github() {
  return {"github",
          GitHubSignature{},
          "It's a Secret to Everybody",
          a_request({{"X-Hub-Signature-256",
                      "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}},
                    "Hello, World!"),
          sent,
          false,
          "X-Hub-Signature-256"};
}

// The vector of the reference libraries.
Sample standard() {
  return {"standard_webhooks",
          StandardWebhooks{},
          "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
          a_request({{"webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"},
                     {"webhook-timestamp", "1614265330"},
                     {"webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}},
                    R"({"test": 2432232314})"),
          sent,
          true,
          "webhook-signature"};
}

Sample standard_ed25519() {
  HttpRequest request{.body = R"({"test": 2432232314})"};
  request.headers = WebhookSigner{{private_key}}.sign("msg_1", sent, request.body);
  return {"standard_webhooks_ed25519", StandardWebhooks{}, public_key, request, sent, true,
          "webhook-signature"};
}

// The example of Slack's documentation.
Sample slack() {
  return {
      "slack",
      SlackSignature{},
      "8f742231b10e8888abcd99yyyzzz85a5",
      a_request(
          {{"X-Slack-Signature",
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"},
           {"X-Slack-Request-Timestamp", "1531420618"}},
          "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id="
          "G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-"
          "collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%"
          "2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121."
          "803a0bc887a14d10d2c447fce8b6703c"),
      Instant{1531420618s},
      true,
      "X-Slack-Signature"};
}

Sample shopify() {
  return {"shopify",
          ShopifySignature{},
          "hush",
          a_request({{"X-Shopify-Hmac-Sha256", "qBvrsZF7RfB1iS6BX6IHqJTp5L911P7intnPeTPsH0I="}},
                    R"({"id":820982911946154508})"),
          sent,
          false,
          "X-Shopify-Hmac-Sha256"};
}

Sample generic(const char* name, MacHash hash, SignatureEncoding encoding, std::string prefix,
               std::string value) {
  return {name,
          HmacSignature{.header = "X-Sign", .hash = hash, .encoding = encoding, .prefix = prefix},
          "k",
          a_request({{"X-Sign", prefix + value}}, "body"),
          sent,
          false,
          "X-Sign"};
}

Sample generic_with_time() {
  return {"hmac_with_timestamp",
          HmacSignature{.header = "X-Sign", .timestamp_header = "X-Time"},
          "k",
          a_request({{"x-sign", "9ce6ae1996d2bae23f9e388c22b374f75c96957c8b907ab6ac52c7d7029ff610"},
                     {"x-time", "1614265330"}},
                    "body"),
          sent,
          true,
          "X-Sign"};
}

// The same vector under the names that Svix gives the headers.
Sample svix() {
  return {"svix",
          StandardWebhooks{"svix-"},
          "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
          a_request({{"svix-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"},
                     {"svix-timestamp", "1614265330"},
                     {"svix-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}},
                    R"({"test": 2432232314})"),
          sent,
          true,
          "svix-signature"};
}

Sample paddle() {
  return {"paddle",
          HmacSignature{.header = "Paddle-Signature",
                        .signature_field = "h1",
                        .timestamp_field = "ts",
                        .separator = ';',
                        .signed_content = "{timestamp}:{body}"},
          "pdl_ntfset_key",
          a_request({{"Paddle-Signature",
                      "ts=1614265330;"
                      "h1=8f3e75bd69e6b0033293b282eb26045b48614aa5974b9b61de64bc8a309d6e95"}},
                    R"({"event_id":"evt_1","event_type":"transaction.paid"})"),
          sent,
          true,
          "Paddle-Signature"};
}

Sample discord() {
  const std::string body = R"({"version":1,"type":1})";
  return {"discord",
          Ed25519Signature{},
          hex(ed25519_public_key(seed)),
          a_request({{"X-Signature-Ed25519", hex(ed25519_sign(seed, "1614265330" + body))},
                     {"X-Signature-Timestamp", "1614265330"}},
                    body),
          sent,
          true,
          "X-Signature-Ed25519"};
}

std::vector<Sample> samples() {
  using enum SignatureEncoding;
  return {
      stripe(),
      github(),
      standard(),
      standard_ed25519(),
      slack(),
      shopify(),
      svix(),
      paddle(),
      discord(),
      generic("hmac_sha1_hex", MacHash::sha1, hex, "", "a2282e7648e8caf7d224d6531dcd95c2808a5d89"),
      generic("hmac_sha256_prefix", MacHash::sha256, hex,
              "sha256=", "c6d811ef3aeb02437cd423f1abe13209041864630bdc4e2c04def5c7b0031a23"),
      generic("hmac_sha512_base64", MacHash::sha512, base64, "",
              "TZSLiacRM+getZIrei7/"
              "ZJrcGgaM0pyN2WUJRvDnmXdRH1LgaTNhlBb3C+kbdWjCWKA3pdIs1ksAy8nKsfmBpg=="),
      generic_with_time()};
}

class Signature : public ::testing::TestWithParam<Sample> {
 protected:
  [[nodiscard]] const Sample& sample() const { return GetParam(); }
  [[nodiscard]] Verification verify(const HttpRequest& request,
                                    std::vector<std::string> secrets) const {
    return SignatureVerifier{sample().scheme, std::move(secrets)}.verify(request, sample().at);
  }
};

TEST_P(Signature, a_genuine_request_is_taken) {
  const Verification found = verify(sample().request, {sample().secret});
  EXPECT_TRUE(found.genuine()) << found.detail;
  EXPECT_FALSE(found.signature.empty());
}

std::string other_secret(const Sample& sample) {
  if (std::holds_alternative<Ed25519Signature>(sample.scheme)) {
    return hex(ed25519_public_key(std::string(32, 'x')));
  }
  if (!std::holds_alternative<StandardWebhooks>(sample.scheme)) return "another";
  return "whsec_" + base64("another secret of 24 byt");
}

TEST_P(Signature, one_of_several_secrets_is_enough) {
  EXPECT_TRUE(verify(sample().request, {other_secret(sample()), sample().secret}).genuine());
  EXPECT_TRUE(verify(sample().request, {sample().secret, other_secret(sample())}).genuine());
}

TEST_P(Signature, another_secret_is_refused) {
  const Verification found = verify(sample().request, {other_secret(sample())});
  EXPECT_EQ(found.fault, SignatureFault::no_match);
  EXPECT_TRUE(found.signature.empty());
}

TEST_P(Signature, every_changed_byte_of_the_body_is_noticed) {
  for (std::size_t at = 0; at < sample().request.body.size(); ++at) {
    HttpRequest request = sample().request;
    request.body[at] = static_cast<char>(request.body[at] ^ 1);
    ASSERT_EQ(verify(request, {sample().secret}).fault, SignatureFault::no_match) << at;
  }
  HttpRequest longer = sample().request;
  longer.body += '\n';
  EXPECT_FALSE(verify(longer, {sample().secret}).genuine());
  HttpRequest empty = sample().request;
  empty.body.clear();
  EXPECT_FALSE(verify(empty, {sample().secret}).genuine());
}

TEST_P(Signature, a_changed_signature_is_refused_and_a_missing_one_named) {
  HttpRequest request = sample().request;
  std::string value{*request.headers.find(sample().header)};
  const std::size_t end =
      std::min(value.size(), value.find(",v0="));  // nobody looks at Stripe's v0
  for (std::size_t at = 0; at < end; ++at) {
    std::string changed = value;
    changed[at] = changed[at] == 'b' ? 'c' : 'b';
    request.headers.set(sample().header, changed);
    ASSERT_FALSE(verify(request, {sample().secret}).genuine()) << changed;
  }
  for (const char* damaged : {"", "=", ",", "t=,v1=", "v1,", "sha256=", "garbage", "\xff\xfe"}) {
    request.headers.set(sample().header, damaged);
    const auto fault = verify(request, {sample().secret}).fault;
    EXPECT_TRUE(fault == SignatureFault::malformed_header || fault == SignatureFault::no_match)
        << damaged;
  }
  HttpRequest without = sample().request;
  without.headers = {};
  const Verification found = verify(without, {sample().secret});
  EXPECT_EQ(found.fault, SignatureFault::missing_header);
  EXPECT_NE(found.detail.find("there is no header "), std::string::npos);
}

TEST_P(Signature, a_timestamp_may_be_off_by_the_tolerance_both_ways) {
  const SignatureVerifier verifier{sample().scheme, {sample().secret}, 300s};
  const auto at = [&](std::chrono::microseconds off) {
    return verifier.verify(sample().request, sample().at + off);
  };
  EXPECT_TRUE(at(300s).genuine());
  EXPECT_TRUE(at(-300s).genuine());
  if (!sample().has_timestamp) {
    EXPECT_TRUE(at(std::chrono::hours{24 * 365}).genuine());
    return;
  }
  EXPECT_EQ(at(300s + 1us).fault, SignatureFault::too_old);
  EXPECT_EQ(at(-300s - 1us).fault, SignatureFault::too_new);
  EXPECT_EQ(at(3601s).detail, "it is late by 3601 s, and 300 s are allowed");
  EXPECT_EQ(at(-3601s).detail, "it is early by 3601 s, and 300 s are allowed");
}

TEST_P(Signature, no_detail_shows_a_secret_or_a_signature) {
  const std::string value{*sample().request.headers.find(sample().header)};
  HttpRequest request = sample().request;
  request.body += "x";
  for (const Verification& found :
       {verify(request, {sample().secret}), verify(sample().request, {other_secret(sample())})}) {
    EXPECT_EQ(found.detail.find(sample().secret), std::string::npos);
    EXPECT_EQ(found.detail.find(value), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(all, Signature, ::testing::ValuesIn(samples()),
                         [](const auto& test) { return std::string{test.param.name}; });

// ---- what is special about one scheme

TEST(GitLab, a_token_is_compared_as_a_whole) {
  const SignatureVerifier verifier{GitLabToken{}, {"new token", "old token"}};
  const auto verify = [&](HttpHeaders headers) {
    return verifier.verify(a_request(std::move(headers), "{}"), sent);
  };
  EXPECT_TRUE(verify({{"X-Gitlab-Token", "new token"}}).genuine());
  EXPECT_TRUE(verify({{"x-gitlab-token", "old token"}}).genuine());
  EXPECT_EQ(verify({}).fault, SignatureFault::missing_header);
  for (const char* wrong : {"", "new", "new token ", "NEW TOKEN", "new tokennew token"}) {
    const Verification found = verify({{"X-Gitlab-Token", wrong}});
    EXPECT_EQ(found.fault, SignatureFault::no_match) << wrong;
    EXPECT_EQ(found.detail, "unknown token (2 tried)");
  }
  EXPECT_EQ(verify({{"Authorization", "Bearer new token"}}).fault, SignatureFault::missing_header);
}

TEST(Ed25519, a_secret_is_a_public_key) {
  const std::string digits = hex(ed25519_public_key(seed));
  EXPECT_NO_THROW((SignatureVerifier{Ed25519Signature{}, {digits, public_key}}));
  for (const std::string& wrong :
       {digits.substr(2), digits + "00", private_key, std::string{"whsec_c2VjcmV0"}}) {
    try {
      const SignatureVerifier made{Ed25519Signature{}, {digits, wrong}};
      ADD_FAILURE() << "taken";
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("ed25519: secret 2 must be an Ed25519 public key"), std::string::npos);
      EXPECT_EQ(text.find(wrong), std::string::npos);
    }
  }
}

TEST(Fields, any_of_several_signatures_will_do_and_other_fields_mean_nothing) {
  const Sample one = paddle();
  const SignatureVerifier verifier{one.scheme, {one.secret}};
  const std::string good{*one.request.headers.find("Paddle-Signature")};
  HttpRequest request = one.request;
  request.headers.set("Paddle-Signature", "h1=00;x;=y; " + good + ";h2=1");
  EXPECT_TRUE(verifier.verify(request, sent).genuine());
  request.headers.set("Paddle-Signature", good.substr(good.find("h1=")));
  EXPECT_EQ(verifier.verify(request, sent).detail,
            "header Paddle-Signature: expected ts=<seconds>;h1=<hex>");
  std::string many;
  for (int i = 0; i < 16; ++i) many += "h1=00;";
  request.headers.set("Paddle-Signature", many + good);
  EXPECT_EQ(verifier.verify(request, sent).fault, SignatureFault::no_match);
}

TEST(Fields, a_scheme_that_contradicts_itself_is_refused) {
  const std::vector<HmacSignature> wrong = {
      {.header = "X-Sign", .timestamp_field = "t"},
      {.header = "X-Sign",
       .timestamp_header = "X-Time",
       .signature_field = "v1",
       .timestamp_field = "t"},
      {.header = "X-Sign", .prefix = "sha256=", .signature_field = "v1"},
      {.header = "X-Sign", .signature_field = "v1", .signed_content = "{timestamp}.{body}"}};
  for (const HmacSignature& scheme : wrong) {
    EXPECT_THROW((SignatureVerifier{scheme, {"k"}}), std::invalid_argument);
  }
}

TEST(StripeScheme, one_of_several_signatures_is_enough) {
  Sample sample = stripe();
  sample.request.headers.set(
      "Stripe-Signature",
      "t=1614265330, v1=00, v1=7181029304ec45fe7829fcbe1407903eb88a9d205bc264f27d48e096d0bcb7e1, "
      "v1=a77f58ed88dac6c2cb9d24f149d7424c41f234b3beb04e25d9492b330816350e");
  EXPECT_TRUE(SignatureVerifier({sample.scheme}, {"whsec_test_secret"})
                  .verify(sample.request, sent)
                  .genuine());
  EXPECT_TRUE(
      SignatureVerifier({sample.scheme}, {"whsec_old"}).verify(sample.request, sent).genuine());
}

TEST(StripeScheme, a_changed_time_is_noticed) {
  Sample sample = stripe();
  std::string value{*sample.request.headers.find("Stripe-Signature")};
  value.replace(2, 10, "1614265331");
  sample.request.headers.set("Stripe-Signature", value);
  EXPECT_EQ(SignatureVerifier(sample.scheme, {sample.secret}).verify(sample.request, sent).fault,
            SignatureFault::no_match);
}

TEST(StripeScheme, refuses_times_that_are_none) {
  Sample sample = stripe();
  const SignatureVerifier verifier{sample.scheme, {sample.secret}};
  for (const char* time :
       {"", "-1", "+1", " 1614265330", "1614265330.0", "1e9", "99999999999999999999"}) {
    sample.request.headers.set("Stripe-Signature", std::string{"t="} + time + ",v1=00");
    EXPECT_EQ(verifier.verify(sample.request, sent).fault, SignatureFault::malformed_header)
        << time;
  }
}

TEST(StandardScheme, id_and_time_are_signed_too) {
  const Sample sample = standard();
  const SignatureVerifier verifier{sample.scheme, {sample.secret}};
  for (const auto& [name, value] :
       {std::pair{"webhook-id", "msg_other"}, std::pair{"webhook-timestamp", "1614265331"}}) {
    HttpRequest request = sample.request;
    request.headers.set(name, value);
    EXPECT_EQ(verifier.verify(request, sent).fault, SignatureFault::no_match) << name;
  }
  for (const char* name : {"webhook-id", "webhook-timestamp", "webhook-signature"}) {
    HttpRequest request = sample.request;
    HttpHeaders others;
    for (const auto& field : request.headers) {
      if (field.name != name) others.add(field.name, field.value);
    }
    request.headers = others;
    EXPECT_EQ(verifier.verify(request, sent).detail, std::string{"there is no header "} + name);
  }
}

TEST(StandardScheme, takes_the_headers_under_another_prefix) {
  const Sample sample = standard();
  HttpRequest request{.body = sample.request.body};
  for (const auto& field : sample.request.headers) {
    request.headers.add("svix-" + field.name.substr(8), field.value);
  }
  EXPECT_TRUE(SignatureVerifier(StandardWebhooks{"svix-"}, {sample.secret})
                  .verify(request, sent)
                  .genuine());
}

TEST(StandardScheme, signs_as_the_reference_libraries_do) {
  const Sample sample = standard();
  const HttpHeaders headers = WebhookSigner{{sample.secret}}.sign("msg_p5jXN8AQM9LWM0D4loKWxJek",
                                                                  sent, sample.request.body);
  for (const auto& field : sample.request.headers) {
    EXPECT_EQ(headers.find(field.name), field.value);
  }
}

TEST(StandardScheme, signs_with_every_secret_so_that_receivers_can_change_theirs) {
  const std::string first = make_webhook_secret();
  const std::string second = make_webhook_secret();
  EXPECT_NE(first, second);
  HttpRequest request{.body = "content"};
  request.headers =
      WebhookSigner{{first, second, private_key}}.sign("msg_1", sent + 999ms, request.body);
  EXPECT_EQ(request.headers.find("webhook-timestamp"), "1614265330");
  for (const std::string& secret : {first, second, public_key}) {
    EXPECT_TRUE(SignatureVerifier(StandardWebhooks{}, {secret}).verify(request, sent).genuine());
  }
  EXPECT_FALSE(SignatureVerifier(StandardWebhooks{}, {make_webhook_secret()})
                   .verify(request, sent)
                   .genuine());
}

TEST(StandardScheme, an_id_that_would_break_the_header_is_not_signed) {
  const WebhookSigner signer{{make_webhook_secret()}};
  EXPECT_THROW(static_cast<void>(signer.sign("a\r\nb: c", sent, "")), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(signer.sign("", sent, "")), std::invalid_argument);
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(StandardScheme, names_the_secret_that_is_none_and_never_shows_it) {
  const auto verifier = [](std::string secret) {
    return refusal([&] { SignatureVerifier{StandardWebhooks{}, {make_webhook_secret(), secret}}; });
  };
  EXPECT_EQ(
      verifier("whsec_not base64"),
      "signature scheme standard_webhooks: secret 2 must be whsec_, whpk_ or whsk_ and base64 "
      "behind it");
  EXPECT_EQ(
      verifier("whpk_" + base64("short")),
      "signature scheme standard_webhooks: secret 2 must hold an Ed25519 key of 32 bytes, not "
      "5");
  EXPECT_EQ(verifier(private_key),
            "signature scheme standard_webhooks: secret 2 is a private key; verifying wants whpk_ "
            "or whsec_");
  EXPECT_EQ(verifier(""), "signature scheme standard_webhooks: secret 2 is empty");
  EXPECT_EQ(refusal([] { WebhookSigner{{public_key}}; }),
            "signature scheme standard_webhooks: secret 1 is a public key; signing wants whsk_ or "
            "whsec_");
  EXPECT_EQ(refusal([] { WebhookSigner{{"whsk_" + base64(seed + seed)}}; }),
            "signature scheme standard_webhooks: secret 1: the two halves of the key do not belong "
            "together");
  EXPECT_NO_THROW(WebhookSigner{{"whsk_" + base64(seed + ed25519_public_key(seed))}});
}

TEST(HmacScheme, refuses_a_description_that_cannot_work) {
  const auto refused = [](HmacSignature scheme) {
    return refusal([&] { SignatureVerifier{scheme, {"k"}}; });
  };
  EXPECT_EQ(refused({.header = ""}),
            "signature scheme hmac: name the header that holds the signature");
  EXPECT_EQ(refused({.header = "X", .signed_content = "{body}."}),
            "signature scheme hmac: the signed content must end with {body}");
  EXPECT_EQ(refused({.header = "X", .signed_content = "{timestamp}{body}"}),
            "signature scheme hmac: a timestamp and {timestamp} in the signed content go "
            "together");
  EXPECT_EQ(refused({.header = "X", .timestamp_header = "T", .signed_content = "{body}"}),
            "signature scheme hmac: a timestamp and {timestamp} in the signed content go "
            "together");
}

TEST(HmacScheme, a_body_that_looks_like_a_placeholder_is_only_a_body) {
  HttpRequest request{
      .headers = {{"X-Sign", "291d96fade14717c5aa90ff0a9dbeeb496c29153b5ed4da89a009ba91e670909"},
                  {"X-Time", "1614265330"}},
      .body = "{timestamp}{body}"};
  const HmacSignature scheme{.header = "X-Sign", .timestamp_header = "X-Time"};
  EXPECT_TRUE(SignatureVerifier(scheme, {"k"}).verify(request, sent).genuine());
}

TEST(BearerScheme, takes_one_of_its_tokens_and_nothing_else) {
  const SignatureVerifier verifier{BearerToken{}, {"first", "second"}};
  const auto fault = [&](HttpHeaders headers) {
    return verifier.verify({.headers = std::move(headers)}, sent).fault;
  };
  EXPECT_EQ(fault({{"Authorization", "Bearer second"}}), std::nullopt);
  EXPECT_EQ(fault({{"authorization", "bearer first"}}), std::nullopt);
  EXPECT_EQ(fault({{"Authorization", "Bearer third"}}), SignatureFault::no_match);
  EXPECT_EQ(fault({{"Authorization", "Bearer firs"}}), SignatureFault::no_match);
  EXPECT_EQ(fault({{"Authorization", "Bearer "}}), SignatureFault::malformed_header);
  EXPECT_EQ(fault({{"Authorization", "Basic first"}}), SignatureFault::malformed_header);
  EXPECT_EQ(fault({}), SignatureFault::missing_header);
}

TEST(UnsignedScheme, is_for_this_machine_only) {
  const SignatureVerifier verifier{Unsigned{}, {}};
  EXPECT_TRUE(verifier.verify({.loopback = true}, sent).genuine());
  EXPECT_EQ(verifier.verify({.loopback = false}, sent).fault, SignatureFault::not_loopback);
  EXPECT_EQ(refusal([] {
              SignatureVerifier{Unsigned{}, {"x"}};
            }),
            "signature scheme none takes no secret");
}

TEST(SignatureSchemes, are_known_by_name) {
  for (const char* name : {"stripe", "github", "standard_webhooks", "slack", "shopify", "gitlab",
                           "hmac", "ed25519", "graph", "bearer", "none"}) {
    EXPECT_EQ(to_string(signature_scheme(name)), name);
  }
  EXPECT_EQ(refusal([] { signature_scheme("strip"); }),
            "there is no signature scheme 'strip'; there are: stripe, github, standard_webhooks, "
            "slack, shopify, gitlab, hmac, ed25519, graph, bearer, none");
  EXPECT_EQ(refusal([] {
              SignatureVerifier{StripeSignature{}, {}};
            }),
            "signature scheme stripe needs a secret");
  EXPECT_EQ(refusal([] { SignatureVerifier(StripeSignature{}, {"x"}, 0s); }),
            "signature scheme stripe: the tolerance must lie between 1 s and 24 h");
}

}  // namespace
}  // namespace twinbox
