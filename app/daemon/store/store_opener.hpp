// Opens all stores concurrently at the start.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/store/stores.hpp"

namespace twinbox::app {

/// For one thread.
class StoreOpener {
 public:
  struct Options {
    std::chrono::milliseconds max_wait = std::chrono::seconds{3};
    std::size_t threads = 32;
  };
  StoreOpener() : StoreOpener(Options{}) {}
  explicit StoreOpener(Options options);
  /// Cancels stores that are still being opened.
  ~StoreOpener();
  StoreOpener(const StoreOpener&) = delete;
  StoreOpener& operator=(const StoreOpener&) = delete;

  struct Failure {
    Store* store;
    std::string error;
  };
  /// Waits until all stores are open, or until the timeout in the options. Stores that do not
  /// respond count as unreachable and are opened in the background. `stores` must outlive this.
  /// Throws errors of the configuration of a store, such as SchemaError.
  std::vector<Failure> open(const Stores& stores, const std::filesystem::path& config_file);

 private:
  struct Work;

  const Options options_;
  std::shared_ptr<Work> work_;  ///< shared with the threads
  std::vector<std::jthread> threads_;
};

}  // namespace twinbox::app
