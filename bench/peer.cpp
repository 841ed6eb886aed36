#include "peer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace twinbox::bench {
namespace {

using std::chrono::steady_clock;

constexpr int longest_silence = 60'000;  // milliseconds

std::array<int, 2> open_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("peer: no pipe could be opened");
  return ends;
}

const char* word_of(Peer::Role role) {
  switch (role) {
    case Peer::Role::dispatcher: return "dispatcher";
    case Peer::Role::loop: return "loop";
    case Peer::Role::two_loops: return "two_loops";
    case Peer::Role::sender: return "sender";
  }
  return "";
}

}  // namespace

std::chrono::microseconds processor_time() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto micros = [](const timeval& time) {
    return std::chrono::seconds{time.tv_sec} + std::chrono::microseconds{time.tv_usec};
  };
  return micros(use.ru_utime) + micros(use.ru_stime);
}

Peer::Peer(Role role, const StoreAddress& site) {
  const auto down = open_pipe();
  const auto up = open_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, down[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, up[1], STDOUT_FILENO);
  std::array<std::string, 6> words{
      "twinbox_bench", "peer",
      word_of(role),   site.dialect == Dialect::sqlite ? "sqlite" : "postgres",
      site.address,    site.schema};
  std::array<char*, 7> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  const int failed =
      posix_spawn(&process_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(down[0]);
  close(up[1]);
  to_ = down[1];
  from_ = up[0];
  if (failed != 0) {
    close(to_);
    close(from_);
    throw std::runtime_error("peer: the program could not be started once more");
  }
  hear();
}

Peer::~Peer() {
  close(to_);
  close(from_);
  waitpid(process_, nullptr, 0);
}

void Peer::tell(const std::string& line) {
  const std::string text = line + "\n";
  if (write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::runtime_error("peer: it has ended");
}

void Peer::read_more() {
  pollfd end{from_, POLLIN, 0};
  if (poll(&end, 1, longest_silence) == 0) throw std::runtime_error("peer: it is silent");
  std::array<char, 4096> buffer{};
  const ssize_t size = read(from_, buffer.data(), buffer.size());
  if (size <= 0) throw std::runtime_error("peer: it has ended");
  heard_.append(buffer.data(), static_cast<std::size_t>(size));
}

std::string Peer::hear() {
  while (heard_.find('\n') == heard_.npos) read_more();
  const std::size_t end = heard_.find('\n');
  std::string line = heard_.substr(0, end);
  heard_.erase(0, end + 1);
  return line;
}

std::vector<long> Peer::hear_numbers() {
  std::vector<long> numbers;
  do {
    numbers.push_back(std::stol(hear()));
  } while (heard_.find('\n') != heard_.npos);
  return numbers;
}

PeerGroup::PeerGroup(Peer::Role role, int processes, const StoreAddress& site) {
  for (int i = 0; i < processes; ++i) peers_.push_back(std::make_unique<Peer>(role, site));
}

long PeerGroup::settled(long count, steady_clock::time_point end) {
  long sum = 0;
  while (sum < count) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - steady_clock::now());
    if (left.count() <= 0) break;
    std::vector<pollfd> ends;
    for (const auto& peer : peers_) ends.push_back({peer->descriptor(), POLLIN, 0});
    poll(ends.data(), ends.size(), static_cast<int>(std::min<long>(left.count(), longest_silence)));
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (ends[i].revents == 0) continue;
      for (const long number : peers_[i]->hear_numbers()) sum += number;
    }
  }
  return sum;
}

double PeerGroup::cycle(int count) {
  const int each = count / static_cast<int>(peers_.size());
  const auto begin = steady_clock::now();
  for (const auto& peer : peers_) peer->tell("enqueue " + std::to_string(each));
  const long all = long{each} * static_cast<long>(peers_.size());
  const long sum = settled(all, begin + std::chrono::milliseconds{longest_silence});
  const std::chrono::duration<double> spent = steady_clock::now() - begin;
  if (sum != all) {
    throw std::runtime_error("settled " + std::to_string(sum) + " of " + std::to_string(all) +
                             " messages");
  }
  return static_cast<double>(all) / spent.count();
}

std::chrono::microseconds PeerGroup::processor_time() {
  std::chrono::microseconds sum{};
  for (const auto& peer : peers_) {
    peer->tell("time");
    sum += std::chrono::microseconds{std::stol(peer->hear())};
  }
  return sum;
}

long PeerGroup::offered(double rate, int seconds) {
  const auto end = steady_clock::now() + std::chrono::seconds{seconds};
  const auto count = static_cast<long>(rate * seconds) / cycle_batch * cycle_batch;
  peers_.front()->tell("offer " + std::to_string(count) + " " + std::to_string(seconds));
  const long in_time = settled(count, end);
  settled(count - in_time, end + std::chrono::milliseconds{longest_silence});
  return in_time;
}

}  // namespace twinbox::bench
