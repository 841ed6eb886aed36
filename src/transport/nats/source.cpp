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
    keep_consuming(stop, options_.consumer, connection_.max_reconnect_delay, environment_, record_,
                   [&](const auto& connected) { consume(stop, connected); });
  }

  [[nodiscard]] SourceStatus status() const override { return record_.get(); }

 private:
  void consume(const std::stop_token& stop, const std::function<void()>& connected) {
    const auto post = std::make_shared<nats::Post>();
    Connection connection{connection_, post};
    const auto info = nats::prepare(connection, options_);
    given_back_.told(info->AckFloor.Stream, info->Delivered.Stream);
    nats::Consumer consumer{connection, post,         *info,   options_,
                            accept_,    environment_, record_, given_back_};
    connected();
    record_.change([](SourceStatus& status) {
      status.connected = true;
      status.error.clear();
    });
    environment_.write(LogLevel::info, "broker_connected",
                       {{"broker", std::string_view{connection.shown()}},
                        {"source", std::string_view{options_.consumer}}});
    consumer.run(stop);
  }

  const NatsConnection connection_;
  const NatsSourceOptions options_;
  const AcceptCall accept_;
  const Environment environment_;
  SourceRecord record_;
  nats::GivenBack given_back_;  // of whoever runs it alone
};

}  // namespace

std::unique_ptr<BrokerSource> nats_source(NatsConnection connection, NatsSourceOptions options,
                                          AcceptCall accept, Environment environment) {
  return std::make_unique<NatsSource>(std::move(connection), std::move(options), std::move(accept),
                                      std::move(environment));
}

}  // namespace twinbox
