// A TCP relay on the loopback, so that a test can cut connections where it wants.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace twinbox::test {

/// Thread-safe. Its destructor closes every connection.
class Relay {
 public:
  /// To a port of 127.0.0.1.
  explicit Relay(std::uint16_t target);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  /// Closes every connection that is open.
  void cut();
  /// Closes a connection once that many more bytes have gone to the target; 0: never.
  void cut_after(std::uint64_t bytes) { left_ = bytes; }
  /// The next time something goes to the target, whoever sent it gets these bytes first.
  void answer_first(std::string bytes);
  /// What comes from the target with the one text in it has the other, as long, instead.
  void rewrite(std::string text, std::string as);
  /// Cuts, and turns new connections away until open().
  void refuse_connections();
  void allow_connections() { refusing_ = false; }
  /// Connections stay open, and nothing comes through any more: as when a cable is pulled.
  void freeze() { frozen_ = true; }
  void thaw();
  [[nodiscard]] int connections() const noexcept { return connections_; }

 private:
  void accept_all();
  void carry(int from, int to, bool to_target);
  void answer(int client);
  void rewrite(char* from, std::size_t size);

  std::uint16_t target_;
  std::uint16_t port_ = 0;
  int listener_;
  std::atomic<std::uint64_t> left_ = 0;
  std::atomic<int> connections_ = 0;
  std::atomic<bool> refusing_ = false;
  std::atomic<bool> frozen_ = false;
  std::mutex mutex_;
  std::vector<int> sockets_;
  std::string first_answer_;
  std::string hidden_;
  std::string shown_;
  std::vector<std::jthread> threads_;
  std::jthread acceptor_;
};

/// The port in `amqp://user:password@host:port`, and the address with another one.
std::uint16_t port_of(const std::string& url);
std::string with_port(const std::string& url, std::uint16_t port);

}  // namespace twinbox::test
