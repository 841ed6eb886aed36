// How often a server writes to disk, as far as it tells. Servers from 2.10 on are played here:
// those that Debian has are older.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "transport/nats/overdue.hpp"
#include "transport/nats/probe.hpp"

namespace twinbox::nats {
namespace {

using State = Sync::State;

/// Says `text` to whoever connects.
class Speaker {
 public:
  explicit Speaker(std::string text) : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
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
  ~Speaker() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;

  [[nodiscard]] const std::string& place() const noexcept { return place_; }

 private:
  int listener_;
  std::string place_;
  std::jthread thread_;
};

std::string info(const std::string& version) {
  return "INFO {\"server_id\":\"N\",\"version\":\"" + version + "\"} \r\n";
}

Sync sync_of(const std::string& version, const std::string& settings = "") {
  const Speaker server{info(version)};
  const Speaker monitor{"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"config\":{" +
                        settings + "},\"streams\":1}"};
  return read_sync({.url = "nats://" + server.place(),
                    .monitor_url = settings.empty() ? "" : "http://" + monitor.place()});
}

TEST(NatsSync, is_known_by_the_version_of_older_servers) {
  EXPECT_EQ(sync_of("2.9.10").state, State::sometimes);
  EXPECT_NE(sync_of("2.9.10").text.find("2.9.10"), std::string::npos);
}

TEST(NatsSync, of_newer_servers_is_told_on_the_monitoring_port_only) {
  EXPECT_EQ(sync_of("2.10.4").state, State::unknown);
  EXPECT_EQ(sync_of("2.12.0", R"("sync_always":true)").state, State::always);
  const Sync each = sync_of("2.12.0", R"("max_memory":1,"sync_interval":30000000000)");
  EXPECT_EQ(each.state, State::sometimes);
  EXPECT_NE(each.text.find("30 s"), std::string::npos) << each.text;
}

TEST(NatsSync, is_not_known_of_who_does_not_answer) {
  EXPECT_EQ(read_sync({.url = "nats://127.0.0.1:1"}).state, State::unknown);
  const Speaker stranger{"hello\r\n"};
  EXPECT_EQ(read_sync({.url = "nats://" + stranger.place()}).state, State::unknown);
}

TEST(NatsOverdue, ends_when_everything_that_was_unacknowledged_has_come_again) {
  Overdue overdue{10, 2};
  EXPECT_TRUE(overdue.open());
  overdue.came(11);  // new
  overdue.came(7);
  overdue.came(7);
  EXPECT_TRUE(overdue.open());
  overdue.came(9);
  EXPECT_FALSE(overdue.open());
}

TEST(NatsOverdue, ends_when_somebody_else_has_settled_it) {
  Overdue floor{10, 2};
  floor.told(9, 3, 2);
  EXPECT_TRUE(floor.open());
  floor.told(10, 3, 2);
  EXPECT_FALSE(floor.open());
  Overdue held{10, 2};
  held.told(5, 4, 3);
  EXPECT_TRUE(held.open());
  held.told(5, 3, 3);
  EXPECT_FALSE(held.open());
}

TEST(NatsOverdue, is_nothing_where_all_is_acknowledged) { EXPECT_FALSE((Overdue{10, 0}).open()); }

}  // namespace
}  // namespace twinbox::nats
