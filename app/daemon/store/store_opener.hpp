// Opens all stores at the start, side by side.
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
  /// Ends what is still being opened.
  ~StoreOpener();
  StoreOpener(const StoreOpener&) = delete;
  StoreOpener& operator=(const StoreOpener&) = delete;

  struct Failure {
    Store* store;
    std::string error;
  };
  /// Waits until all are open, or as long as the options say: those that do not answer are failures
  /// as those that cannot be reached, and are opened in the background. `stores` must outlive this.
  /// Throws what says that a store cannot be used as it is configured, as SchemaError does.
  std::vector<Failure> open(const Stores& stores, const std::filesystem::path& config_file);

 private:
  struct Work;

  const Options options_;
  std::shared_ptr<Work> work_;  ///< shared with the threads
  std::vector<std::jthread> threads_;
};

}  // namespace twinbox::app
