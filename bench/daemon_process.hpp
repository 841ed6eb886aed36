// The real daemon beside the benchmark, clients for it, and a receiver for what it delivers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "candidate.hpp"

namespace twinbox::bench {

/// `twinbox serve`, found beside the benchmark, on a free port.
class DaemonProcess {
 public:
  /// `config` is added to what the site says. Returns when it listens. Throws std::runtime_error.
  explicit DaemonProcess(const StoreAddress& site, const std::string& config = {});
  /// SIGTERM, and waits.
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  /// From the start to the line that says it listens.
  [[nodiscard]] std::chrono::duration<double> start_time() const noexcept { return start_time_; }
  [[nodiscard]] double resident_megabytes() const;
  static double program_megabytes();

 private:
  std::filesystem::path folder_;
  pid_t process_ = 0;
  int errors_ = -1;
  std::jthread reader_;  ///< its log must go somewhere
  std::uint16_t port_ = 0;
  std::chrono::duration<double> start_time_{};
};

struct LoadResult {
  std::size_t answers = 0;
  std::chrono::duration<double> spent{};
  std::vector<double> milliseconds = {};  ///< of each request, sorted
};

/// Keep-alive connections that send the same request again and again, each after its answer. One
/// thread. Throws std::runtime_error for an answer that is not `expected`.
LoadResult drive(std::uint16_t port, std::size_t connections, const std::string& request,
                 std::string_view expected, std::chrono::milliseconds slice);

/// A POST with this payload.
std::string post_request(const std::string& target, const std::string& payload);

/// Answers every request with 200 at once, and counts.
class CountingReceiver {
 public:
  CountingReceiver();
  ~CountingReceiver();
  CountingReceiver(const CountingReceiver&) = delete;
  CountingReceiver& operator=(const CountingReceiver&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// Returns when that many have come.
  void wait_for(std::size_t count) const;

 private:
  void run(const std::stop_token& stop);

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<std::size_t> count_ = 0;
  std::jthread thread_;
};

}  // namespace twinbox::bench
