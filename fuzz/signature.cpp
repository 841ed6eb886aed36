// The headers of signatures: nobody without the secret makes one, whoever has it makes a good one.
#include <chrono>

#include "request.hpp"
#include "require.hpp"
#include <twinbox/webhook.hpp>

using namespace twinbox;
using namespace std::chrono_literals;

namespace {

constexpr Instant now{1614265330s};

const std::string secret = make_webhook_secret();

const SignatureVerifier verifiers[] = {
    {StripeSignature{}, {secret}},
    {GitHubSignature{}, {secret}},
    {StandardWebhooks{}, {secret, "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="}},
    {SlackSignature{}, {secret}},
    {ShopifySignature{}, {secret}},
    {HmacSignature{.header = "X-Sign",
                   .hash = MacHash::sha512,
                   .encoding = SignatureEncoding::base64,
                   .prefix = "v=",
                   .timestamp_header = "X-Time"},
     {secret}},
    {HmacSignature{.header = "X-Fields", .signature_field = "h1", .timestamp_field = "ts"},
     {secret}},
    {Ed25519Signature{}, {"whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="}},
    {GitLabToken{}, {secret}},
    {BearerToken{}, {secret}}};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  HttpRequest request = request_of(text_of(data, size));
  for (const SignatureVerifier& verifier : verifiers) {
    const Verification found = verifier.verify(request, now);
    require(!found.genuine(), "nobody guesses a secret");
    require(!found.detail.empty() && found.signature.empty(), "a refusal has its reason");
    require(found.detail.find(secret) == std::string::npos, "no secret is told");
  }
  request.headers = WebhookSigner{{secret}}.sign("msg_1", now, request.body);
  require(verifiers[2].verify(request, now).genuine(), "what we sign is genuine");
  request.body += 'x';
  require(!verifiers[2].verify(request, now).genuine(), "what was changed is not");
  return 0;
}
