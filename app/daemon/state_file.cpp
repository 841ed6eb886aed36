#include "daemon/state_file.hpp"

#include <algorithm>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unistd.h>

namespace twinbox::app {

void save_file(const std::filesystem::path& file, std::string_view bytes) {
  std::filesystem::path next = file;
  next += ".new";
  const int descriptor = open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool written = descriptor >= 0;
  for (std::size_t done = 0; written && done < bytes.size();) {
    const ssize_t count = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    written = count > 0;
    done += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  if (descriptor >= 0) written = (fsync(descriptor) == 0) && written;
  if (descriptor >= 0) close(descriptor);
  std::error_code error;
  if (written) std::filesystem::rename(next, file, error);
  if (!written || error) throw std::runtime_error("file " + file.string() + " cannot be written");
}

void move_damaged_file(const std::filesystem::path& file, std::string_view log_event,
                       const Environment& environment) {
  std::filesystem::path aside = file;
  aside += ".damaged";
  std::error_code error;
  std::filesystem::rename(file, aside, error);
  environment.write(LogLevel::warning, log_event,
                    {{"file", file.string()},
                     {"kept_as", aside.string()},
                     {"error", error ? error.message() : "damaged or written by another version"}});
}

}  // namespace twinbox::app
