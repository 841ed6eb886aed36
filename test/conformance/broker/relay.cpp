#include "relay.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace twinbox::test {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

}  // namespace

Relay::Relay(std::uint16_t target) : target_(target), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("relay: cannot listen");
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread{[this] { accept_all(); }};
}

Relay::~Relay() {
  thaw();
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  cut();
  threads_.clear();
  for (const int one : sockets_) close(one);
  close(listener_);
}

void Relay::cut() {
  const std::scoped_lock lock{mutex_};
  for (const int one : sockets_) shutdown(one, SHUT_RDWR);
}

void Relay::thaw() {
  frozen_ = false;
  frozen_.notify_all();
}

void Relay::refuse_connections() {
  refusing_ = true;
  cut();
}

void Relay::accept_all() {
  while (true) {
    const int client = accept(listener_, nullptr, nullptr);
    if (client < 0) return;
    if (refusing_) {
      close(client);
      continue;
    }
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = loopback(target_);
    if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      close(client);
      close(server);
      continue;
    }
    ++connections_;
    const std::scoped_lock lock{mutex_};
    sockets_.push_back(client);
    sockets_.push_back(server);
    threads_.emplace_back([=, this] { carry(client, server, true); });
    threads_.emplace_back([=, this] { carry(server, client, false); });
  }
}

void Relay::answer_first(std::string bytes) {
  const std::scoped_lock lock{mutex_};
  first_answer_ = std::move(bytes);
}

void Relay::rewrite(std::string text, std::string as) {
  if (text.size() != as.size()) throw std::invalid_argument("relay: not as long");
  const std::scoped_lock lock{mutex_};
  hidden_ = std::move(text);
  shown_ = std::move(as);
}

void Relay::rewrite(char* from, std::size_t size) {
  const std::scoped_lock lock{mutex_};
  if (hidden_.empty()) return;
  char* const end = from + size;
  for (char* at = from; (at = std::search(at, end, hidden_.begin(), hidden_.end())) != end;) {
    at = std::copy(shown_.begin(), shown_.end(), at);
  }
}

void Relay::answer(int client) {
  const std::scoped_lock lock{mutex_};
  if (first_answer_.empty()) return;
  send(client, first_answer_.data(), first_answer_.size(), MSG_NOSIGNAL);
  first_answer_.clear();
}

void Relay::carry(int from, int to, bool to_target) {
  char buffer[4096];
  while (true) {
    const ssize_t got = recv(from, buffer, sizeof buffer, 0);
    if (got <= 0) break;
    frozen_.wait(true);
    auto size = static_cast<std::size_t>(got);
    bool last = false;
    if (to_target && left_ > 0) {
      last = left_ <= size;
      if (last) size = left_;
      left_ -= size;
    }
    if (to_target) answer(from);
    if (!to_target) rewrite(buffer, size);
    if (send(to, buffer, size, MSG_NOSIGNAL) < 0 || last) break;
  }
  shutdown(from, SHUT_RDWR);
  shutdown(to, SHUT_RDWR);
}

std::uint16_t port_of(const std::string& url) {
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

std::string with_port(const std::string& url, std::uint16_t port) {
  return url.substr(0, url.rfind(':') + 1) + std::to_string(port);
}

}  // namespace twinbox::test
