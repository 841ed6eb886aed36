// Statements that are sent together and answered together: one round trip, ended by one Sync.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "driver/postgres/parameters.hpp"
#include "driver/postgres/result.hpp"

namespace twinbox::postgres {

/// Asks the server to end the running statement of a connection. Does not wait.
void request_cancel(const std::shared_ptr<PGcancel>& cancel) noexcept;

/// The connection is in pipeline mode and nonblocking. Outside a transaction block, the statements
/// of a pipeline are one transaction; under READ COMMITTED each statement still has its own
/// snapshot.
class Pipeline {
 public:
  explicit Pipeline(PGconn* connection) : connection_(connection) {}

  /// Each adds one message and returns its index among the answers.
  std::size_t command(const char* sql);
  std::size_t prepare(const std::string& name, const std::string& sql,
                      const Parameters& parameters);
  std::size_t execute_prepared(const std::string& name, const Parameters& parameters);
  std::size_t execute(const std::string& sql, const Parameters& parameters, Format format);

  /// How to interrupt a long pipeline: by a cancel request to the server. If the server does not
  /// answer it, the pipeline ends as if the connection had broken.
  struct Interrupt {
    const std::atomic<bool>& wanted;
    const std::shared_ptr<PGcancel>&
        cancel;  // shared with the thread that waits for a frozen server
  };
  /// Sends everything and waits for all answers, no longer than `limit` (zero: forever). When the
  /// connection breaks or the time is up, it returns with the answers so far.
  void flush(std::chrono::milliseconds limit, const Interrupt* interrupt = nullptr);

  /// True when every answer has come; the connection can then be used again.
  [[nodiscard]] bool complete() const noexcept { return complete_; }
  /// True when the end of the pipeline may have reached the server.
  [[nodiscard]] bool sent() const noexcept { return sent_; }
  /// Null when it did not come.
  [[nodiscard]] const PGresult* answer(std::size_t index) const { return answers_.at(index).get(); }
  /// The first answer that is an error, or null.
  [[nodiscard]] const PGresult* error() const noexcept;
  /// The error after the last answer, when the work was to be made durable; or null.
  [[nodiscard]] const PGresult* error_at_end() const noexcept { return end_.get(); }
  /// True after a cancel request. The server may receive it late: the connection must not be used
  /// for anything else.
  [[nodiscard]] bool interrupted() const noexcept { return interrupted_; }
  /// True when the server did not answer in time.
  [[nodiscard]] bool timed_out() const noexcept { return timed_out_; }
  /// True when a statement was a COPY, which cannot be executed; the connection is unusable then.
  [[nodiscard]] bool is_copy() const noexcept { return copy_; }
  [[nodiscard]] bool succeeded(std::size_t index) const;

 private:
  std::size_t added(int sent);
  bool send_all();
  void interrupt_if_wanted();
  /// How long to wait for the server now, in milliseconds; -1: forever.
  [[nodiscard]] int wait_time() const;
  /// Checks whether the time is up.
  bool out_of_time();
  /// False when the connection broke.
  bool wait_for_answer();
  bool take_answers(Result& answer);
  void take_end();

  PGconn* connection_;
  const Interrupt* interrupt_ = nullptr;
  std::vector<Result> answers_;
  Result end_;
  bool refused_ = false;
  bool copy_ = false;
  bool interrupted_ = false;
  bool timed_out_ = false;
  std::chrono::steady_clock::time_point give_up_at_ = std::chrono::steady_clock::time_point::max();
  bool sent_ = false;
  bool complete_ = false;
};

}  // namespace twinbox::postgres
