#include "end_to_end/chaos/role.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <iostream>
#include <spawn.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace twinbox::chaos {

std::string Store::table(const std::string& name) const {
  return address.starts_with("sqlite:") ? name : "\"" + schema + "\"." + name;
}

BoxOptions Store::box() const {
  BoxOptions options;
  options.schema = schema;
  // A killed worker must never make a dead letter here: only the plan does.
  options.max_expiries = 0;
  options.retry.first_delay = std::chrono::milliseconds{50};
  options.retry.max_delay = std::chrono::milliseconds{500};
  options.retry.max_attempts = 1000;
  return options;
}

pid_t start_role(const RoleOptions& options, int control, const std::string& log) {
  std::vector<std::string> arguments{"/proc/self/exe",
                                     "--role",
                                     options.role == Role::producer ? "producer" : "worker",
                                     options.store.address,
                                     options.store.schema,
                                     options.ledger,
                                     std::to_string(options.seed),
                                     options.name,
                                     std::to_string(options.pool_size),
                                     std::to_string(options.threads)};
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, control, STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  pid_t process = 0;
  const int error = posix_spawn(&process, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), "posix_spawn");
  return process;
}

std::optional<RoleOptions> role_of(int count, char** words) {
  if (count != 10 || std::string_view{words[1]} != "--role") return std::nullopt;
  return RoleOptions{
      .role = std::string_view{words[2]} == "producer" ? Role::producer : Role::worker,
      .store = {words[3], words[4]},
      .ledger = words[5],
      .seed = std::strtoull(words[6], nullptr, 10),
      .name = words[7],
      .pool_size = std::atoi(words[8]),
      .threads = std::atoi(words[9])};
}

int run_role(const RoleOptions& options) {
  try {
    options.role == Role::producer ? produce(options) : work(options);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << options.name << ": " << error.what() << '\n';
    return 3;
  }
}

}  // namespace twinbox::chaos
