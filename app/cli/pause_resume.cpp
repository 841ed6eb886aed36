// The commands pause and resume, sent to the daemon over HTTP.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdlib>
#include <curl/curl.h>

#include "cli/json.hpp"
#include "cli/open_store.hpp"
#include "cli/payload.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"

namespace twinbox::cli {
namespace {

namespace json = boost::json;

struct PauseOptions {
  std::string server;
  std::string token_file;
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  std::optional<std::string> topic;
};

struct Response {
  long status = 0;
  std::string body;
};

std::size_t append(char* data, std::size_t size, std::size_t count, void* body) {
  static_cast<std::string*>(body)->append(data, size * count);
  return size * count;
}

std::string token(const PauseOptions& options) {
  std::string text;
  if (!options.token_file.empty())
    text = read_file(options.token_file);
  else if (const char* value = std::getenv("TWINBOX_TOKEN"); value != nullptr)
    text = value;
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.pop_back();
  if (text.find_first_of("\r\n") != std::string::npos)
    throw CliError(exit_usage, "the token has more than one line; give a single word");
  return text;
}

/// Throws CliError if the daemon does not respond.
Response post(const std::string& url, const std::string& body, const PauseOptions& options) {
  using Handle = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
  using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;
  const Handle handle(curl_easy_init(), curl_easy_cleanup);
  Headers headers(nullptr, curl_slist_free_all);
  const auto add = [&](const std::string& line) {
    headers.reset(curl_slist_append(headers.release(), line.c_str()));
  };
  add("Content-Type: application/json");
  if (const std::string secret = token(options); !secret.empty())
    add("Authorization: Bearer " + secret);
  Response answer;
  curl_easy_setopt(handle.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle.get(), CURLOPT_POSTFIELDS, body.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle.get(), CURLOPT_CONNECTTIMEOUT, 5L);
  curl_easy_setopt(handle.get(), CURLOPT_TIMEOUT, 30L);
  if (!options.ca_file.empty())
    curl_easy_setopt(handle.get(), CURLOPT_CAINFO, options.ca_file.c_str());
  if (!options.certificate_file.empty())
    curl_easy_setopt(handle.get(), CURLOPT_SSLCERT, options.certificate_file.c_str());
  if (!options.key_file.empty())
    curl_easy_setopt(handle.get(), CURLOPT_SSLKEY, options.key_file.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &answer.body);
  const CURLcode code = curl_easy_perform(handle.get());
  if (code != CURLE_OK) {
    throw CliError(exit_daemon,
                   "the daemon at " + printable(options.server) +
                       " does not respond: " + curl_easy_strerror(code) +
                       "; start it with twinbox serve, or give its address with --server");
  }
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &answer.status);
  return answer;
}

std::string detail_of(const std::string& body) {
  json::error_code error;
  const json::value value = json::parse(body, error);
  if (error || !value.is_object()) return {};
  for (const char* name : {"detail", "title"}) {
    const json::value* member = value.as_object().if_contains(name);
    if (member != nullptr && member->is_string())
      return ": " + printable(std::string{member->as_string()});
  }
  return {};
}

/// The pauses that a resume did not end, such as those of single topics.
std::string still_paused(const std::string& body) {
  json::error_code error;
  const json::value value = json::parse(body, error);
  if (error || !value.is_object()) return {};
  std::string list;
  const auto add = [&](const std::string& what) { list += (list.empty() ? "" : ", ") + what; };
  const json::value* all = value.as_object().if_contains("paused");
  if (all != nullptr && all->is_bool() && all->as_bool()) add("everything");
  for (const auto& [member, word] :
       {std::pair{"paused_stores", "store "}, {"paused_topics", "topic "}}) {
    const json::value* names = value.as_object().if_contains(member);
    if (names == nullptr || !names->is_array()) continue;
    for (const json::value& name : names->as_array()) {
      if (name.is_string()) add(word + printable(std::string{name.as_string()}));
    }
  }
  return list;
}

/// The address on which a daemon with this configuration listens.
std::string address_of(const app::ServerConfig& server) {
  const std::string host = server.listen.starts_with(':') ? "127.0.0.1" : "";
  return (server.tls_certificate.empty() ? "http://" : "https://") + host + server.listen;
}

int ask(const CommonOptions& common, PauseOptions options, const std::string& verb,
        const Screen& screen) {
  if (options.server.empty()) options.server = address_of(chosen_config(common).server);
  while (options.server.ends_with('/')) options.server.pop_back();
  json::object body;
  if (!common.store.empty()) body["store"] = common.store;
  if (options.topic) body["topic"] = *options.topic;
  const Response answer =
      post(options.server + "/v1/dispatch/" + verb, json::serialize(body), options);
  if (answer.status == 401 || answer.status == 403) {
    throw CliError(exit_daemon,
                   "the daemon rejected the request (" + std::to_string(answer.status) + ")" +
                       detail_of(answer.body) +
                       "; give a token with the role operate in TWINBOX_TOKEN or --token-file");
  }
  if (answer.status < 200 || answer.status > 299)
    throw CliError(exit_daemon, "the daemon rejected the request (" +
                                    std::to_string(answer.status) + ")" + detail_of(answer.body));
  if (common.json) {
    screen.print(indented_json(answer.body) + "\n");
  } else {
    screen.print(verb + "d" + (options.topic ? " topic " + printable(*options.topic) : "") +
                 (common.store.empty() ? "" : " of store " + printable(common.store)) + "\n");
    const std::string rest = verb == "resume" ? still_paused(answer.body) : "";
    if (!rest.empty()) screen.note("still paused: " + rest + "\n");
  }
  return exit_ok;
}

Verb dispatch_verb(CommonOptions& common, const std::string& name, const std::string& summary,
                   const std::string& text) {
  auto options = std::make_shared<PauseOptions>();
  return {
      .name = name,
      .group = "Daemon",
      .summary = summary,
      .text = text,
      .options = with(
          {{"--topic", "TOPIC", "Only this topic", &options->topic},
           {"--store", "NAME", "Only this store", &common.store},
           {"--server", "URL",
            "Address of the daemon (default: the address in the configuration, "
            "http://127.0.0.1:7117)",
            &options->server},
           {"--token-file", "FILE", "File with the token (default: TWINBOX_TOKEN)",
            &options->token_file},
           {"--ca-file", "FILE", "CA certificates that the daemon's certificate is checked against",
            &options->ca_file},
           {"--certificate-file", "FILE",
            "Client certificate, needed if the daemon sets server.client_ca",
            &options->certificate_file},
           {"--key-file", "FILE", "Key of the client certificate (default: in the same file)",
            &options->key_file},
           {"--config", "FILE", "Configuration file (default: TWINBOX_CONFIG)", &common.config}},
          {answer_options(common)}),
      .examples = {{"TWINBOX_TOKEN=$(cat token) twinbox " + name, "everything"},
                   {"twinbox " + name + " --topic order.placed --token-file token", "one topic"}},
      .run = [&common, options, name](const Screen& screen) {
        return ask(common, *options, name, screen);
      }};
}

}  // namespace

Verb pause_verb(CommonOptions& common) {
  return dispatch_verb(common, "pause", "Stop the daemon from calling handlers",
                       "Calls in flight finish. The daemon still accepts messages.");
}

Verb resume_verb(CommonOptions& common) {
  return dispatch_verb(common, "resume", "Let the daemon call handlers again", "");
}

}  // namespace twinbox::cli
