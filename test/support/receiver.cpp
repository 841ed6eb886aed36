#include "support/receiver.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace twinbox::test {
namespace {

class PlainStream : public Stream {
 public:
  explicit PlainStream(int socket) : socket_(socket) {}
  std::size_t read(char* data, std::size_t size) override {
    const ssize_t got = recv(socket_, data, size, 0);
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  bool write(std::string_view data) override {
    while (!data.empty()) {
      const ssize_t sent = send(socket_, data.data(), data.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      data.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

 private:
  int socket_;
};

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::string Receiver::Request::header(std::string_view name) const {
  std::size_t at = head.find("\r\n");
  while (at != std::string::npos && at + 2 < head.size()) {
    const std::size_t end = head.find("\r\n", at + 2);
    const std::string_view line = std::string_view{head}.substr(at + 2, end - at - 2);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && same_name(line.substr(0, colon), name)) {
      const std::size_t first = line.find_first_not_of(' ', colon + 1);
      return std::string{first == std::string_view::npos ? std::string_view{} : line.substr(first)};
    }
    at = end;
  }
  return {};
}

Receiver::Receiver(Answers answers, Opener opener)
    : answers_(answers ? std::move(answers) : [](const Request&) { return answer(200); }),
      opener_(opener ? std::move(opener)
                     : [](int socket) { return std::make_unique<PlainStream>(socket); }) {
  open();
}

Receiver::~Receiver() { close(); }

Receiver::Answer Receiver::answer(int status, const std::string& body, const std::string& headers) {
  return {"HTTP/1.1 " + std::to_string(status) + " Whatever\r\nContent-Length: " +
          std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body};
}

std::string Receiver::url(const std::string& path) const {
  return "http://127.0.0.1:" + std::to_string(port_) + path;
}

std::vector<Receiver::Request> Receiver::requests() const {
  const std::scoped_lock lock{mutex_};
  return requests_;
}

std::vector<std::string> Receiver::bodies() const {
  std::vector<std::string> all;
  for (const Request& request : requests()) all.push_back(request.body);
  return all;
}

int Receiver::connections() const {
  const std::scoped_lock lock{mutex_};
  return connections_;
}

int Receiver::most_at_once() const {
  const std::scoped_lock lock{mutex_};
  return most_at_once_;
}

bool Receiver::wait_for(std::size_t requests) const {
  std::unique_lock lock{mutex_};
  return came_.wait_for(lock, std::chrono::minutes{1},
                        [&] { return requests_.size() >= requests; });
}

void Receiver::answer_with(Answers answers) {
  const std::scoped_lock lock{mutex_};
  answers_ = std::move(answers);
}

void Receiver::open() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, plain, size) != 0 || listen(listener, 512) != 0 ||
      getsockname(listener, plain, &size) != 0) {
    ::close(listener);
    throw std::runtime_error("the test's receiver cannot listen on the loopback");
  }
  const std::scoped_lock lock{mutex_};
  port_ = ntohs(address.sin_port);
  listener_ = listener;
  acceptor_ = std::jthread{[this, listener] { accept_all(listener); }};
}

void Receiver::close() {
  if (listener_ < 0) return;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  listener_ = -1;
  {
    const std::scoped_lock lock{mutex_};
    for (const int one : sockets_) shutdown(one, SHUT_RDWR);
  }
  threads_.clear();
}

void Receiver::accept_all(int listener) {
  for (;;) {
    const int one = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (one < 0) return;
    const int yes = 1;
    setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const std::scoped_lock lock{mutex_};
    sockets_.push_back(one);
    threads_.emplace_back([this, one, number = ++connections_] { serve(one, number); });
  }
}

void Receiver::serve(int socket, int number) {
  {
    const std::unique_ptr<Stream> stream = opener_(socket);
    std::string buffer;
    while (stream && serve_one(*stream, buffer, number)) {
    }
  }
  const std::scoped_lock lock{mutex_};
  std::erase(sockets_, socket);
  ::close(socket);
}

bool Receiver::serve_one(Stream& stream, std::string& buffer, int number) {
  char piece[16'384];
  const auto read_more = [&] {
    const std::size_t got = stream.read(piece, sizeof piece);
    buffer.append(piece, got);
    return got > 0;
  };
  std::size_t end;
  while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!read_more()) return false;
  }
  Request request{buffer.substr(0, end), {}, number};
  const std::string length = request.header("Content-Length");
  const std::size_t size = length.empty() ? 0 : std::stoul(length);
  while (buffer.size() < end + 4 + size) {
    if (!read_more()) return false;
  }
  request.body = buffer.substr(end + 4, size);
  buffer.erase(0, end + 4 + size);
  Answers answers;
  {
    const std::scoped_lock lock{mutex_};
    requests_.push_back(request);
    most_at_once_ = std::max(most_at_once_, ++at_once_);
    answers = answers_;
  }
  came_.notify_all();
  const Answer answer = answers(request);
  {
    const std::scoped_lock lock{mutex_};
    --at_once_;
  }
  return stream.write(answer.bytes) && !answer.close;
}

}  // namespace twinbox::test
