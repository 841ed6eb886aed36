#include "driver/postgres/pipeline.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <poll.h>
#include <thread>

namespace twinbox::postgres {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

/// How often an interruptible pipeline checks for an interrupt.
constexpr milliseconds interrupt_check{50};
constexpr milliseconds longest_poll = std::chrono::hours{1};
/// How long a server may stay silent after a cancel request: other stores may need the thread.
constexpr milliseconds silence_limit{500};

/// Waits until the socket can be read, or written to when `events` includes it; no longer than
/// `limit`, in milliseconds (-1: forever). False: an error.
bool wait_for(PGconn* connection, short events, int limit, short& ready) {
  pollfd socket{PQsocket(connection), events, 0};
  if (socket.fd < 0) return false;
  int count = 0;
  do {
    count = ::poll(&socket, 1, limit);
  } while (count < 0 && errno == EINTR);
  ready = socket.revents;
  return count >= 0;
}

}  // namespace

/// On a thread of its own: a frozen server takes the request and never closes its connection. No
/// more of them can be running than the pool has had connections.
void request_cancel(const std::shared_ptr<PGcancel>& cancel) noexcept {
  if (cancel == nullptr) return;
  try {
    std::thread([cancel] {
      std::array<char, 256> reason{};
      PQcancel(cancel.get(), reason.data(), static_cast<int>(reason.size()));
    }).detach();
  } catch (const std::exception&) {  // without a thread, the silence timeout ends it
  }
}

std::size_t Pipeline::command(const char* sql) {
  return added(PQsendQueryParams(connection_, sql, 0, nullptr, nullptr, nullptr, nullptr, 0));
}

std::size_t Pipeline::prepare(const std::string& name, const std::string& sql,
                              const Parameters& parameters) {
  return added(PQsendPrepare(connection_, name.c_str(), sql.c_str(), parameters.count(),
                             parameters.types().data()));
}

std::size_t Pipeline::execute_prepared(const std::string& name, const Parameters& parameters) {
  return added(PQsendQueryPrepared(connection_, name.c_str(), parameters.count(),
                                   parameters.values(), parameters.lengths(), parameters.formats(),
                                   static_cast<int>(Format::binary)));
}

std::size_t Pipeline::execute(const std::string& sql, const Parameters& parameters, Format format) {
  return added(PQsendQueryParams(
      connection_, sql.c_str(), parameters.count(), parameters.types().data(), parameters.values(),
      parameters.lengths(), parameters.formats(), static_cast<int>(format)));
}

std::size_t Pipeline::added(int sent) {
  refused_ = refused_ || sent != 1;
  answers_.emplace_back();
  return answers_.size() - 1;
}

void Pipeline::flush(milliseconds limit, const Interrupt* interrupt) {
  interrupt_ = interrupt;
  if (limit.count() > 0) give_up_at_ = steady_clock::now() + limit;
  if (refused_ || PQpipelineSync(connection_) != 1 || !send_all()) return;
  for (auto& answer : answers_) {
    if (!take_answers(answer)) return;
  }
  take_end();
}

bool Pipeline::send_all() {
  // Reads while it writes: a server that cannot send its answers stops reading, and then both sides
  // would only write.
  for (int left = PQflush(connection_); left != 0; left = PQflush(connection_)) {
    short ready = 0;
    if (left < 0 || !wait_for(connection_, POLLIN | POLLOUT, wait_time(), ready)) return false;
    if (ready == 0 && out_of_time()) return false;
    if ((ready & ~POLLOUT) != 0 && PQconsumeInput(connection_) != 1) return false;
  }
  sent_ = true;
  return true;
}

bool Pipeline::wait_for_answer() {
  while (PQisBusy(connection_) != 0) {
    short ready = 0;
    if (!wait_for(connection_, POLLIN, wait_time(), ready)) return false;
    if (ready != 0) {
      if (PQconsumeInput(connection_) != 1) return false;
    } else if (out_of_time()) {
      return false;
    } else if (!interrupted_) {
      interrupt_if_wanted();
    }
  }
  return true;
}

int Pipeline::wait_time() const {
  auto wait = milliseconds::max();
  if (give_up_at_ != steady_clock::time_point::max()) {
    wait = std::max(milliseconds{0},
                    std::chrono::ceil<milliseconds>(give_up_at_ - steady_clock::now()));
  }
  if (interrupt_ != nullptr && !interrupted_) wait = std::min(wait, interrupt_check);
  if (wait == milliseconds::max()) return -1;
  return static_cast<int>(std::min(wait, longest_poll).count());
}

bool Pipeline::out_of_time() {
  timed_out_ = steady_clock::now() >= give_up_at_;
  return timed_out_;
}

/// Not by the requesting thread: it could not end a statement that has not been sent yet.
void Pipeline::interrupt_if_wanted() {
  if (interrupt_ == nullptr || !interrupt_->wanted || interrupt_->cancel == nullptr) return;
  interrupted_ = true;
  give_up_at_ = std::min(give_up_at_, steady_clock::now() + silence_limit);
  request_cancel(interrupt_->cancel);
}

bool Pipeline::take_answers(Result& answer) {
  for (;;) {
    if (!wait_for_answer()) return false;
    Result result{PQgetResult(connection_)};
    if (result == nullptr) return answer != nullptr;
    const auto status = PQresultStatus(result.get());
    if (!answer) answer = std::move(result);
    // A COPY would wait for data that never comes; the connection is given up instead.
    copy_ = status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
    if (copy_ || PQstatus(connection_) == CONNECTION_BAD) return false;
  }
}

void Pipeline::take_end() {
  // A deferred constraint fails at the end of the implicit transaction: an error, and then the
  // Sync.
  while (wait_for_answer()) {
    Result result{PQgetResult(connection_)};
    if (result != nullptr && PQresultStatus(result.get()) == PGRES_PIPELINE_SYNC) {
      complete_ = true;
      return;
    }
    if (PQstatus(connection_) == CONNECTION_BAD || (result == nullptr && end_ == nullptr)) return;
    if (result != nullptr) end_ = std::move(result);
  }
}

const PGresult* Pipeline::error() const noexcept {
  for (const auto& answer : answers_) {
    if (answer && PQresultStatus(answer.get()) == PGRES_FATAL_ERROR) return answer.get();
  }
  return end_.get();
}

bool Pipeline::succeeded(std::size_t index) const {
  const auto status = PQresultStatus(answer(index));
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY;
}

}  // namespace twinbox::postgres
