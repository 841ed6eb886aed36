// Servers that fall silent, in the three ways that a client can tell apart.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace twinbox::test {

/// `postgresql://user@host:port/name` with another port.
std::string with_port(std::string address, int port);

/// A port on the loopback that completes connections and never answers.
class SilentPort {
 public:
  SilentPort();
  ~SilentPort();
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;
  [[nodiscard]] int port() const noexcept { return port_; }
  [[nodiscard]] int socket() const noexcept { return socket_; }

 protected:
  explicit SilentPort(int backlog);
  int socket_;
  int port_;
};

/// A port on the loopback whose queue is full: the kernel drops what asks for a connection.
class DroppingPort : public SilentPort {
 public:
  DroppingPort();
  ~DroppingPort();

 private:
  std::vector<int> clients_;
};

/// Forwards any number of connections to a server until it is frozen: then it forwards nothing,
/// closes nothing, and lets the kernel take new connections. Thread-safe.
class FreezingProxy {
 public:
  explicit FreezingProxy(const std::string& server_address);
  ~FreezingProxy();
  FreezingProxy(const FreezingProxy&) = delete;
  FreezingProxy& operator=(const FreezingProxy&) = delete;
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  /// Nothing is forwarded once it returns.
  void freeze();
  void thaw();

 private:
  void serve();
  static bool forward(int from, int to);

  SilentPort listener_;
  int server_port_;
  std::string address_;
  std::vector<std::pair<int, int>> pairs_;  ///< client, server
  std::mutex mutex_;
  bool frozen_ = false;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace twinbox::test
