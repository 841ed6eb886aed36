#include "end_to_end/concurrency/act_log.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <system_error>
#include <unistd.h>

namespace twinbox::test {

ActLog::ActLog(const std::string& file)
    : file_(open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (file_ < 0) throw std::system_error(errno, std::generic_category(), file);
}

ActLog::~ActLog() { close(file_); }

// One write per line: a kill leaves whole lines.
void ActLog::write(Line line, const std::string& rest) const {
  const std::string text = std::string{static_cast<char>(line)} + " " + rest + "\n";
  if (::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::system_error(errno, std::generic_category(), "act log");
  }
}

void Acts::read(const std::string& file) {
  std::ifstream in(file);
  for (std::string text; std::getline(in, text);) {
    std::istringstream words(text);
    char kind = 0;
    words >> kind;
    std::string id;
    std::int64_t work = 0, epoch = 0, begin = 0, end = 0;
    switch (static_cast<Line>(kind)) {
      case Line::enqueued: words >> id, enqueued.insert(id); break;
      case Line::accepted: words >> id, accepted.insert(id); break;
      case Line::claimed:
        words >> work >> epoch >> begin >> end;
        claims[work][epoch].push_back({begin, end});
        break;
      // Whoever settles has claimed, in the same file.
      case Line::settling:
        words >> work >> epoch, claims[work][epoch].back().settling = true;
        break;
      case Line::finished: words >> work >> epoch, finished.insert(work); break;
    }
  }
}

std::vector<std::string> Acts::double_leases() const {
  std::vector<std::string> found;
  for (const auto& [work, by_epoch] : claims) {
    const Claim* before = nullptr;
    for (const auto& [epoch, same] : by_epoch) {
      const std::string name = "work " + std::to_string(work) + ", epoch " + std::to_string(epoch);
      if (same.size() > 1) found.push_back(name + ", given twice");
      const Claim& claim = same.front();
      if (before != nullptr && !before->settling && claim.begin < before->end) {
        found.push_back(name);
      }
      before = &claim;
    }
  }
  return found;
}

}  // namespace twinbox::test
