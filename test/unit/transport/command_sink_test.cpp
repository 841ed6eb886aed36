// The command sink with real programs: scripts that the test writes.
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "a_message.hpp"
#include <twinbox/sink.hpp>

namespace twinbox::test {
namespace {

using namespace std::chrono_literals;
using Kind = Outcome::Kind;
namespace fs = std::filesystem;

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator{"/proc/self/fd"}, fs::directory_iterator{}));
}

class CommandSinkRuns : public ::testing::Test {
 protected:
  CommandSinkRuns() {
    std::string name = (fs::temp_directory_path() / "twinbox_command.XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~CommandSinkRuns() override { fs::remove_all(folder_); }

  std::string script(const std::string& text) {
    const fs::path file = folder_ / ("script" + std::to_string(++scripts_));
    std::ofstream{file} << "#!/bin/sh\n" << text << "\n";
    fs::permissions(file, fs::perms::owner_all);
    return file.string();
  }
  /// Runs a script that finds the test's folder in $DIR.
  Outcome run(const std::string& text, const Message& message = claimed(),
              CommandSinkOptions options = {.command = {}}, std::stop_token stop = {}) {
    options.command = {script(text)};
    options.variables.emplace_back("DIR", folder_.string());
    return command_sink(std::move(options))(message, std::move(stop));
  }
  std::string read(const std::string& name) {
    std::ostringstream text;
    text << std::ifstream{folder_ / name}.rdbuf();
    return text.str();
  }
  std::string fifo(const std::string& name) {
    const std::string path = folder_ / name;
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    return path;
  }

  fs::path folder_;
  int scripts_ = 0;
};

/// The end of a pipe that a program's whole family holds: closed once all of them are gone.
class Family {
 public:
  explicit Family(const std::string& path) : pipe_(open(path.c_str(), O_RDONLY | O_NONBLOCK)) {
    fcntl(pipe_, F_SETFL, 0);
  }
  ~Family() { close(pipe_); }
  void wait_for_its_end() const {
    char byte;
    while (::read(pipe_, &byte, 1) > 0) {
    }
  }
  [[nodiscard]] char next() const {
    char byte = 0;
    while (::read(pipe_, &byte, 1) == 0) std::this_thread::yield();  // nobody has opened it yet
    return byte;
  }
  /// False: somebody lives on. The limit is only reached by a test that fails.
  [[nodiscard]] bool ends_within(std::chrono::milliseconds limit) const {
    pollfd watched{pipe_, POLLIN, 0};
    for (char byte = 0; poll(&watched, 1, static_cast<int>(limit.count())) > 0;) {
      if (::read(pipe_, &byte, 1) <= 0) return true;
    }
    return false;
  }

 private:
  int pipe_;
};

TEST_F(CommandSinkRuns, a_program_with_the_payload_on_its_standard_input) {
  const std::string payload{"a\0b\xff\n", 5};
  EXPECT_EQ(run("cat > $DIR/out", claimed("order.placed", payload)).kind(), Kind::done);
  EXPECT_EQ(read("out"), payload);
  EXPECT_EQ(run("cat /dev/stdin > $DIR/out2", claimed("order.placed", payload)).kind(), Kind::done);
  EXPECT_EQ(read("out2"), payload);
}

TEST_F(CommandSinkRuns, a_program_with_the_attributes_in_its_environment) {
  Message message = claimed("order.placed", "x", "größe 1");
  message.attempts = 4;
  message.content_type = "application/json";
  message.correlation_id = CorrelationId{"story"};
  message.partition_key = PartitionKey{"customer=7"};
  message.headers = R"({"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})";
  setenv("TWINBOX_TOKEN", "secret", 1);
  setenv("SOME_SECRET", "secret", 1);
  EXPECT_EQ(
      run("env > $DIR/out", message, {.command = {}, .variables = {{"COLOUR", "blue"}}}).kind(),
      Kind::done);
  unsetenv("TWINBOX_TOKEN");
  unsetenv("SOME_SECRET");
  const std::string out = "\n" + read("out");
  for (const char* line :
       {"TWINBOX_ID=größe 1", "TWINBOX_SOURCE=shop", "TWINBOX_TOPIC=order.placed",
        "TWINBOX_ATTEMPT=5", "TWINBOX_CREATED_AT=2030-01-15T00:00:00Z",
        "TWINBOX_CONTENT_TYPE=application/json", "TWINBOX_CORRELATION_ID=story",
        "TWINBOX_PARTITION_KEY=customer=7", "TWINBOX_HEADERS={\"traceparent\"",
        "TWINBOX_TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "COLOUR=blue", "PATH="}) {
    EXPECT_TRUE(has(out, std::string{"\n"} + line)) << line << " in " << out;
  }
  EXPECT_FALSE(has(out, "secret")) << out;
}

TEST_F(CommandSinkRuns, a_program_whose_exit_code_is_the_outcome) {
  EXPECT_EQ(run("exit 0").kind(), Kind::done);
  EXPECT_EQ(run("exit 65").kind(), Kind::dead);
  for (const char* code : {"1", "2", "64", "66", "75", "77", "126", "127", "255"}) {
    const Outcome outcome = run(std::string{"exit "} + code);
    EXPECT_EQ(outcome.kind(), Kind::retry) << code;
    EXPECT_TRUE(has(outcome.reason(), std::string{"exited with "} + code)) << outcome.reason();
    EXPECT_EQ(outcome.log_cause()->str(), std::string{"exit "} + code);
  }
  EXPECT_EQ(run("exit 65", claimed(), {.command = {}, .dead_on = {}}).kind(), Kind::retry);
  EXPECT_EQ(run("exit 3", claimed(), {.command = {}, .dead_on = {3}}).kind(), Kind::dead);
  const Outcome killed = run("kill -9 $$");
  EXPECT_EQ(killed.kind(), Kind::retry);
  EXPECT_TRUE(has(killed.reason(), "was ended by signal 9")) << killed.reason();
}

TEST_F(CommandSinkRuns, a_program_whose_standard_error_is_the_error_cut_and_made_text) {
  const Outcome outcome = run("printf 'no \\377 room' >&2; echo unseen; exit 75");
  EXPECT_TRUE(has(outcome.reason(), "exited with 75: no \xEF\xBF\xBD room")) << outcome.reason();
  EXPECT_FALSE(has(outcome.reason(), "unseen"));
  const Outcome longer = run("yes error | head -c 1000000 >&2; exit 1");
  EXPECT_LE(longer.reason().size(), 4100u);
}

TEST_F(CommandSinkRuns, a_program_that_does_not_read_a_large_payload) {
  const Message message = claimed("order.placed", std::string(4'000'000, 'x'));
  EXPECT_EQ(run("exit 0", message).kind(), Kind::done);
  EXPECT_EQ(run("exec 0<&-; exit 0", message).kind(), Kind::done);
  EXPECT_EQ(run("head -c 10 > $DIR/out", message).kind(), Kind::done);
  EXPECT_EQ(read("out"), "xxxxxxxxxx");
}

TEST_F(CommandSinkRuns, a_program_past_its_timeout_ends_it_with_all_its_children) {
  const std::string pipe = fifo("alive");
  const Family family{pipe};
  const Outcome outcome =
      run("exec 3>$DIR/alive; (trap '' TERM; sleep 1000) & echo busy >&2; sleep 1000", claimed(),
          {.command = {}, .timeout = 200ms, .kill_after = 1min});
  EXPECT_EQ(outcome.kind(), Kind::retry);
  EXPECT_TRUE(has(outcome.reason(), "ran past its timeout of 200 ms: busy")) << outcome.reason();
  family.wait_for_its_end();
}

TEST_F(CommandSinkRuns, a_program_that_does_not_want_to_end_ends_it_all_the_same) {
  const std::string pipe = fifo("alive");
  const Family family{pipe};
  const Outcome outcome = run("exec 3>$DIR/alive; trap '' TERM; while :; do sleep 1000; done",
                              claimed(), {.command = {}, .timeout = 50ms, .kill_after = 50ms});
  EXPECT_EQ(outcome.kind(), Kind::retry);
  family.wait_for_its_end();
}

TEST_F(CommandSinkRuns, a_program_that_ends_with_the_process_that_runs_it) {
  const std::string pipe = fifo("alive");
  const Family family{pipe};
  const pid_t host = fork();
  ASSERT_GE(host, 0);
  if (host == 0) {
    run("exec 3>$DIR/alive; echo x >&3; exec sleep 1000", claimed(),
        {.command = {}, .timeout = 1h, .kill_after = 1h});
    _exit(0);
  }
  EXPECT_EQ(family.next(), 'x');
  kill(host, SIGKILL);
  waitpid(host, nullptr, 0);
  EXPECT_TRUE(family.ends_within(30s));
}

TEST_F(CommandSinkRuns, a_program_until_a_stop_is_requested) {
  const std::string pipe = fifo("alive");
  std::stop_source stop;
  std::jthread stopper{[&] {
    std::ifstream{pipe}.get();  // it runs
    stop.request_stop();
  }};
  const Outcome outcome = run("echo x > $DIR/alive; sleep 1000", claimed(),
                              {.command = {}, .timeout = 1h, .kill_after = 1h}, stop.get_token());
  EXPECT_EQ(outcome.kind(), Kind::retry);
  EXPECT_TRUE(has(outcome.reason(), "was stopped")) << outcome.reason();
}

TEST_F(CommandSinkRuns, a_program_that_leaves_a_child_behind_does_not_wait_for_it) {
  const std::string pipe = fifo("life");
  const int keeper = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(run("exec 3<$DIR/life; cat <&3 >/dev/null & exit 0").kind(), Kind::done);
  close(keeper);  // lets the child end
}

TEST_F(CommandSinkRuns, a_program_without_the_descriptors_of_this_process) {
  const int leaky = open("/dev/null", O_RDONLY);  // as a library may do it, without O_CLOEXEC
  const std::size_t before = open_descriptors();
  EXPECT_EQ(run("exec ls /proc/self/fd > $DIR/out").kind(), Kind::done);
  for (int i = 0; i < 20; ++i) run("exit 1");
  EXPECT_EQ(open_descriptors(), before);
  close(leaky);
  // 3 is the folder that is listed.
  std::istringstream lines{read("out")};
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line == "0" || line == "1" || line == "2" || line == "3") << line;
  }
}

