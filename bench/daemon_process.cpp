#include "daemon_process.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace twinbox::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::filesystem::path program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "twinbox";
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

int connect_to(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    fail("cannot connect to the daemon");
  }
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return socket;
}

void send_all(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) fail("cannot send");
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

/// The length of the first whole message in `text`, header and body; 0: it is not all there.
std::size_t whole_message(std::string_view text) {
  const std::size_t end = text.find("\r\n\r\n");
  if (end == std::string_view::npos) return 0;
  const std::string_view head = text.substr(0, end);
  std::size_t length = 0;
  for (const std::string_view name : {"\r\nContent-Length: ", "\r\ncontent-length: "}) {
    const std::size_t place = head.find(name);
    if (place != std::string_view::npos) {
      length = static_cast<std::size_t>(std::atoi(text.data() + place + name.size()));
    }
  }
  return text.size() < end + 4 + length ? 0 : end + 4 + length;
}

}  // namespace

DaemonProcess::DaemonProcess(const StoreAddress& site, const std::string& config) {
  std::string pattern = (std::filesystem::temp_directory_path() / "twinbox_bench.XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) fail("cannot make a folder");
  folder_ = pattern;
  std::ofstream{folder_ / "twinbox.toml"}
      << "[server]\nlisten = \"127.0.0.1:0\"\n[log]\naccess = false\n"
      << "[access]\ntoken_file = \"tokens\"\nloopback_without_token = true\n[store.main]\nurl = \""
      << site.address << "\"\nschema = \"" << site.schema << "\"\nboxes = \"outbox\"\n"
      << config;
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) != 0) fail("cannot make a pipe");
  const std::string path = program().string();
  const auto begin = Clock::now();
  process_ = fork();
  if (process_ == 0) {
    dup2(pipe[1], STDERR_FILENO);
    if (chdir(folder_.c_str()) != 0 || std::freopen("/dev/null", "w", stdout) == nullptr) _exit(1);
    execl(path.c_str(), path.c_str(), "serve", "--config", "twinbox.toml", nullptr);
    _exit(1);
  }
  close(pipe[1]);
  errors_ = pipe[0];
  std::string log;
  char part[4096];
  while (port_ == 0) {
    const ssize_t count = read(errors_, part, sizeof part);
    if (count <= 0) throw std::runtime_error(path + " does not start:\n" + log);
    log.append(part, static_cast<std::size_t>(count));
    const std::size_t place = log.find("address=127.0.0.1:");
    if (place == std::string::npos || log.find('\n', place) == std::string::npos) continue;
    port_ = static_cast<std::uint16_t>(std::atoi(log.c_str() + place + 18));
  }
  start_time_ = Clock::now() - begin;
  reader_ = std::jthread{[descriptor = errors_] {
    char rest[4096];
    while (read(descriptor, rest, sizeof rest) > 0) {
    }
  }};
}

DaemonProcess::~DaemonProcess() {
  kill(process_, SIGTERM);
  waitpid(process_, nullptr, 0);
  reader_.join();
  close(errors_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

double DaemonProcess::resident_megabytes() const {
  std::ifstream status{"/proc/" + std::to_string(process_) + "/statm"};
  double all = 0, resident = 0;
  status >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

double DaemonProcess::program_megabytes() {
  return static_cast<double>(std::filesystem::file_size(program())) / 1e6;
}

std::string post_request(const std::string& target, const std::string& payload) {
  return "POST " + target + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         "Content-Length: " + std::to_string(payload.size()) + "\r\n\r\n" + payload;
}

LoadResult drive(std::uint16_t port, std::size_t connections, const std::string& request,
                 std::string_view expected, std::chrono::milliseconds slice) {
  struct Client {
    int socket;
    std::string text = {};
    Clock::time_point sent = {};
  };
  std::vector<Client> clients;
  const int poll = epoll_create1(EPOLL_CLOEXEC);
  for (std::size_t i = 0; i < connections; ++i) {
    clients.push_back({connect_to(port)});
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    epoll_ctl(poll, EPOLL_CTL_ADD, clients.back().socket, &event);
  }
  LoadResult result;
  const auto begin = Clock::now();
  for (Client& client : clients) {
    client.sent = Clock::now();
    send_all(client.socket, request);
  }
  std::size_t open = clients.size();
  while (open > 0) {
    epoll_event events[64];
    const int count = epoll_wait(poll, events, 64, 60'000);
    if (count <= 0) throw std::runtime_error("the daemon is silent for a minute");
    for (int i = 0; i < count; ++i) {
      Client& client = clients[events[i].data.u64];
      char part[4096];
      const ssize_t bytes = recv(client.socket, part, sizeof part, 0);
      if (bytes <= 0) throw std::runtime_error("the daemon closed a connection");
      client.text.append(part, static_cast<std::size_t>(bytes));
      if (whole_message(client.text) == 0) continue;
      if (!client.text.starts_with(expected)) {
        throw std::runtime_error("the daemon answered " + client.text.substr(0, 40));
      }
      const auto now = Clock::now();
      ++result.answers;
      result.milliseconds.push_back(
          std::chrono::duration<double, std::milli>(now - client.sent).count());
      client.text.clear();
      if (now - begin < slice) {
        client.sent = now;
        send_all(client.socket, request);
      } else {
        --open;
      }
    }
  }
  result.spent = Clock::now() - begin;
  for (const Client& client : clients) close(client.socket);
  close(poll);
  std::ranges::sort(result.milliseconds);
  return result;
}

CountingReceiver::CountingReceiver() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_, 256) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    fail("cannot listen");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::jthread{[this](std::stop_token stop) { run(stop); }};
}

CountingReceiver::~CountingReceiver() {
  thread_.request_stop();
  thread_.join();
  close(listener_);
}

void CountingReceiver::wait_for(std::size_t count) const {
  for (std::size_t now = count_; now < count; now = count_) count_.wait(now);
}

void CountingReceiver::run(const std::stop_token& stop) {
  static constexpr std::string_view answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  const int poll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{.events = EPOLLIN, .data = {.fd = listener_}};
  epoll_ctl(poll, EPOLL_CTL_ADD, listener_, &event);
  std::map<int, std::string> open;
  while (!stop.stop_requested()) {
    epoll_event events[64];
    const int ready = epoll_wait(poll, events, 64, 100);
    for (int i = 0; i < ready; ++i) {
      const int socket = events[i].data.fd;
      if (socket == listener_) {
        const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        event.data.fd = client;
        epoll_ctl(poll, EPOLL_CTL_ADD, client, &event);
        open[client];
        continue;
      }
      char part[16384];
      const ssize_t bytes = recv(socket, part, sizeof part, 0);
      if (bytes <= 0) {
        close(socket);
        open.erase(socket);
        continue;
      }
      std::string& text = open[socket];
      text.append(part, static_cast<std::size_t>(bytes));
      while (const std::size_t length = whole_message(text)) {
        text.erase(0, length);
        send_all(socket, answer);
        ++count_;
        count_.notify_all();
      }
    }
  }
  for (const auto& [socket, text] : open) close(socket);
  close(poll);
}

}  // namespace twinbox::bench
