#include "daemon/http/http_server.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <string>

#include <gtest/gtest.h>

namespace twinbox::app {
namespace {

using namespace std::chrono_literals;
using Tcp = boost::asio::ip::tcp;

constexpr auto limit = 60s;  // only a failure waits so long

/// Has nothing to say, and never ends by itself.
class Silence final : public EventStream {
 public:
  std::optional<std::string> next() override { return ""; }
};

class HttpServerTest : public ::testing::Test {
 protected:
  /// One that has connected, and sent this.
  Tcp::socket client(const HttpServer& server, std::string_view sent = {}) {
    Tcp::socket socket{io_};
    socket.connect(server.endpoint());
    boost::asio::write(socket, boost::asio::buffer(sent.data(), sent.size()));
    return socket;
  }
  /// Reads until the other side closes.
  static std::string read_all(Tcp::socket& socket) {
    std::string text;
    boost::system::error_code end;
    boost::asio::read(socket, boost::asio::dynamic_buffer(text), end);
    return text;
  }
  static ServerConfig config() {
    ServerConfig config;
    config.listen = "127.0.0.1:0";
    config.io_threads = 2;
    return config;
  }

  boost::asio::io_context io_;
};

TEST_F(HttpServerTest, a_stop_ends_streams_that_begin_while_it_looks_for_those_who_wait) {
  std::promise<void> asked, others_are_closed;
  HttpService service;
  service.begin = [](const HttpRequest&) { return HttpService::Begun{}; };
  service.stream = [&](const HttpService::Context&, const HttpRequest&, std::function<void()>) {
    asked.set_value();
    others_are_closed.get_future().wait_for(limit);
    return std::make_unique<Silence>();
  };
  service.done = [](auto&&...) {};
  HttpServer server{config(), {}, std::move(service), {}};
  server.start();
  Tcp::socket idle = client(server);
  Tcp::socket listener = client(server, "GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_EQ(asked.get_future().wait_for(limit), std::future_status::ready);
  auto stopped = std::async(std::launch::async, [&] { server.stop(Milliseconds{1h}); });
  EXPECT_EQ(read_all(idle), "");
  others_are_closed.set_value();
  if (stopped.wait_for(limit) != std::future_status::ready) {
    ADD_FAILURE() << "the stop waits for a stream that nobody ends";
    listener.close();
  }
  stopped.wait();
}

}  // namespace
}  // namespace twinbox::app
