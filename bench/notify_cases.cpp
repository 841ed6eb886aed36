#include <stdexcept>

#include <libpq-fe.h>

#include "candidate.hpp"
#include "cases.hpp"
#include "concurrent.hpp"
#include "sql/notify_channel.hpp"

namespace twinbox::bench {
namespace {

constexpr double notify_target = 0.90;
constexpr int writers = 32;
constexpr auto slice = std::chrono::milliseconds{400};

/// Listens, and never reads what it is told.
class SilentListener {
 public:
  explicit SilentListener(const StoreAddress& site)
      : connection_(PQconnectdb(site.address.c_str())) {
    const std::string channel = channel_of({site.schema, "outbox"}).name;
    const std::unique_ptr<PGresult, decltype(&PQclear)> answer{
        PQexec(connection_.get(), ("listen \"" + channel + "\"").c_str()), &PQclear};
    if (PQresultStatus(answer.get()) != PGRES_COMMAND_OK)
      throw std::runtime_error(PQerrorMessage(connection_.get()));
  }

 private:
  struct Finish {
    void operator()(PGconn* connection) const noexcept { PQfinish(connection); }
  };
  std::unique_ptr<PGconn, Finish> connection_;
};

/// A connection for each writer, so that no two of them share a commit of ours.
struct Writers {
  explicit Writers(const char* setting) {
    const StoreAddress& site = place.site();
    const std::string address =
        site.address + (site.address.find('?') == site.address.npos ? "?" : "&") + setting;
    for (int i = 0; i < writers; ++i) {
      auto database = std::make_shared<Database>(address, DatabaseOptions{.pool_size = 1});
      auto outbox = std::make_shared<Outbox>(*database, site.options());
      threads.emplace_back(
          [database, outbox](const NewMessage& message) { outbox->enqueue(message); });
    }
  }

  BenchStore place{Dialect::postgres, BoxKind::outbox};
  SilentListener listener{place.site()};
  std::vector<Enqueue> threads;
};

std::function<double()> enqueue_rate(const char* setting) {
  auto side = std::make_shared<Writers>(setting);
  return [side] { return concurrent_rate(slice, side->threads); };
}

}  // namespace

std::vector<Case> notify_cases(Dialect dialect) {
  if (dialect != Dialect::postgres) return {};
  return {{"enqueue, 32 writers, told of or not", dialect, "msg/s", notify_target, false,
           [](const Repetitions&) {
             return Comparison{enqueue_rate("options=-ctwinbox.notify%3Don"),
                               enqueue_rate("options=-ctwinbox.notify%3Doff")};
           }}};
}

}  // namespace twinbox::bench
