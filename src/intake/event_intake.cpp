#include <charconv>
#include <utility>

#include "core/json.hpp"
#include "intake/event_request.hpp"
#include "intake/request.hpp"
#include "twinbox/intake.hpp"

namespace twinbox {

Arrival arrival_of(const CloudEvent& event, const HttpRequest& request,
                   const IntakeOptions& options) {
  // The event's own context is its publisher's; the request's belongs to its last carrier.
  const bool traced = event.extension("traceparent").has_value();
  Arrival arrival =
      to_arrival(event, properties_of(request, options, {.own = {}, .with_trace = !traced}));
  // The data alone: the carrier's parts (a trace, a time) may differ when it is sent again.
  arrival.extras.hash = ContentHash::of(event.data);
  check_times(arrival.extras, options);
  check_source(arrival.source, request, options);
  return arrival;
}

CloudEvent one_event(const HttpRequest& request, const IntakeOptions& options) {
  auto events = events_from_http(request.headers, request.body, options.max_events);
  if (events.size() != 1) throw RequestError(400, "one event is taken here, not a batch");
  return std::move(events[0]);
}

EventIntake::EventIntake(AcceptCall accept, IntakeOptions options, std::string path)
    : accept_(std::move(accept)), options_(std::move(options)), path_(std::move(path)) {}

HttpResponse EventIntake::handle(const HttpRequest& request) const {
  return response_or_problem(options_, "accept", [&] {
    path_segments(request, path_, 0);
    require_post(request, options_);
    std::vector<Arrival> arrivals;
    for (const CloudEvent& event :
         events_from_http(request.headers, request.body, options_.max_events)) {
      arrivals.push_back(arrival_of(event, request, options_));
    }
    if (content_mode(request.headers) != ContentMode::batch) {
      return accept_and_respond(accept_, std::move(arrivals.at(0)));
    }
    const auto accepted = arrivals.empty() ? std::vector<Accepted>{} : accept_(arrivals);
    int status = 200;
    std::string body = R"({"results":[)";
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      const HttpResponse one = accepted_response(arrivals[i], accepted.at(i));
      if (one.status == 202) status = 202;
      body += (i == 0 ? "" : ",") + one.body;
    }
    return json_response(status, body + "]}");
  });
}

IntakeCall accept_mode(AcceptCall accept) {
  return [accept = std::move(accept)](const Arrival& arrival) {
    return accept_and_respond(accept, arrival);
  };
}

NamedEventIntake::NamedEventIntake(const std::vector<EventName>& names, IntakeCall take,
                                   IntakeOptions options, std::string prefix)
    : names_(names.begin(), names.end()),
      take_(std::move(take)),
      options_(std::move(options)),
      prefix_(std::move(prefix)) {}

EventName NamedEventIntake::name_in(const HttpRequest& request) const {
  auto segments = path_segments(request, prefix_, 2);
  EventName name{std::move(segments[0]), 0};
  const std::string& version = segments[1];
  const char* end = version.data() + version.size();
  const bool number = version.size() > 1 && version[0] == 'v' && version[1] != '0' &&
                      std::from_chars(version.data() + 1, end, name.version).ptr == end;
  if (number && names_.contains(name)) return name;
  std::string versions, others;
  for (const EventName& known : names_) {
    if (known.name == name.name) {
      versions += (versions.empty() ? "v" : ", v") + std::to_string(known.version);
    }
    others += (others.empty() ? "" : ", ") + known.name + "/v" + std::to_string(known.version);
  }
  if (versions.empty()) {
    throw RequestError(404, "there is no event '" + name.name + "'; " +
                                (others.empty() ? "none is taken here" : "there are: " + others));
  }
  throw RequestError(404, "the event '" + name.name + "' has no version '" + version +
                              "'; there are: " + versions);
}

HttpResponse NamedEventIntake::handle(const HttpRequest& request) const {
  return response_or_problem(options_, "accept", [&] {
    const EventName name = name_in(request);
    require_post(request, options_);
    Arrival arrival = arrival_of(one_event(request, options_), request, options_);
    arrival.topic = name.topic();
    return take_(arrival);
  });
}

}  // namespace twinbox
