#include "transport/kafka/producer.hpp"

#include <algorithm>
#include <array>

namespace twinbox::kafka {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// After a refusal by the first address others are tried: a shorter silence is not an outage.
constexpr Duration grace = 500ms;

Settings settings_of(Duration timeout, std::size_t max_bytes) {
  constexpr std::size_t least = 1000, most = 1'000'000'000;
  return {{"enable.idempotence", "true"},
          {"acks", "all"},
          {"delivery.timeout.ms", std::to_string(std::max(1, milliseconds(timeout)))},
          // Some room for the protocol's overhead; max_bytes has been checked before.
          {"message.max.bytes", std::to_string(std::clamp(max_bytes + 1000, least, most))},
          // An unknown topic is a failed attempt, not a timeout.
          {"topic.metadata.propagation.max.ms", "5000"},
          {"linger.ms", "1"},
          // The same partitioner as other clients, so that a key stays in its partition.
          {"partitioner", "murmur2_random"}};
}

Owned<rd_kafka_headers_t> headers_of(const Record& record) {
  Owned<rd_kafka_headers_t> headers{rd_kafka_headers_new(record.headers.size())};
  for (const auto& [name, value] : record.headers) {
    rd_kafka_header_add(headers.get(), name.data(), static_cast<ssize_t>(name.size()),
                        value ? value->data() : nullptr,
                        value ? static_cast<ssize_t>(value->size()) : 0);
  }
  return headers;
}

}  // namespace

ReportResult report_result_of(rd_kafka_resp_err_t error, bool maybe_written) noexcept {
  switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR: return ReportResult::written;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD: return ReportResult::refused;
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
    case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
    case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
    case RD_KAFKA_RESP_ERR__FATAL:
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__DESTROY:
      return maybe_written ? ReportResult::failed : ReportResult::unreachable;
    default: return ReportResult::failed;
  }
}

Producer::Producer(const KafkaConnection& connection, Duration timeout, std::size_t max_bytes,
                   OnReport on_report)
    : display_name_(display_name(connection)), on_report_(std::move(on_report)) {
  auto conf = configure(connection, settings_of(timeout, max_bytes));
  rd_kafka_conf_set_opaque(conf.get(), this);
  rd_kafka_conf_set_dr_msg_cb(conf.get(), reported);
  rd_kafka_conf_set_error_cb(conf.get(), failed);
  handle_ = open(RD_KAFKA_PRODUCER, std::move(conf));
  queue_.reset(rd_kafka_queue_get_main(handle_.get()));
}

Producer::~Producer() {
  on_report_ = {};
  rd_kafka_purge(handle_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
}

void Producer::reported(rd_kafka_t*, const rd_kafka_message_t* message, void* self) {
  auto& producer = *static_cast<Producer*>(self);
  if (producer.on_report_) producer.on_report_(*message);
}

void Producer::failed(rd_kafka_t* handle, int code, const char* reason, void* self) {
  static_cast<Producer*>(self)->health_.error(handle, code, reason);
}

void Producer::serve(Duration limit) const {
  rd_kafka_queue_poll_callback(queue_.get(), milliseconds(limit));
}

void Producer::set_wake_callback(void (*call)(rd_kafka_t*, void*), void* opaque) const {
  rd_kafka_queue_cb_event_enable(queue_.get(), call, opaque);
}

void Producer::connect(Duration limit, const std::stop_token& stop) {
  const auto begin = Clock::now();
  while (!answers(handle_.get(), 100ms)) {
    serve(0ms);
    const auto waited = Clock::now() - begin;
    const Duration time_limit = health_.unreachable() ? std::min(grace, limit) : limit;
    if (waited < time_limit && !stop.stop_requested()) continue;
    throw BrokerError(display_name_ + ": " +
                      (health_.last_error().empty() ? "no answer" : health_.last_error()));
  }
  health_.on_answer();
}

Producer::ProduceResult Producer::produce(const Record& record, void* opaque, std::string& error) {
  Owned<rd_kafka_headers_t> headers = headers_of(record);
  std::array<rd_kafka_vu_t, 7> parts{};
  parts[0].vtype = RD_KAFKA_VTYPE_TOPIC;
  parts[0].u.cstr = record.topic.c_str();
  parts[1].vtype = RD_KAFKA_VTYPE_VALUE;
  parts[1].u.mem.ptr = record.body ? const_cast<char*>(record.body->data()) : nullptr;
  parts[1].u.mem.size = record.body ? record.body->size() : 0;
  parts[2].vtype = RD_KAFKA_VTYPE_KEY;
  parts[2].u.mem.ptr = record.key ? const_cast<char*>(record.key->data()) : nullptr;
  parts[2].u.mem.size = record.key ? record.key->size() : 0;
  parts[3].vtype = RD_KAFKA_VTYPE_HEADERS;
  parts[3].u.headers = headers.get();
  parts[4].vtype = RD_KAFKA_VTYPE_TIMESTAMP;
  parts[4].u.i64 = record.timestamp;
  parts[5].vtype = RD_KAFKA_VTYPE_OPAQUE;
  parts[5].u.ptr = opaque;
  parts[6].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
  parts[6].u.i = RD_KAFKA_MSG_F_COPY;
  const Owned<rd_kafka_error_t> refused{
      rd_kafka_produceva(handle_.get(), parts.data(), parts.size())};
  if (!refused) {
    static_cast<void>(headers.release());  // they belong to the record now
    return ProduceResult::queued;
  }
  const rd_kafka_resp_err_t code = rd_kafka_error_code(refused.get());
  if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) return ProduceResult::queue_full;
  error = rd_kafka_error_string(refused.get());
  if (code == RD_KAFKA_RESP_ERR__FATAL) throw BrokerError(display_name_ + ": " + error);
  return ProduceResult::rejected;
}

void Producer::poll(Duration limit) {
  serve(limit);
  if (health_.is_fatal()) throw BrokerError(display_name_ + ": " + health_.last_error());
  if (health_.needs_probe()) connect(grace);
}

void Producer::purge() {
  rd_kafka_purge(handle_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  const auto end = Clock::now() + 10s;
  while (rd_kafka_outq_len(handle_.get()) > 0 && Clock::now() < end) serve(100ms);
}

}  // namespace twinbox::kafka
