// A wire between a client and the test server that can be cut.
#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace twinbox::test {

/// Forwards one connection after the other between a port of its own and the server's.
/// Thread-safe.
class PostgresWire {
 public:
  explicit PostgresWire(const std::string& server_address);
  ~PostgresWire();
  PostgresWire(const PostgresWire&) = delete;
  PostgresWire& operator=(const PostgresWire&) = delete;

  /// The server's address, by way of this wire.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  /// From now on nothing that the server says comes through.
  void swallow_answers() { swallow_ = true; }
  /// The same for the next connection, from its first question after the login on.
  void swallow_after_login() { until_login_ = true; }
  [[nodiscard]] bool swallows() const { return swallow_; }
  /// How often the client has spoken, each time after the server.
  [[nodiscard]] int round_trips() const { return round_trips_; }
  /// The next thing that the server says is lost, and the connection with it; the next one works.
  void cut_at_answer() { until_answer_ = true; }
  /// Cuts the wire of the present connection; the next one works.
  void cut() { cut_ = true; }

 private:
  void serve();
  void forward(int client);
  [[nodiscard]] int connect_to_server() const;

  std::string address_;
  int listener_;
  int server_port_;
  std::atomic<bool> swallow_ = false;
  std::atomic<bool> until_login_ = false;
  std::atomic<bool> until_answer_ = false;
  std::atomic<bool> cut_ = false;
  std::atomic<bool> ends_ = false;
  std::atomic<int> round_trips_ = 0;
  std::thread thread_;
};

}  // namespace twinbox::test
