#include "driver/sqlite/sqlite_driver.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "database/open_driver.hpp"
#include "driver/sqlite/connection.hpp"
#include "driver/sqlite/sqlite_inotify_watch.hpp"
#include "driver/sqlite/sqlite_watch.hpp"
#include "driver/sqlite/store_file.hpp"

namespace twinbox {
namespace {

class SqliteDriver final : public Driver {
 public:
  SqliteDriver(std::string file, DatabaseOptions options, Environment environment)
      : file_(std::move(file)),
        store_(file_ == ":memory:" ? nullptr : std::make_shared<StoreFile>(file_)),
        options_(std::move(options)),
        environment_(std::move(environment)) {}

  [[nodiscard]] Dialect dialect() const noexcept override { return Dialect::sqlite; }

  [[nodiscard]] Shape shape(std::size_t pool_size) const noexcept override {
    if (file_ == ":memory:") return {.writers = 1, .readers = 1, .shared = true};
    return {.writers = 1,
            .readers = std::max<std::size_t>(pool_size, 1),
            .shared = false,
            .groups_writes = true};
  }

  std::unique_ptr<Connection> connect(Access access) override {
    // Check before opening: a removed file must not be created again.
    if (store_ != nullptr) store_->check("open");
    return std::make_unique<SqliteConnection>(file_, store_, access, options_, environment_);
  }

  [[nodiscard]] std::string describe() const override { return "sqlite:" + file_; }

  [[nodiscard]] Location location() const override {
    if (file_ == ":memory:") return {};
    std::error_code failed;
    auto path = std::filesystem::weakly_canonical(std::filesystem::absolute(file_, failed), failed);
    return {.server = "files", .database = failed ? file_ : path.string()};
  }

  /// The file reports commits to every box in it.
  [[nodiscard]] OpenWatch watch(const BoxName& /*box*/) const override {
    if (file_ == ":memory:") return {};
    return [file = file_](const std::stop_token& /*stop*/) {
      return std::make_unique<SqliteWatch>(file, DirectoryWatch::shared());
    };
  }

  [[nodiscard]] OpenWatch watch_without_connection() const override {
    if (file_ == ":memory:") return {};
    return [file = file_](const std::stop_token& /*stop*/) {
      return std::make_unique<SqliteInotifyWatch>(file, DirectoryWatch::shared());
    };
  }

 private:
  std::string file_;
  std::shared_ptr<StoreFile> store_;  ///< shared with the connections; null in memory
  DatabaseOptions options_;
  Environment environment_;
};

}  // namespace

std::unique_ptr<Driver> make_sqlite_driver(std::string file, const DatabaseOptions& options,
                                           const Environment& environment) {
  if (file.empty()) {
    throw std::invalid_argument(
        "sqlite: the file name is empty; write sqlite:<file> or sqlite::memory:");
  }
  if (file.find('\0') != std::string::npos) {
    throw std::invalid_argument("sqlite: the file name holds a NUL character; leave it out");
  }
  return std::make_unique<SqliteDriver>(std::move(file), options, environment);
}

}  // namespace twinbox

namespace {

using namespace twinbox;

constexpr std::string_view scheme = "sqlite:";

bool takes(std::string_view address) noexcept { return address.starts_with(scheme); }

std::unique_ptr<Driver> open(std::string_view address, const DatabaseOptions& options,
                             const Environment& environment) {
  const auto file = address.substr(scheme.size());
  if (file.empty()) {
    throw std::invalid_argument(
        "database address: no file after sqlite:, write sqlite:<file> or sqlite::memory:");
  }
  if (file.starts_with("//")) {
    throw std::invalid_argument(
        "database address: sqlite:// is not understood, because programs differ in what it means: "
        "write sqlite:shop.db for a file in the current directory, sqlite:/var/lib/shop.db for an "
        "absolute path");
  }
  return make_sqlite_driver(std::string{file}, options, environment);
}

}  // namespace

extern "C" {
extern const DriverLibrary twinbox_sqlite_driver;
constinit const DriverLibrary twinbox_sqlite_driver{&takes, &open};
}
