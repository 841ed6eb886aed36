// An idempotent producer: records in, delivery reports out. Used by one thread, except for wake().
#pragma once

#include <functional>
#include <stop_token>

#include "transport/kafka/wire.hpp"

namespace twinbox::kafka {

/// The meaning of a delivery report for a message.
enum class ReportResult {
  written,      ///< all required replicas have it
  refused,      ///< because of its content, or of another record in the same request
  unreachable,  ///< not written, through no fault of the message: no broker could be reached
  failed,       ///< anything else; it may have been written
};

/// `maybe_written`: it was in flight then.
ReportResult report_result_of(rd_kafka_resp_err_t error, bool maybe_written) noexcept;

class Producer {
 public:
  /// Called by poll, connect and purge for every taken record.
  using OnReport = std::function<void(const rd_kafka_message_t&)>;
  enum class ProduceResult { queued, queue_full, rejected };

  Producer(const KafkaConnection& connection, Duration timeout, std::size_t max_bytes,
           OnReport on_report);
  /// Records in flight are not reported any more.
  ~Producer();
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  /// Waits until a broker answers. Throws BrokerError with the reason.
  void connect(Duration limit, const std::stop_token& stop = {});
  /// `full`: later; `no`: `error` says why. Throws BrokerError when a new producer is needed.
  ProduceResult produce(const Record& record, void* opaque, std::string& error);
  /// Serves events, waiting up to `limit`. Throws BrokerError when the cluster has gone, or a new
  /// producer is needed.
  void poll(Duration limit);
  /// Ends a poll, from any thread.
  void wake() const noexcept { rd_kafka_queue_yield(queue_.get()); }
  /// Registers `call`, called on another thread whenever poll() has events.
  void set_wake_callback(void (*call)(rd_kafka_t*, void*), void* opaque) const;
  /// Reports everything that has not been delivered as such.
  void purge();

 private:
  static void reported(rd_kafka_t* handle, const rd_kafka_message_t* message, void* self);
  static void failed(rd_kafka_t* handle, int code, const char* reason, void* self);
  void serve(Duration limit) const;

  const std::string display_name_;
  OnReport on_report_;
  ClusterHealth health_;
  Owned<rd_kafka_t> handle_;
  Owned<rd_kafka_queue_t> queue_;
};

}  // namespace twinbox::kafka