TEST_F(CommandSinkRuns, a_program_in_the_directory_and_with_the_arguments_it_was_given) {
  const std::string file = script("pwd > \"$1\"; echo \"$2\" >> \"$1\"");
  const auto sink = command_sink(
      {.command = {file, (folder_ / "out").string(), "two words; $HOME"}, .directory = "/usr"});
  EXPECT_EQ(sink(claimed(), {}).kind(), Kind::done);
  EXPECT_EQ(read("out"), "/usr\ntwo words; $HOME\n");
}

TEST_F(CommandSinkRuns, a_program_with_its_signals_as_they_are_by_default) {
  signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(run("yes | head -c 1 > $DIR/out; grep SigIgn /proc/$$/status > $DIR/out2").kind(),
            Kind::done);
  signal(SIGPIPE, SIG_DFL);
  const std::string ignored = read("out2").substr(std::string_view{"SigIgn:"}.size());
  EXPECT_EQ(std::stoull(ignored, nullptr, 16) & (1ULL << (SIGPIPE - 1)), 0u) << ignored;
}

TEST_F(CommandSinkRuns, nothing_that_cannot_be_run_and_names_it) {
  const auto complaint = [](const std::string& file) {
    try {
      command_sink({.command = {file}})(claimed(), {});
      return std::string{"ran"};
    } catch (const std::system_error& error) {
      return std::string{error.what()};
    }
  };
  const std::string missing = (folder_ / "missing").string();
  EXPECT_EQ(complaint(missing), "'" + missing + "' cannot be run: No such file or directory");
  const std::string not_executable = (folder_ / "text").string();
  std::ofstream{not_executable} << "hello";
  EXPECT_EQ(complaint(not_executable), "'" + not_executable + "' cannot be run: Permission denied");
}

