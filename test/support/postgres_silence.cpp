#include "support/postgres_silence.hpp"

#include <arpa/inet.h>
#include <array>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace twinbox::test {
namespace {

constexpr int look_every_ms = 5;
constexpr int long_queue = 1024;
/// A connection on the loopback is there within this time, or its SYN was dropped.
constexpr int dropped_after_ms = 300;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int new_socket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

std::pair<std::size_t, std::size_t> port_in(const std::string& address) {
  const std::size_t begin = address.find(':', address.find('@')) + 1;
  return {begin, address.find('/', begin)};
}

int port_of(const std::string& address) {
  const auto [begin, end] = port_in(address);
  return std::stoi(address.substr(begin, end - begin));
}

}  // namespace

std::string with_port(std::string address, int port) {
  const auto [begin, end] = port_in(address);
  return address.replace(begin, end - begin, std::to_string(port));
}

SilentPort::SilentPort() : SilentPort(long_queue) {}

SilentPort::SilentPort(int backlog) : socket_(new_socket()) {
  sockaddr_in own = loopback(0);
  socklen_t size = sizeof own;
  auto* address = reinterpret_cast<sockaddr*>(&own);
  if (::bind(socket_, address, size) != 0 || ::listen(socket_, backlog) != 0 ||
      ::getsockname(socket_, address, &size) != 0)
    throw std::runtime_error("no port on the loopback");
  port_ = ntohs(own.sin_port);
}

SilentPort::~SilentPort() { ::close(socket_); }

DroppingPort::DroppingPort() : SilentPort(0) {
  for (bool dropped = false; !dropped && clients_.size() < 16;) {
    const int client = clients_.emplace_back(new_socket());
    ::fcntl(client, F_SETFL, O_NONBLOCK);
    const sockaddr_in address = loopback(port_);
    ::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    pollfd connected{client, POLLOUT, 0};
    dropped = ::poll(&connected, 1, dropped_after_ms) == 0;
    if (!dropped && clients_.size() == 16) throw std::runtime_error("the queue is never full");
  }
}

DroppingPort::~DroppingPort() {
  for (const int client : clients_) ::close(client);
}

FreezingProxy::FreezingProxy(const std::string& server_address)
    : server_port_(port_of(server_address)),
      address_(with_port(server_address, listener_.port())),
      thread_([this] { serve(); }) {}

FreezingProxy::~FreezingProxy() {
  ends_ = true;
  thread_.join();
  for (const auto& [client, server] : pairs_) {
    ::close(client);
    ::close(server);
  }
}

void FreezingProxy::freeze() {
  const std::scoped_lock lock{mutex_};
  frozen_ = true;
}

void FreezingProxy::thaw() {
  const std::scoped_lock lock{mutex_};
  frozen_ = false;
}

void FreezingProxy::serve() {
  while (!ends_) {
    std::vector<pollfd> ready{{listener_.socket(), POLLIN, 0}};
    for (const auto& [client, server] : pairs_) {
      ready.push_back({client, POLLIN, 0});
      ready.push_back({server, POLLIN, 0});
    }
    const int count = ::poll(ready.data(), ready.size(), look_every_ms);
    const std::scoped_lock lock{mutex_};
    if (frozen_) {
      ::poll(nullptr, 0, look_every_ms);
      continue;
    }
    if (count <= 0) continue;
    std::vector<std::pair<int, int>> open;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const auto [client, server] = pairs_[i];
      if ((ready[2 * i + 1].revents == 0 || forward(client, server)) &&
          (ready[2 * i + 2].revents == 0 || forward(server, client))) {
        open.push_back(pairs_[i]);
      } else {
        ::close(client);
        ::close(server);
      }
    }
    pairs_ = std::move(open);
    if (ready[0].revents == 0) continue;
    const int client = ::accept(listener_.socket(), nullptr, nullptr);
    const int server = new_socket();
    const sockaddr_in address = loopback(server_port_);
    ::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    pairs_.emplace_back(client, server);
  }
}

bool FreezingProxy::forward(int from, int to) {
  std::array<char, 65536> bytes;
  const ssize_t count = ::recv(from, bytes.data(), bytes.size(), 0);
  if (count <= 0) return false;
  for (ssize_t sent = 0; sent < count;) {
    const ssize_t step =
        ::send(to, bytes.data() + sent, static_cast<std::size_t>(count - sent), MSG_NOSIGNAL);
    if (step <= 0) return false;
    sent += step;
  }
  return true;
}

}  // namespace twinbox::test
