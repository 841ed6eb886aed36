#include "support/backend.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <unistd.h>

#include "support/reused_schema.hpp"

namespace twinbox::test {

std::string unique_name() {
  static std::atomic<int> last = 0;
  static const unsigned run = std::random_device{}();
  return "t" + std::to_string(run) + "_" + std::to_string(getpid()) + "_" + std::to_string(++last);
}

namespace {

std::string server_address() {
  const char* address = std::getenv("TWINBOX_TEST_POSTGRES");
  if (address == nullptr) {
    throw std::runtime_error(
        "TWINBOX_TEST_POSTGRES is not set: run the tests by ./dev test, which starts a server");
  }
  return address;
}

void drop_postgres_schema(const std::string& address, const std::string& schema) {
  Database database(address);
  database.in_transaction([&](Session& session) {
    session.execute("set local client_min_messages = error");
    session.execute("drop schema if exists \"" + schema + "\" cascade");
  });
}

}  // namespace

std::string to_string(Backend backend) {
  switch (backend) {
    case Backend::sqlite_file: return "sqlite_file";
    case Backend::sqlite_memory: return "sqlite_memory";
    case Backend::postgres: return "postgres";
    case Backend::sqlserver: return "sqlserver";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, Backend backend) { return out << to_string(backend); }

std::vector<Backend> backends() {
  const char* chosen = std::getenv("TWINBOX_TEST_BACKENDS");
  const std::string_view names = chosen == nullptr ? "sqlite,postgres,sqlserver" : chosen;
  std::vector<Backend> result;
  if (names.find("sqlite") != std::string_view::npos) {
    result.insert(result.end(), {Backend::sqlite_file, Backend::sqlite_memory});
  }
  if (names.find("postgres") != std::string_view::npos) result.push_back(Backend::postgres);
  if (names.find("sqlserver") != std::string_view::npos) result.push_back(Backend::sqlserver);
  return result;
}

std::vector<Backend> backends(std::initializer_list<Backend> wanted) {
  std::vector<Backend> result;
  for (const Backend backend : backends()) {
    if (std::find(wanted.begin(), wanted.end(), backend) != wanted.end()) {
      result.push_back(backend);
    }
  }
  return result;
}

void skip_without_server(Backend backend) {
  if (backend != Backend::sqlserver || !sqlserver_address().empty()) return;
  GTEST_SKIP() << "TWINBOX_TEST_SQLSERVER is not set";
}

void LogBook::write(const LogEvent& event) {
  for (const LogField& field : event.fields) {
    const auto* text = std::get_if<std::string_view>(&field.value);
    EXPECT_TRUE(text == nullptr || text->find(payload_mark) == std::string_view::npos)
        << "a payload in field " << field.name << " of event " << event.name;
  }
  RecordingLog::write(event);
}

TestStore::TestStore(Backend backend) : backend_(backend), schema_("infra") {
  switch (backend) {
    case Backend::sqlite_memory: address_ = "sqlite::memory:"; break;
    case Backend::sqlite_file:
      file_ = std::filesystem::temp_directory_path() / (unique_name() + ".db");
      address_ = "sqlite:" + file_;
      break;
    case Backend::postgres:
      address_ = server_address();
      schema_ = unique_name();
      break;
    case Backend::sqlserver:
      // Without a server the test is skipped as soon as it is constructed; until then its
      // constructors need some place.
      address_ = sqlserver_address().empty() ? "sqlite::memory:" : sqlserver_address();
      if (!sqlserver_address().empty()) schema_ = take_sqlserver_schema();
      break;
  }
}

TestStore::~TestStore() {
  if (backend_ == Backend::sqlite_file) {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::error_code ignored;
      std::filesystem::remove(file_ + suffix, ignored);
    }
  }
  if (backend_ == Backend::postgres) drop_postgres_schema(address_, schema_);
  if (backend_ == Backend::sqlserver && !sqlserver_address().empty()) {
    return_sqlserver_schema(schema_, changed_);
  }
}

BoxTest::BoxTest() : test_store_(GetParam()) { skip_without_server(GetParam()); }
BoxTest::~BoxTest() = default;

Environment BoxTest::environment() {
  return {.clock = [this] { return clock_.now(); },
          .log = [this](const LogEvent& event) { log_.write(event); },
          .log_level = LogLevel::debug};
}

BoxOptions BoxTest::options() {
  BoxOptions options;
  options.schema = test_store_.schema();
  options.deploy_schema = true;
  return options;
}

Database& BoxTest::database() {
  if (!database_) {
    DatabaseOptions database_options;
    database_options.name = "test store";
    database_ = std::make_unique<Database>(test_store_.address(), database_options, environment());
  }
  return *database_;
}

Outbox& BoxTest::outbox() {
  if (!outbox_) outbox_ = std::make_unique<Outbox>(database(), options());
  return *outbox_;
}

Inbox& BoxTest::inbox() {
  if (!inbox_) inbox_ = std::make_unique<Inbox>(database(), options());
  return *inbox_;
}

std::string BoxTest::in_schema(std::string sql) const {
  static constexpr std::string_view mark = "{schema}";
  const std::string prefix = on_sqlite() ? "" : "\"" + test_store_.schema() + "\".";
  for (std::size_t at = sql.find(mark); at != std::string::npos; at = sql.find(mark, at)) {
    sql.replace(at, mark.size(), prefix);
  }
  return sql;
}

std::string BoxTest::read(const std::string& sql) {
  std::string value;
  database().in_transaction([&](Session& session) {
    session.execute(in_schema(sql), {}, [&](const Row& row) {
      value = row.is_null(0) ? "null" : std::string{row.text(0)};
    });
  });
  return value;
}

void BoxTest::write(const std::string& sql) {
  for (const char* word : {"create ", "alter ", "drop ", "sp_rename"}) {
    if (sql.find(word) != std::string::npos) test_store_.change();
  }
  database().in_transaction([&](Session& session) { session.execute(in_schema(sql)); });
}

void BoxTest::rename_table(const std::string& from, const std::string& to) {
  write(on_sqlserver()
            ? "exec sp_rename '" + test_store_.schema() + "." + from + "', '" + to + "', 'OBJECT'"
            : "alter table {schema}" + from + " rename to " + to);
}

// At both ends: whatever shows of it, its beginning or its end, is found.
std::string payload(std::string_view text) {
  return std::string{payload_mark}.append(text).append(payload_mark);
}

NewMessage a_message(std::string topic, std::string_view content) {
  return {.topic = Topic{std::move(topic)}, .payload = payload(content)};
}

Arrival an_arrival(std::string id, std::string source, std::string topic) {
  return {.source = Source{std::move(source)},
          .id = MessageId{std::move(id)},
          .topic = Topic{std::move(topic)},
          .payload = payload()};
}

MessageKey a_key(std::string id, std::string source) {
  return {Source{std::move(source)}, MessageId{std::move(id)}};
}

std::vector<DeliveryId> ids_of(const std::vector<Message>& messages) {
  std::vector<DeliveryId> ids;
  for (const Message& message : messages) ids.push_back(message.delivery_id);
  return ids;
}

}  // namespace twinbox::test
