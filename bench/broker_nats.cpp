#include <condition_variable>
#include <memory>
#include <mutex>
#include <nats/nats.h>
#include <stdexcept>

#include "broker_side.hpp"
#include "twinbox/nats.hpp"

namespace twinbox::bench {
namespace {

void check(natsStatus status) {
  if (status != NATS_OK) throw std::runtime_error(natsStatus_GetText(status));
}

/// The client library alone: one connection, a stream on disk, an id and an acknowledgement each.
class PlainPublisher {
 public:
  explicit PlainPublisher(std::string stream) : stream_(std::move(stream)) {
    check(natsConnection_ConnectTo(&connection_, broker_setting("TWINBOX_TEST_NATS").c_str()));
    jsOptions options;
    jsOptions_Init(&options);
    options.PublishAsync.MaxPending = 2000;
    options.PublishAsync.StallWait = 60'000;
    options.PublishAsync.ErrHandler = [](jsCtx*, jsPubAckErr*, void* failed) {
      *static_cast<bool*>(failed) = true;
    };
    options.PublishAsync.ErrHandlerClosure = &failed_;
    check(natsConnection_JetStream(&context_, connection_, &options));
    js_DeleteStream(context_, stream_.c_str(), nullptr, nullptr);
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    const std::string subject = stream_ + ".>";
    const char* subjects[] = {subject.c_str()};
    config.Name = stream_.c_str();
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    check(js_AddStream(nullptr, context_, &config, nullptr, nullptr));
  }
  ~PlainPublisher() {
    js_DeleteStream(context_, stream_.c_str(), nullptr, nullptr);
    jsCtx_Destroy(context_);
    natsConnection_Destroy(connection_);
  }
  PlainPublisher(const PlainPublisher&) = delete;
  PlainPublisher& operator=(const PlainPublisher&) = delete;

  void purge() { check(js_PurgeStream(context_, stream_.c_str(), nullptr, nullptr)); }

  double publish(int count) {
    purge();
    const std::string body(broker_payload_size, 'x');
    const std::string subject = stream_ + ".order";
    const auto begin = std::chrono::steady_clock::now();
    for (int sent = 0; sent < count; ++sent) {
      jsPubOptions options;
      jsPubOptions_Init(&options);
      const std::string id = "0191e2a0-0000-7000-8000-" + std::to_string(++number_);
      options.MsgId = id.c_str();
      natsMsg* message = nullptr;
      check(natsMsg_Create(&message, subject.c_str(), nullptr, body.data(),
                           static_cast<int>(body.size())));
      for (const auto& [name, value] : broker_labels)
        check(natsMsgHeader_Set(message, name, value));
      check(js_PublishMsgAsync(context_, &message, &options));
    }
    check(js_PublishAsyncComplete(context_, nullptr));
    if (failed_) throw std::runtime_error("the stream does not acknowledge");
    return rate(count, begin);
  }

 private:
  std::string stream_;
  natsConnection* connection_ = nullptr;
  jsCtx* context_ = nullptr;
  std::int64_t number_ = 100'000'000'000;
  bool failed_ = false;
};

}  // namespace

BrokerSide nats_side() {
  const std::string ours = "twinbox_bench_ours";
  auto plain = std::make_shared<PlainPublisher>("twinbox_bench_plain");
  auto cleaner = std::make_shared<PlainPublisher>(ours);
  return {[=](int count) { return plain->publish(count); }, [=] { cleaner->purge(); },
          nats_sink(std::make_shared<NatsPublisher>(
              NatsConnection{.url = broker_setting("TWINBOX_TEST_NATS")},
              NatsSinkOptions{.subject_prefix = ours + "."}))};
}

}  // namespace twinbox::bench
