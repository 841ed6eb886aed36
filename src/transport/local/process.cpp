#include "transport/local/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace twinbox {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_error_bytes = 16 * 1024;

[[noreturn]] void fail(const std::string& what, int code = errno) {
  throw std::system_error(code, std::generic_category(), what);
}

class Descriptor {
 public:
  Descriptor(int number, const char* what) : number_(number) {
    if (number_ < 0) fail(what);
  }
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] int get() const noexcept { return number_; }
  void close() noexcept {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

/// Standard input is a file in memory: a program that does not read it blocks no thread and breaks
/// no pipe.
void write_input(const Descriptor& file, std::string_view input) {
  while (!input.empty()) {
    const ssize_t written = ::write(file.get(), input.data(), input.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("the payload cannot be handed over");
    input.remove_prefix(static_cast<std::size_t>(written));
  }
  if (lseek(file.get(), 0, SEEK_SET) != 0) fail("the payload cannot be handed over");
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

/// Blocks signals for this thread while it lives, and for a child until the child unblocks them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

/// Data for a child, prepared before the fork: between fork and exec only system calls are allowed,
/// since other threads may have held any lock.
struct ExecArguments {
  std::vector<char*> command;
  std::vector<char*> variables;
  const char* directory;  ///< null: that of this process
  int input;
  int error;
  int failure;  ///< where the child writes its errno when it cannot run the program
  pid_t parent;
};

/// The child's own part, step by step; returns only when a step failed. `failure` is where the
/// error is written.
void set_up_and_exec(const ExecArguments& start, int& failure) {
  constexpr int first_free = 3;
  // The kernel ends the program when its waiting thread is gone, and with it the process. A parent
  // that died before that call is no longer the parent.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return;
  if (getppid() != start.parent) _exit(127);
  if (setpgid(0, 0) != 0) return;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    sigaction(number, &usual, nullptr);  // fails for those that cannot be caught
  }
  // Moves them out of the range of their target numbers.
  const int input = fcntl(start.input, F_DUPFD_CLOEXEC, first_free + 3);
  const int error = fcntl(start.error, F_DUPFD_CLOEXEC, first_free + 3);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  const int output = nowhere < 0 ? -1 : fcntl(nowhere, F_DUPFD_CLOEXEC, first_free + 3);
  if (failure != first_free) {
    if (dup3(failure, first_free, O_CLOEXEC) < 0) return;
    failure = first_free;
  }
  if (dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0) return;
  if (dup2(error, STDERR_FILENO) < 0) return;
  // All other open descriptors are closed there, close-on-exec or not.
  if (close_range(first_free + 1, ~0U, 0) != 0) return;
  if (start.directory != nullptr && chdir(start.directory) != 0) return;
  sigset_t none;
  sigemptyset(&none);
  if (sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return;
  execvpe(start.command[0], start.command.data(), start.variables.data());
}

[[noreturn]] void run_child(const ExecArguments& start) {
  int failure = start.failure;
  set_up_and_exec(start, failure);
  const int code = errno;
  _exit(::write(failure, &code, sizeof code) == sizeof code ? 127 : 126);
}

/// Throws std::system_error when the program could not be run.
pid_t start_program(const ProcessOptions& options, int input, int error) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe2");
  const Descriptor result{ends[0], "pipe2"};
  Descriptor failure{ends[1], "pipe2"};
  const ExecArguments start{pointers(options.command),
                            pointers(options.variables),
                            options.directory.empty() ? nullptr : options.directory.c_str(),
                            input,
                            error,
                            failure.get(),
                            getpid()};
  pid_t pid = 0;
  {
    const SignalsBlocked blocked;
    pid = fork();
    if (pid == 0) run_child(start);
  }
  if (pid < 0) fail("'" + options.command[0] + "' cannot be run");
  failure.close();
  int code = 0;
  ssize_t got = 0;
  do {
    got = ::read(result.get(), &code, sizeof code);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return pid;
  waitpid(pid, nullptr, 0);
  fail("'" + options.command[0] + "' cannot be run", got == sizeof code ? code : EIO);
}

/// A child that has not been waited for: until then its pid, and its group's, is not reused.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (pid_ == 0) return;
    signal_group(SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void signal_group(int number) const noexcept { kill(-pid_, number); }
  /// Its exit status; empty when another waiter took it.
  std::optional<siginfo_t> wait() noexcept {
    siginfo_t info{};
    int result = 0;
    do {
      result = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED);
    } while (result != 0 && errno == EINTR);
    pid_ = 0;
    return result == 0 ? std::optional{info} : std::nullopt;
  }

 private:
  pid_t pid_;
};

/// Reads the available output, and keeps the end of it. False: there will be no more.
bool read_error(int pipe, std::string& kept) {
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = ::read(pipe, piece.data(), piece.size());
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    kept.append(piece.data(), static_cast<std::size_t>(got));
    if (kept.size() > max_error_bytes) kept.erase(0, kept.size() - max_error_bytes);
  }
}

int millis_until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

/// Watches a running child, and ends it when its time is over or a stop is requested.
class ProcessWatcher {
 public:
  ProcessWatcher(const ProcessOptions& options, Child& child, int ended, int error, int stop)
      : options_(options), child_(child), ended_(ended), error_(error), stop_(stop) {}

  ProcessResult run() {
    Clock::time_point end = Clock::now() + options_.timeout;
    for (;;) {
      pollfd watched[] = {
          {ended_, POLLIN, 0}, {error_, POLLIN, 0}, {ending_because_ ? -1 : stop_, POLLIN, 0}};
      if (poll(watched, 3, millis_until(end)) < 0) {
        if (errno != EINTR) fail("poll");
        continue;
      }
      if (watched[1].revents != 0 && !read_error(error_, text_)) error_ = -1;
      if (watched[0].revents != 0) return finished();
      const bool stopped = watched[2].revents != 0;
      if (stopped || Clock::now() >= end) end = terminate_or_kill(stopped);
    }
  }

 private:
  /// Requests its end, and forces it after an earlier request. Returns when to check again.
  Clock::time_point terminate_or_kill(bool stopped) {
    if (ending_because_) {
      child_.signal_group(SIGKILL);
      return Clock::now() + std::chrono::seconds{1};
    }
    ending_because_ = stopped ? ProcessResult::Kind::stopped : ProcessResult::Kind::timed_out;
    child_.signal_group(SIGTERM);
    return Clock::now() + options_.kill_after;
  }

  ProcessResult finished() {
    // A process that it left behind may still hold the pipe: use the output so far.
    if (error_ >= 0) read_error(error_, text_);
    if (ending_because_) child_.signal_group(SIGKILL);
    const std::optional<siginfo_t> info = child_.wait();
    if (ending_because_) return {*ending_because_, 0, std::move(text_)};
    if (!info) {
      fail("how '" + options_.command[0] +
               "' ended is unknown: this program ignores SIGCHLD, or waits for any child",
           ECHILD);
    }
    const bool exited = info->si_code == CLD_EXITED;
    return {exited ? ProcessResult::Kind::exited : ProcessResult::Kind::signalled, info->si_status,
            std::move(text_)};
  }

  const ProcessOptions& options_;
  Child& child_;
  int ended_;
  int error_;
  int stop_;
  std::optional<ProcessResult::Kind> ending_because_;
  std::string text_;
};

}  // namespace

ProcessResult run_process(const ProcessOptions& options, std::string_view input,
                          const std::stop_token& stop) {
  const Descriptor file{memfd_create("payload", MFD_CLOEXEC), "memfd_create"};
  write_input(file, input);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe2");
  const Descriptor error_out{ends[0], "pipe2"};
  Descriptor error_in{ends[1], "pipe2"};
  if (fcntl(error_out.get(), F_SETFL, O_NONBLOCK) != 0) fail("fcntl");
  const Descriptor stopped{eventfd(0, EFD_CLOEXEC), "eventfd"};
  const pid_t pid = start_program(options, file.get(), error_in.get());
  Child child{pid};
  error_in.close();
  const Descriptor ended{static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), "pidfd_open"};
  const std::stop_callback on_stop{stop, [&] { eventfd_write(stopped.get(), 1); }};
  return ProcessWatcher{options, child, ended.get(), error_out.get(), stopped.get()}.run();
}

}  // namespace twinbox
