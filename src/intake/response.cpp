#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "core/json.hpp"
#include "twinbox/error.hpp"
#include "twinbox/intake.hpp"

namespace twinbox {
namespace {

std::string_view reason_phrase(int status) noexcept {
  switch (status) {
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 422: return "Unprocessable Content";
    case 503: return "Service Unavailable";
    default: return "Internal Server Error";
  }
}

bool same_word(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(
      a, b, [](char x, char y) { return (x >= 'A' && x <= 'Z' ? char(x + 32) : x) == y; });
}

HttpResponse problem_response(int status, std::string_view detail) {
  return problem(status, reason_phrase(status), detail);
}

HttpResponse unavailable(const IntakeOptions& options, std::string_view detail) {
  HttpResponse answer = problem_response(503, detail);
  answer.headers.add("Retry-After", std::to_string(options.retry_after.count()));
  return answer;
}

void log_error(const IntakeOptions& options, std::string_view operation, std::string_view kind,
               std::string_view error) {
  options.environment.write(LogLevel::error, "intake_error",
                            {{"operation", operation}, {"kind", kind}, {"error", error}});
}

HttpResponse response_to(const IntakeOptions& options, std::string_view operation,
                         const DatabaseError& error) {
  using Kind = DatabaseError::Kind;
  log_error(options, operation, to_string(error.kind()), error.what());
  switch (error.kind()) {
    case Kind::invalid_request:
      return problem_response(
          422, "the store refuses the content of this message; retrying it will not help");
    case Kind::other: return problem_response(500, "the store failed; retry later");
    default: break;
  }
  // A commit in doubt may have happened: repeating the same id is harmless.
  return unavailable(options,
                     "the store cannot take it now; send it again later, with the same id");
}

}  // namespace

HttpResponse response_or_problem(const IntakeOptions& options, std::string_view operation,
                                 const std::function<HttpResponse()>& work) {
  try {
    return work();
  } catch (const RequestError& error) {
    HttpResponse answer = problem_response(error.status(), error.what());
    if (error.status() == 405) answer.headers.add("Allow", "POST");
    if (error.status() == 415) answer.headers.add("Accept-Encoding", "identity");
    return answer;
  } catch (const std::invalid_argument& error) {
    return problem_response(400, error.what());
  } catch (const std::out_of_range& error) {
    return problem_response(400, error.what());
  } catch (const DatabaseError& error) {
    return response_to(options, operation, error);
  } catch (const SchemaError& error) {
    log_error(options, operation, "schema", error.what());
    return unavailable(options, "the store is not ready; send it again later");
  } catch (const std::exception& error) {
    log_error(options, operation, "other", text_of(error));
  } catch (...) {
    log_error(options, operation, "other", "something that is no std::exception was thrown");
  }
  return problem_response(500, "it could not be taken; send it again later");
}

void require_post(const HttpRequest& request, const IntakeOptions& options) {
  if (request.method != "POST") throw RequestError(405, "only POST is taken here");
  if (request.body.size() > options.max_body) {
    throw RequestError(413, "the body has " + std::to_string(request.body.size()) + " bytes, and " +
                                std::to_string(options.max_body) + " are allowed");
  }
  for (const std::string_view coding : request.headers.all("Content-Encoding")) {
    if (coding.empty() || same_word(coding, "identity")) continue;
    throw RequestError(415,
                       "header Content-Encoding: a body is stored as it comes, and its receiver "
                       "would not learn how it is encoded; send it without an encoding");
  }
}

HttpResponse accepted_response(const Arrival& arrival, const Accepted& accepted) {
  std::string body = R"({"state":)";
  append_json_string(body, to_string(accepted.state));
  body += R"(,"source":)";
  append_json_string(body, arrival.source.view());
  body += R"(,"id":)";
  append_json_string(body, arrival.id.view());
  body += accepted.conflict ? R"(,"conflict":true})" : R"(,"conflict":false})";
  // A conflicting arrival stores no content, even if a missing delivery was added.
  return json_response(accepted.duplicate() || accepted.conflict ? 200 : 202, std::move(body));
}

HttpResponse accept_and_respond(const AcceptCall& accept, Arrival arrival) {
  arrival.on_duplicate = OnDuplicate::keep_first;  // a sender may not change a known message
  const std::vector<Accepted> accepted = accept({&arrival, 1});
  if (accepted.size() != 1) {
    throw std::logic_error("the accept call must give one answer for each arrival");
  }
  return accepted_response(arrival, accepted[0]);
}

AcceptCall accept_into(Inbox& inbox, std::vector<HandlerName> handlers) {
  return [&inbox, handlers = std::move(handlers)](std::span<const Arrival> arrivals) {
    // A single one shares its commit with concurrent requests.
    if (arrivals.size() == 1 && handlers.empty()) {
      return std::vector<Accepted>{inbox.accept(arrivals[0])};
    }
    return inbox.accept(arrivals, handlers);
  };
}

AcceptCall accept_into(Channels& channels, std::string channel) {
  return [&channels, channel = std::move(channel)](std::span<const Arrival> arrivals) {
    std::vector<Accepted> answers;
    for (const Arrival& arrival : arrivals) answers.push_back(channels.accept(channel, arrival));
    return answers;
  };
}

}  // namespace twinbox