TEST_F(CommandSinkRuns, nothing_for_attributes_that_do_not_fit_into_an_environment) {
  Message message = claimed();
  message.headers = R"({"x":")" + std::string(200'000, 'x') + R"("})";
  const Outcome outcome = run("exit 0", message);
  EXPECT_EQ(outcome.kind(), Kind::dead);
  EXPECT_TRUE(has(outcome.reason(), "do not fit into an environment")) << outcome.reason();
}

TEST_F(CommandSinkRuns, nothing_that_makes_no_sense) {
  const auto refusal = [](CommandSinkOptions options) {
    try {
      command_sink(std::move(options));
      return std::string{"taken"};
    } catch (const std::invalid_argument& error) {
      return std::string{error.what()};
    }
  };
  EXPECT_TRUE(has(refusal({.command = {}}), "needs a program"));
  EXPECT_TRUE(has(refusal({.command = {""}}), "needs a program"));
  EXPECT_TRUE(has(refusal({.command = {"x"}, .timeout = 0s}), "timeout"));
  EXPECT_TRUE(has(refusal({.command = {"x"}, .kill_after = -1s}), "kill_after"));
  EXPECT_TRUE(has(refusal({.command = {"x"}, .variables = {{"A=B", "c"}}}), "A=B"));
  EXPECT_TRUE(has(refusal({.command = {"x"}, .variables = {{"TWINBOX_ID", "c"}}}), "TWINBOX_"));
  EXPECT_TRUE(has(refusal({.command = {"x"}, .dead_on = {0}}), "dead_on holds 0"));
}

}  // namespace
}  // namespace twinbox::test
