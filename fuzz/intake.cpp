// Every intake, over a list instead of a store: whatever comes is either taken or refused, and what
// is refused writes nothing.
#include <vector>

#include "core/json.hpp"
#include "request.hpp"
#include "require.hpp"
#include <twinbox/intake.hpp>
#include <twinbox/webhook.hpp>

using namespace twinbox;

namespace {

std::vector<Arrival> written;

std::vector<Accepted> accept(std::span<const Arrival> arrivals) {
  written.insert(written.end(), arrivals.begin(), arrivals.end());
  return std::vector<Accepted>(arrivals.size(), Accepted{Acceptance::accepted});
}

std::vector<WebhookEndpoint> endpoints() {
  WebhookEndpoint open{.name = "open", .scheme = Unsigned{}, .secrets = {}, .accept = accept};
  open.id = ValueFrom::pointer("/data/id");
  open.topic = ValueFrom::pointer("/type");
  open.source = ValueFrom::header("X-Source");
  return {open};
}

const IntakeOptions options{.max_events = 100, .keep_headers = {"User-Agent"}};
const InboxIntake inbox{accept, options};
const EventIntake events{accept, options};
const NamedEventIntake named{{EventName{"order", 2}}, accept_mode(accept), options};
const WebhookIntake webhooks{endpoints(), options};
const SidecarIntake sidecar{
    {{.pubsub = "p", .topic = "t", .route = "/sidecar/t", .take = accept_mode(accept)}}, options};

template <class Intake>
void send(const Intake& intake, const HttpRequest& request) {
  written.clear();
  const HttpResponse answer = intake.handle(request);
  require(answer.status < 500, "no request is a surprise");
  require(answer.status < 400 || written.empty(), "what is refused writes nothing");
  require(is_json(answer.body), "every answer is JSON");
  for (const Arrival& arrival : written) {
    require(!arrival.extras.headers || is_json_object(*arrival.extras.headers),
            "what rides along is a JSON object");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  HttpRequest request = request_of(text_of(data, size));
  request.loopback = true;
  send(inbox, request);
  send(events, request);
  send(named, request);
  send(webhooks, request);
  send(sidecar, request);
  return 0;
}
