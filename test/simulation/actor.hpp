// Who acts in a world, where, and what he knows after a call.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include "simulation/faulty_driver.hpp"
#include "simulation/ledger.hpp"
#include <twinbox/inbox.hpp>
#include <twinbox/outbox.hpp>

namespace twinbox::simulation {

/// What the caller of a call knows afterwards.
enum class CallResult { answered, nothing_happened, in_doubt, crashed };

inline const char* to_string(CallResult result) {
  switch (result) {
    case CallResult::answered: return "answered";
    case CallResult::nothing_happened: return "nothing happened";
    case CallResult::in_doubt: return "in doubt";
    case CallResult::crashed: return "crashed";
  }
  return "";
}

template <class Call>
CallResult make(Call call) {
  try {
    call();
    return CallResult::answered;
  } catch (const DatabaseError& error) {
    if (error.kind() == DatabaseError::Kind::commit_in_doubt) return CallResult::in_doubt;
    if (!error.retryable())
      throw Violation(std::string{"an error without a fault: "} + error.what());
    return CallResult::nothing_happened;
  } catch (const Crash&) {
    return CallResult::crashed;
  }
}

/// A process: its own connections and boxes.
struct ProcessStores {
  std::unique_ptr<Database> database;
  std::unique_ptr<Inbox> inbox;
  std::unique_ptr<Outbox> outbox;

  [[nodiscard]] WorkQueue& queue() const {
    if (inbox) return *inbox;
    return *outbox;
  }
};

struct Worker {
  OwnerToken owner;
  std::shared_ptr<ProcessStores> site;  // shared by all actors of a world in memory
  std::vector<Message> held;
};

/// What a producer wants to say under an id.
struct PlannedMessage {
  std::vector<std::string> handlers;
  std::optional<std::string> partition_key;
};

/// A file that is removed with the world.
class Storage {
 public:
  Storage(bool on_file, std::uint64_t seed) {
    if (!on_file) return;
    const std::filesystem::path memory{"/dev/shm"};
    const auto folder =
        std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
    file_ = folder / ("twinbox_" + std::to_string(getpid()) + "_" + std::to_string(seed) + ".db");
    remove();
  }
  ~Storage() { remove(); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  [[nodiscard]] std::string address() const {
    return "sqlite:" + (file_.empty() ? ":memory:" : file_);
  }

 private:
  void remove() {
    if (file_.empty()) return;
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::error_code ignored;
      std::filesystem::remove(file_ + suffix, ignored);
    }
  }

  std::string file_;
};

}  // namespace twinbox::simulation
