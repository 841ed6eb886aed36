#include "transport/nats/consumer.hpp"
#include "transport/nats/topology.hpp"

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
    consume_with_reconnect(stop, options_.consumer, connection_.max_reconnect_delay, environment_,
                           status_, [&](const auto& connected) { consume(stop, connected); });
  }

  [[nodiscard]] SourceStatus status() const override { return status_.get(); }

 private:
  void consume(const std::stop_token& stop, const std::function<void()>& connected) {
    const auto received = std::make_shared<nats::ReceiveQueue>();
    Connection connection{connection_, received};
    const auto info = nats::prepare(connection, options_);
    naks_.update(info->AckFloor.Stream, info->Delivered.Stream);
    nats::Consumer consumer{connection, received,     *info,   options_,
                            accept_,    environment_, status_, naks_};
    connected();
    status_.update([](SourceStatus& status) {
      status.connected = true;
      status.error.clear();
    });
    environment_.write(LogLevel::info, "broker_connected",
                       {{"broker", std::string_view{connection.display_name()}},
                        {"source", std::string_view{options_.consumer}}});
    consumer.run(stop);
  }

  const NatsConnection connection_;
  const NatsSourceOptions options_;
  const AcceptCall accept_;
  const Environment environment_;
  SharedSourceStatus status_;
  nats::NakTracker naks_;  // of the running thread alone
};

}  // namespace

std::unique_ptr<BrokerSource> nats_source(NatsConnection connection, NatsSourceOptions options,
                                          AcceptCall accept, Environment environment) {
  return std::make_unique<NatsSource>(std::move(connection), std::move(options), std::move(accept),
                                      std::move(environment));
}

}  // namespace twinbox
