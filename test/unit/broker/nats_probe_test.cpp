// How often a server writes to disk, as far as it tells. Servers from 2.10 on are played here:
// those that Debian has are older.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "transport/nats/pending_redeliveries.hpp"
#include "transport/nats/probe.hpp"

namespace twinbox::nats {
namespace {

using State = SyncPolicy::State;

/// Says `text` to whoever connects.
class FakeServer {
 public:
  explicit FakeServer(std::string text) : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    place_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::jthread{[this, text = std::move(text)] {
      while (true) {
        const int client = accept(listener_, nullptr, nullptr);
        if (client < 0) return;
        send(client, text.data(), text.size(), MSG_NOSIGNAL);
        shutdown(client, SHUT_WR);
        char ignored[512];
        while (recv(client, ignored, sizeof ignored, 0) > 0) {
        }
        close(client);
      }
    }};
  }
  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  [[nodiscard]] const std::string& authority() const noexcept { return place_; }

 private:
  int listener_;
  std::string place_;
  std::jthread thread_;
};

std::string info(const std::string& version) {
  return "INFO {\"server_id\":\"N\",\"version\":\"" + version + "\"} \r\n";
}

SyncPolicy sync_of(const std::string& version, const std::string& settings = "") {
  const FakeServer server{info(version)};
  const FakeServer monitor{
      "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"config\":{" + settings +
      "},\"streams\":1}"};
  return read_sync_policy({.url = "nats://" + server.authority(),
                           .monitor_url = settings.empty() ? "" : "http://" + monitor.authority()});
}

TEST(NatsSync, is_known_by_the_version_of_older_servers) {
  EXPECT_EQ(sync_of("2.9.10").state, State::sometimes);
  EXPECT_NE(sync_of("2.9.10").text.find("2.9.10"), std::string::npos);
}

TEST(NatsSync, of_newer_servers_is_told_on_the_monitoring_port_only) {
  EXPECT_EQ(sync_of("2.10.4").state, State::unknown);
  EXPECT_EQ(sync_of("2.12.0", R"("sync_always":true)").state, State::always);
  const SyncPolicy each = sync_of("2.12.0", R"("max_memory":1,"sync_interval":30000000000)");
  EXPECT_EQ(each.state, State::sometimes);
  EXPECT_NE(each.text.find("30 s"), std::string::npos) << each.text;
}

TEST(NatsSync, is_not_known_of_who_does_not_answer) {
  EXPECT_EQ(read_sync_policy({.url = "nats://127.0.0.1:1"}).state, State::unknown);
  const FakeServer stranger{"hello\r\n"};
  EXPECT_EQ(read_sync_policy({.url = "nats://" + stranger.authority()}).state, State::unknown);
}

TEST(NatsPendingRedeliveries, ends_when_everything_that_was_unacknowledged_has_come_again) {
  PendingRedeliveries overdue{10, 2};
  EXPECT_TRUE(overdue.open());
  overdue.on_received(11);  // new
  overdue.on_received(7);
  overdue.on_received(7);
  EXPECT_TRUE(overdue.open());
  overdue.on_received(9);
  EXPECT_FALSE(overdue.open());
}

TEST(NatsPendingRedeliveries, ends_when_somebody_else_has_settled_it) {
  PendingRedeliveries floor{10, 2};
  floor.update(9, 3, 2);
  EXPECT_TRUE(floor.open());
  floor.update(10, 3, 2);
  EXPECT_FALSE(floor.open());
  PendingRedeliveries held{10, 2};
  held.update(5, 4, 3);
  EXPECT_TRUE(held.open());
  held.update(5, 3, 3);
  EXPECT_FALSE(held.open());
}

TEST(NatsPendingRedeliveries, is_nothing_where_all_is_acknowledged) {
  EXPECT_FALSE((PendingRedeliveries{10, 0}).open());
}

}  // namespace
}  // namespace twinbox::nats
