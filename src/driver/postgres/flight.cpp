#include "driver/postgres/flight.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <system_error>
#include <thread>

namespace twinbox::postgres {
namespace {

/// How often a flight that may be interrupted looks whether it is.
constexpr int interrupt_check_ms = 50;
/// How long a server that was asked to end a statement may be silent.
constexpr std::chrono::seconds silence_limit{3};

/// Waits until the socket can be read, or written to when `events` asks for it; no longer than
/// `limit`, in milliseconds (-1: for ever). False: an error.
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

std::size_t Flight::command(const char* sql) {
  return added(PQsendQueryParams(connection_, sql, 0, nullptr, nullptr, nullptr, nullptr, 0));
}

std::size_t Flight::prepare(const std::string& name, const std::string& sql,
                            const Parameters& parameters) {
  return added(PQsendPrepare(connection_, name.c_str(), sql.c_str(), parameters.count(),
                             parameters.types().data()));
}

std::size_t Flight::execute_prepared(const std::string& name, const Parameters& parameters) {
  return added(PQsendQueryPrepared(connection_, name.c_str(), parameters.count(),
                                   parameters.values(), parameters.lengths(), parameters.formats(),
                                   static_cast<int>(Format::binary)));
}

std::size_t Flight::execute(const std::string& sql, const Parameters& parameters, Format format) {
  return added(PQsendQueryParams(
      connection_, sql.c_str(), parameters.count(), parameters.types().data(), parameters.values(),
      parameters.lengths(), parameters.formats(), static_cast<int>(format)));
}

std::size_t Flight::added(int sent) {
  refused_ = refused_ || sent != 1;
  answers_.emplace_back();
  return answers_.size() - 1;
}

void Flight::land(const Interrupt* interrupt) {
  interrupt_ = interrupt;
  if (refused_ || PQpipelineSync(connection_) != 1 || !send_all()) return;
  for (auto& answer : answers_) {
    if (!take_answers(answer)) return;
  }
  take_end();
}

bool Flight::send_all() {
  // Reads while it writes: a server that cannot get rid of its answers stops reading, and with both
  // sides writing nobody would ever read.
  for (int left = PQflush(connection_); left != 0; left = PQflush(connection_)) {
    short ready = 0;
    if (left < 0 || !wait_for(connection_, POLLIN | POLLOUT, -1, ready)) return false;
    if ((ready & ~POLLOUT) != 0 && PQconsumeInput(connection_) != 1) return false;
  }
  sent_ = true;
  return true;
}

bool Flight::wait_for_answer() {
  while (PQisBusy(connection_) != 0) {
    short ready = 0;
    if (!wait_for(connection_, POLLIN, patience(), ready)) return false;
    if (ready != 0) {
      if (PQconsumeInput(connection_) != 1) return false;
    } else if (interrupted_) {
      if (patience() == 0) return false;
    } else {
      interrupt_if_wanted();
    }
  }
  return true;
}

int Flight::patience() const {
  using std::chrono::steady_clock;
  if (interrupt_ == nullptr) return -1;
  if (!interrupted_) return interrupt_check_ms;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(give_up_at_ - steady_clock::now());
  return std::max(0, static_cast<int>(left.count()));
}

/// Not by whoever wants it: what has not been sent yet could not be ended. And on a thread of its
/// own: a server that is frozen takes the request and never closes the connection it came by.
void Flight::interrupt_if_wanted() {
  if (!interrupt_->wanted || interrupt_->cancel == nullptr) return;
  interrupted_ = true;
  give_up_at_ = std::chrono::steady_clock::now() + silence_limit;
  try {
    std::thread([cancel = interrupt_->cancel] {
      std::array<char, 256> reason{};
      PQcancel(cancel.get(), reason.data(), static_cast<int>(reason.size()));
    }).detach();
  } catch (const std::system_error&) {  // no thread to be had: the silence ends it
  }
}

bool Flight::take_answers(Result& answer) {
  for (;;) {
    if (!wait_for_answer()) return false;
    Result result{PQgetResult(connection_)};
    if (result == nullptr) return answer != nullptr;
    const auto status = PQresultStatus(result.get());
    if (!answer) answer = std::move(result);
    // A COPY would wait for data that nobody sends; the connection is given up instead.
    copy_ = status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
    if (copy_ || PQstatus(connection_) == CONNECTION_BAD) return false;
  }
}

void Flight::take_end() {
  // A deferred constraint speaks up at the end of the implicit transaction: an error, and then the
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

const PGresult* Flight::error() const noexcept {
  for (const auto& answer : answers_) {
    if (answer && PQresultStatus(answer.get()) == PGRES_FATAL_ERROR) return answer.get();
  }
  return end_.get();
}

bool Flight::succeeded(std::size_t place) const {
  const auto status = PQresultStatus(answer(place));
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY;
}

}  // namespace twinbox::postgres
