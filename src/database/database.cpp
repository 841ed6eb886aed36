#include "twinbox/database.hpp"

#include <utility>

#include "database/open_driver.hpp"
#include "database/pool.hpp"

namespace twinbox {

Database::Database(std::string_view address, DatabaseOptions options, Environment environment) {
  auto driver = open_driver(address, options, environment);
  pool_ = std::make_unique<Pool>(std::move(driver), std::move(options), std::move(environment));
}

Database::Database(std::unique_ptr<Pool> pool) : pool_(std::move(pool)) {}

Database::~Database() = default;

Pool& pool_of(Database& database) noexcept { return *database.pool_; }

Database database_over(std::unique_ptr<Pool> pool) { return Database{std::move(pool)}; }

void Database::run_in_transaction(const std::function<void(Session&)>& work) {
  pool_->in_transaction(work);
}

Dialect Database::dialect() const noexcept { return std::as_const(*pool_).driver().dialect(); }

const std::string& Database::name() const noexcept { return pool_->name(); }

const Environment& Database::environment() const noexcept { return pool_->environment(); }

}  // namespace twinbox
