// A receiver on the loopback: an HTTP server whose answers the test gives, byte by byte.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace twinbox::test {

/// One connection as the receiver sees it.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Zero: the peer is gone.
  virtual std::size_t read(char* data, std::size_t size) = 0;
  virtual bool write(std::string_view data) = 0;
};

/// Thread-safe. Its destructor closes every connection.
class Receiver {
 public:
  struct Request {
    std::string head;  ///< the request line and the headers
    std::string body;
    int connection;  ///< the first one is 1

    /// The value of a header, as it came; empty: there is none.
    [[nodiscard]] std::string header(std::string_view name) const;
  };
  struct Answer {
    std::string bytes;
    bool close = false;  ///< the connection, after the bytes
  };
  using Answers = std::function<Answer(const Request&)>;
  using Opener = std::function<std::unique_ptr<Stream>(int socket)>;

  /// `answers`: 200 to everything if there is none. `opener`: what speaks on a socket, plain bytes
  /// if there is none.
  explicit Receiver(Answers answers = {}, Opener opener = {});
  ~Receiver();
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  static Answer answer(int status, const std::string& body = {}, const std::string& headers = {});

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::string url(const std::string& path = "/") const;
  [[nodiscard]] std::vector<Request> requests() const;
  [[nodiscard]] std::vector<std::string> bodies() const;
  [[nodiscard]] int connections() const;
  /// The most requests that were answered at the same time.
  [[nodiscard]] int most_at_once() const;
  /// Returns when that many requests have come; false after a minute.
  bool wait_for(std::size_t requests) const;

  void answer_with(Answers answers);
  /// Closes the port and every connection; open() listens on the same port again.
  void close();
  void open();

 private:
  void accept_all(int listener);
  void serve(int socket, int number);
  bool serve_one(Stream& stream, std::string& buffer, int number);

  mutable std::mutex mutex_;
  mutable std::condition_variable came_;
  Answers answers_;
  Opener opener_;
  std::uint16_t port_ = 0;
  std::vector<Request> requests_;
  int connections_ = 0;
  int at_once_ = 0;
  int most_at_once_ = 0;
  int listener_ = -1;
  std::vector<int> sockets_;
  std::vector<std::jthread> threads_;  ///< one per connection
  std::jthread acceptor_;
};

}  // namespace twinbox::test
