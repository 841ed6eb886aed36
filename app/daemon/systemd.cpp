#include "daemon/systemd.hpp"

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace twinbox::app {

void notify_systemd(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (*path != '/' && *path != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, path, length);
  if (*path == '@') address.sun_path[0] = '\0';
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  // An unreachable service manager is no reason to stop serving.
  [[maybe_unused]] const auto sent = sendto(
      socket, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  close(socket);
}

std::optional<std::chrono::milliseconds> watchdog_interval() {
  const char* text = std::getenv("WATCHDOG_USEC");
  if (text == nullptr) return {};
  std::int64_t microseconds = 0;
  const char* end = text + std::strlen(text);
  if (std::from_chars(text, end, microseconds).ptr != end || microseconds <= 0) return {};
  return std::chrono::milliseconds{microseconds / 2000};
}

}  // namespace twinbox::app
