#include "daemon/config/config_safety.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <sys/stat.h>

#include "daemon/access/access.hpp"
#include "daemon/access/tokens.hpp"
#include "daemon/config/owned_sources.hpp"

namespace twinbox::app {
namespace {

constexpr std::size_t min_secret_size = 16;  ///< characters

struct CheckedFile {
  std::string key;
  std::string path;
  bool secret;  ///< only its owner should read it
};

std::vector<CheckedFile> files_of(const Config& config) {
  std::vector<CheckedFile> files;
  if (!config.file.empty()) files.push_back({"file", config.file.string(), false});
  files.push_back({"access.token_file", token_file(config).string(), true});
  if (!config.server.tls_key.empty()) {
    files.push_back({"server.tls_key", config.server.tls_key, true});
  }
  if (!config.server.client_ca.empty()) {
    files.push_back({"server.client_ca", config.server.client_ca, false});
  }
  for (const auto& [key, path] : config.secret_files) files.push_back({key, path, true});
  const auto add_broker = [&](const std::string& section, const BrokerConfig& broker) {
    for (const auto& [key, path] : {std::pair{"key_file", &broker.key_file},
                                    {"credentials_file", &broker.credentials_file}}) {
      if (!path->empty()) files.push_back({section + "." + key, *path, true});
    }
  };
  for (const SinkConfig& sink : config.sinks) {
    add_broker("sink." + sink.name, sink.broker);
    const bool holds_key = sink.kind == SinkConfig::Kind::http && sink.broker.key_file.empty();
    if (holds_key && !sink.broker.certificate_file.empty()) {
      files.push_back(
          {"sink." + sink.name + ".certificate_file", sink.broker.certificate_file, true});
    }
  }
  for (const SourceConfig& source : config.sources)
    add_broker("source." + source.name, source.broker);
  return files;
}

/// Empty: there is no such file, or it is none (a terminal, a pipe).
std::optional<mode_t> mode_of(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return {};
  return found.st_mode;
}

/// Every user may take a file out of this folder and put another one there under its name.
bool lets_replace(const std::filesystem::path& folder) {
  struct stat found {};
  return stat(folder.empty() ? "." : folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         (found.st_mode & S_IWOTH) != 0 && (found.st_mode & S_ISVTX) == 0;
}

class Report {
 public:
  explicit Report(const Config& config) : config_(config) {}

  void add(const std::string& key, std::string text) {
    const auto location = config_.key_locations.find(key);
    const std::string file = config_.file.empty() ? "configuration" : config_.file.string();
    list_.push_back(
        {location == config_.key_locations.end() ? file : location->second, key, std::move(text)});
  }
  std::vector<ConfigProblem> take() { return std::move(list_); }

 private:
  const Config& config_;
  std::vector<ConfigProblem> list_;
};

void warn_of_short(Report& report, const std::string& key,
                   const std::vector<std::string>& secrets) {
  for (std::size_t i = 0; i < secrets.size(); ++i) {
    if (secrets[i].size() >= min_secret_size) continue;
    report.add(key, "secret " + std::to_string(i + 1) + " has fewer than " +
                        std::to_string(min_secret_size) +
                        " characters and can be guessed; use a longer one, such as the output of "
                        "\"openssl rand -hex 32\"");
  }
}

/// Empty also for a file that is none: check_config tells that.
std::vector<Token> tokens_of(const Config& config) {
  try {
    return read_tokens(token_file(config));
  } catch (const std::exception&) {
    return {};
  }
}

/// The name of a token says who did what, and `twinbox token revoke` takes all of that name.
void warn_of_repeated_names(Report& report, const std::vector<Token>& tokens) {
  std::map<std::string_view, int> counts;
  for (const Token& token : tokens) {
    if (++counts[token.name] != 2) continue;
    report.add("access.token_file",
               "several tokens have the name \"" + token.name +
                   "\": the audit and the source of messages cannot tell them apart; give each a "
                   "name of its own");
  }
}

/// The name of a token is the source of what it enqueues, and a sink of type inbox passes it on.
void warn_of_owned_names(Report& report, const Config& config, const std::vector<Token>& tokens) {
  const SourceNames relayed = relayed_sources(config);
  if (relayed.empty()) return;
  const SourceNames owned = owned_sources(config);
  for (const Token& token : tokens) {
    const bool sends = token.role == Role::send || token.role == Role::admin;
    if (sends && relayed.contains(token.name)) {
      report.add("access.token_file",
                 "the token \"" + token.name +
                     "\" has the name that a sink of type inbox gives to messages without a "
                     "source, so their ids can be taken by it; give the token another name");
    }
    if (!sends || !owned.contains(token.name)) continue;
    report.add("access.token_file",
               "messages enqueued with the token \"" + token.name +
                   "\" have its name as their source, which belongs to a webhook endpoint or a "
                   "broker, so a sink of type inbox dead-letters them; rename the token");
  }
}

}  // namespace

std::vector<ConfigProblem> unsafe_files(const Config& config) {
  Report report{config};
  for (const CheckedFile& file : files_of(config)) {
    const auto mode = mode_of(file.path);
    if (!mode || (*mode & S_IWOTH) == 0) continue;
    report.add(file.key, "every user may write the file " + file.path + "; run \"chmod o-w " +
                             file.path + "\" and check its content");
  }
  return report.take();
}

std::vector<ConfigProblem> config_warnings(const Config& config) {
  Report report{config};
  for (const CheckedFile& file : files_of(config)) {
    const std::filesystem::path folder = std::filesystem::path{file.path}.parent_path();
    if (lets_replace(folder)) {
      const std::string name = folder.empty() ? "." : folder.string();
      report.add(file.key, "every user may write the folder " + name +
                               ", and so replace the file " + file.path + "; run \"chmod o-w " +
                               name + "\"");
    }
    const auto mode = mode_of(file.path);
    if (!mode) continue;
    if (file.secret && (*mode & S_IROTH) != 0) {
      report.add(file.key, "every user may read the file " + file.path +
                               "; run \"chmod o= " + file.path + "\"");
    }
    if ((*mode & S_IWGRP) != 0) {
      report.add(file.key, "its group may write the file " + file.path + "; run \"chmod g-w " +
                               file.path + "\"");
    }
  }
  for (const SinkConfig& sink : config.sinks) {
    warn_of_short(report, "sink." + sink.name + ".secrets", sink.secrets);
  }
  const bool is_loopback_only = Access::is_loopback_only(config.server);
  const bool local = config.access.loopback_without_token && is_loopback_only;
  for (const WebhookConfig& webhook : config.webhooks) {
    warn_of_short(report, "webhook." + webhook.name + ".secrets", webhook.secrets);
    warn_of_short(report, "webhook." + webhook.name + ".verify_tokens", webhook.verify_tokens);
    if (webhook.scheme == "none" && !local) {
      report.add(
          "webhook." + webhook.name + ".scheme",
          "\"none\" rejects every request unless access.loopback_without_token is true and the "
          "server has no hosts, no TLS and a loopback address; use \"bearer\" or a signature");
    }
  }
  if (!is_loopback_only && config.access.loopback_without_token) {
    report.add(
        "access.loopback_without_token",
        "has no effect on a server with hosts, TLS or an address other than loopback; remove it");
  }
  const std::vector<Token> tokens = tokens_of(config);
  warn_of_repeated_names(report, tokens);
  warn_of_owned_names(report, config, tokens);
  return report.take();
}

}  // namespace twinbox::app
