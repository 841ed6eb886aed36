#include "core/text.hpp"
#include "transport/nats/consumer.hpp"
#include "transport/nats/topology.hpp"
#include "transport/reconnect.hpp"

namespace twinbox {
namespace {

using nats::Connection;

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument("nats source: " + why);
}

class NatsSource : public BrokerSource {
 public:
  NatsSource(NatsConnection connection, NatsSourceOptions options, AcceptCall accept,
             Environment environment)
      : connection_(std::move(connection)),
        options_(std::move(options)),
        accept_(std::move(accept)),
        environment_(std::move(environment)) {
    try {
      nats::check(connection_);
      nats::check(options_);
    } catch (const std::invalid_argument& error) {
      refuse(error.what());
    }
    if (!accept_) refuse("accept is missing: where its messages go");
  }

  void run(std::stop_token stop) override {
    int failures = 0;
    while (!stop.stop_requested()) {
      try {
        consume(stop, failures);
      } catch (const std::exception& error) {
        if (!stop.stop_requested()) lost(error.what());
      }
      record_.change([](SourceStatus& status) { status.connected = false; });
      rest(stop, ++failures);
    }
  }

  [[nodiscard]] SourceStatus status() const override { return record_.get(); }

 private:
  void consume(const std::stop_token& stop, int& failures) {
    const auto post = std::make_shared<nats::Post>();
    Connection connection{connection_, post};
    const auto info = nats::prepare(connection, options_);
    nats::Consumer consumer{connection, post, *info, options_, accept_, environment_, record_};
    failures = 0;
    record_.change([](SourceStatus& status) {
      status.connected = true;
      status.error.clear();
    });
    environment_.write(LogLevel::info, "broker_connected",
                       {{"broker", std::string_view{connection.shown()}},
                        {"source", std::string_view{options_.consumer}}});
    consumer.run(stop);
  }

  void lost(const std::string& error) {
    const std::string cut = cut_error(error);
    record_.change([&](SourceStatus& status) { status.error = cut; });
    environment_.write(
        LogLevel::warning, "broker_lost",
        {{"source", std::string_view{options_.consumer}}, {"error", std::string_view{cut}}});
  }

  void rest(const std::stop_token& stop, int failures) {
    const Duration delay = reconnect_delay(failures, connection_.max_reconnect_delay, environment_);
    std::mutex mutex;
    std::condition_variable_any nothing;
    std::unique_lock lock{mutex};
    nothing.wait_for(lock, stop, delay, [] { return false; });
  }

  const NatsConnection connection_;
  const NatsSourceOptions options_;
  const AcceptCall accept_;
  const Environment environment_;
  SourceRecord record_;
};

}  // namespace

std::unique_ptr<BrokerSource> nats_source(NatsConnection connection, NatsSourceOptions options,
                                          AcceptCall accept, Environment environment) {
  return std::make_unique<NatsSource>(std::move(connection), std::move(options), std::move(accept),
                                      std::move(environment));
}

}  // namespace twinbox
