// One connection: reads a request, has it answered, writes the answer, and so on.
#pragma once

#include <algorithm>
#include <array>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/ssl.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/http/deadline.hpp"
#include "daemon/http/http_server.hpp"
#include "daemon/http/request_parser.hpp"
#include "daemon/http/response_text.hpp"

namespace twinbox::app {

/// `Stream` is HttpServer::Socket, or TLS over it. Everything runs on its strand.
template <class Stream>
class Connection final : public OpenConnection,
                         public std::enable_shared_from_this<Connection<Stream>> {
  using Error = boost::beast::error_code;
  using Clock = std::chrono::steady_clock;
  static constexpr bool tls = !std::is_same_v<Stream, HttpServer::Socket>;

 public:
  template <class... Context>
  Connection(HttpServer& server, HttpServer::Socket socket, bool loopback, Context&... context)
      : server_(server),
        stream_(std::move(socket), context...),
        deadline_(this->socket().get_executor(), [this] { on_deadline(); }),
        loopback_(loopback) {
    server_.add_connection();
  }
  ~Connection() override {
    done_waiting();
    release_body();
    server_.remove_connection();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start() {
    boost::asio::dispatch(stream_.get_executor(), [self = this->shared_from_this()] {
      if constexpr (tls) {
        self->handshake();
      } else {
        self->next();
      }
    });
  }

  void close_if_waiting() override {
    boost::asio::post(stream_.get_executor(), [self = this->shared_from_this()] {
      if (self->waits_for_request_) self->close();
    });
  }
  void evict() override {
    boost::asio::post(stream_.get_executor(), [self = this->shared_from_this()] {
      if (self->ticket_ != 0) self->close();
    });
  }

 private:
  HttpServer::Socket& socket() { return boost::beast::get_lowest_layer(stream_); }

  void expire_after(Clock::duration time) { deadline_.set(time, this->shared_from_this()); }

  /// A request that is being handled gets an answer; any other connection is closed.
  void on_deadline() {
    if (handled_) {
      ++server_.stats().timeouts;
      return write(busy("the request timed out and may still complete; repeat it with the same id"),
                   false);
    }
    if (events_ && !writes_events_) return send_heartbeat();
    timed_out_ = true;
    Error ignored;
    socket().close(ignored);
  }

  void handshake() {
    if constexpr (tls) {
      wait_for_request();
      if (server_.stopping()) return close();
      expire_after(server_.limit()->header_timeout);
      stream_.async_handshake(boost::asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](Error error) {
                                if (error) return self->close();
                                self->next();
                              });
    }
  }

  /// The next request of this connection; it may have come with the last one.
  void next() {
    limit_ = server_.limit();
    sender_.clear();
    parser_.emplace();
    set_limits(*parser_, buffer_, *limit_);
    wait_for_request();
    skip_empty_lines(buffer_);
    if (buffer_.size() > 0) return read_head();
    if (server_.stopping()) return close();
    buffer_.shrink_to_fit();
    expire_after(limit_->idle_timeout);
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = this->shared_from_this()](Error error, std::size_t bytes) {
                              if (error) return self->close();
                              self->buffer_.commit(bytes);
                              skip_empty_lines(self->buffer_);
                              if (self->buffer_.size() == 0) return self->next();
                              self->read_head();
                            });
  }

  /// A stop closes those that it finds waiting; who comes later must see for itself that it stops.
  void wait_for_request() {
    waits_for_request_ = true;
    may_be_evicted("");
  }

  /// For a new one, while this one waits for its client. `sender`: whose request it waits for.
  void may_be_evicted(const std::string& sender) {
    if (ticket_ != 0 && waits_as_ == sender) return;
    take_ticket_back();
    waits_as_ = sender;
    ticket_ = server_.add_waiting(sender, this->shared_from_this());
  }

  void take_ticket_back() {
    if (ticket_ != 0) server_.remove_waiting(waits_as_, std::exchange(ticket_, 0));
  }

  void done_waiting() {
    waits_for_request_ = false;
    take_ticket_back();
  }

  void read_head() {
    began_ = Clock::now();
    expire_after(limit_->header_timeout);
    // Mostly it is there as a whole; then nothing has to be waited for.
    Error error;
    buffer_.consume(parser_->put(buffer_.data(), error));
    if (error != boost::beast::http::error::need_more) return on_head(error);
    if (server_.stopping()) return close();
    boost::beast::http::async_read_header(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](Error failed, std::size_t) { self->on_head(failed); });
  }

  void on_head(Error error) {
    done_waiting();
    if (error) return refuse_unread(error);
    take_head();
    if (const auto refusal = refuse_framing(*parser_)) {
      ++server_.stats().malformed;
      return write(*refusal, false);
    }
    HttpService::Begun begun = server_.service().begin(request_);
    context_ = std::move(begun.context);
    if (begun.refusal) return write(*begun.refusal, is_whole(*parser_));
    sender_ = std::move(begun.sender);
    auto& body = parser_->get().body();
    body.limit = std::min(body.limit, begun.max_body);
    body.reserve = [this](std::size_t bytes) { return reserve(bytes); };
    if (!fits(*parser_)) return refuse_unread(body_too_large());
    const auto expect = request_.headers.find("Expect");
    const bool waits = !http_1_0_ && expect && boost::beast::iequals(*expect, "100-continue");
    if (waits && !parser_->is_done()) return write_continue();
    read_body();
  }

  void write_continue() {
    static constexpr std::string_view text = "HTTP/1.1 100 Continue\r\n\r\n";
    expire_after(limit_->write_timeout);
    boost::asio::async_write(stream_, boost::asio::buffer(text),
                             [self = this->shared_from_this()](Error error, std::size_t) {
                               if (error) return self->close();
                               self->read_body();
                             });
  }

  void read_body() {
    body_began_ = Clock::now();
    Error error;
    parser_->eager(true);
    if (!parser_->is_done()) buffer_.consume(parser_->put(buffer_.data(), error));
    if (error && error != boost::beast::http::error::need_more) return on_body(error);
    read_more();
  }

  void read_more() {
    if (parser_->is_done()) return on_body({});
    if (lost_room_) return refuse_unread(no_room_for_body());
    may_be_evicted(sender_);
    expire_after(body_read_timeout(Clock::now() - body_began_, reserved_, *limit_));
    boost::beast::http::async_read_some(
        stream_, buffer_, *parser_, [self = this->shared_from_this()](Error failed, std::size_t) {
          if (failed) return self->on_body(failed);
          self->read_more();
        });
  }

  void on_body(Error error) {
    if (error) return refuse_unread(error);
    if (body_ != 0 && !server_.anonymous().complete(body_)) {
      return refuse_unread(no_room_for_body());
    }
    body_ = 0;
    done_waiting();
    if (stream_events()) return;
    const std::uint64_t number = ++number_;
    handled_ = true;
    expire_after(limit_->request_timeout);
    HttpRequest request = request_;
    request.body = std::move(parser_->get().body().text);
    server_.service().handle(context_, std::move(request),
                             [self = this->shared_from_this(), number](HttpResponse response) {
                               boost::asio::post(self->stream_.get_executor(),
                                                 [self, number, response = std::move(response)] {
                                                   if (self->number_ == number)
                                                     self->write(response, true);
                                                 });
                             });
  }

  // ---- an answer that goes on

  bool stream_events() {
    auto wake = [weak = this->weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      boost::asio::post(self->stream_.get_executor(), [self] { self->send_events(); });
    };
    events_ = server_.service().stream(context_, request_, std::move(wake));
    if (!events_) return false;
    release_body();
    text_ = "HTTP/1.1 200 OK\r\nDate: " + http_date(server_.now()) +
            "\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\nX-Accel-Buffering: no\r\nConnection: close\r\n\r\n";
    server_.service().done(
        context_, request_, 200, text_.size(),
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began_));
    context_.reset();  // a reload must not be held up by pages that stay open
    request_ = {};
    wait_for_request();  // it may be closed at any time
    if (server_.stopping()) {
      close();
      return true;
    }
    stream_.async_read_some(boost::asio::buffer(discard_buffer_),
                            [self = this->shared_from_this()](Error, std::size_t) {
                              self->close();  // who listens has nothing more to say
                            });
    write_events();
    return true;
  }

  void send_events() {
    if (!events_ || writes_events_) return;
    std::optional<std::string> news = events_->next();
    if (!news) return close();
    if (!news->empty()) {
      text_ = std::move(*news);
      return write_events();
    }
    expire_after(std::chrono::seconds{15});
  }

  /// Shows whether the client is still connected.
  void send_heartbeat() {
    text_ = ":\n\n";
    write_events();
  }

  void write_events() {
    writes_events_ = true;
    expire_after(limit_->write_timeout);
    boost::asio::async_write(stream_, boost::asio::buffer(text_),
                             [self = this->shared_from_this()](Error error, std::size_t) {
                               self->writes_events_ = false;
                               if (error) return self->close();
                               self->send_events();
                             });
  }

  // ---- heads and errors

  void take_head() {
    request_ = head_of(*parser_, loopback_);
    keep_alive_ = parser_->get().keep_alive();
    http_1_0_ = parser_->get().version() < 11;
    has_head_ = true;
  }

  /// What cannot be read any further is answered and closed.
  void refuse_unread(Error error) {
    if (!has_head_ && parser_->got_some()) take_head();
    if (timed_out_) {
      ++server_.stats().timeouts;
      return close();
    }
    if (lost_room_) error = no_room_for_body();
    const auto refusal = refusal_of(error, *limit_, parser_->get().body().limit);
    if (!refusal) return close();
    if (error != no_room_for_body()) ++server_.stats().malformed;
    std::string& unread = parser_->get().body().text;
    unread.clear();
    unread.shrink_to_fit();  // the answer may take a while
    write(*refusal, false);
  }

  void write(const HttpResponse& response, bool may_go_on) {
    ++number_;
    handled_ = false;
    release_body();
    keep_alive_ = keep_alive_ && may_go_on && !server_.stopping();
    const auto kept = http_1_0_ ? ConnectionMode::keep_with_header : ConnectionMode::keep;
    text_ = response_text(response, server_.now(), keep_alive_ ? kept : ConnectionMode::close,
                          request_.method == "HEAD");
    server_.service().done(
        context_, request_, response.status, text_.size(),
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - began_));
    context_.reset();
    request_ = {};
    has_head_ = false;
    may_be_evicted(sender_);
    expire_after(limit_->write_timeout);
    boost::asio::async_write(stream_, boost::asio::buffer(text_),
                             [self = this->shared_from_this()](Error error, std::size_t) {
                               self->text_ = {};
                               if (error) return self->close();
                               if (self->keep_alive_) return self->next();
                               self->end();
                             });
  }

  /// Says that no more will come, and reads on for a moment: who closes on unread bytes takes the
  /// answer away from a client that is still sending.
  void end() {
    Error ignored;
    socket().shutdown(HttpServer::Socket::shutdown_send, ignored);
    expire_after(std::chrono::seconds{2});
    drain(16 * 1024 * 1024);
  }

  void drain(std::size_t left) {
    socket().async_read_some(
        boost::asio::buffer(discard_buffer_),
        [self = this->shared_from_this(), left](Error error, std::size_t bytes) {
          if (error || bytes >= left) return self->close();
          self->drain(left - bytes);
        });
  }

  void close() {
    done_waiting();
    events_.reset();
    deadline_.stop();
    Error ignored;
    socket().close(ignored);
  }

  bool reserve(std::size_t bytes) {
    if (!sender_.empty()) {
      const std::size_t share =
          std::max(limit_->body_bytes, HttpServer::share_of(limit_->buffered_bytes));
      if (!server_.known().reserve(sender_, bytes, limit_->buffered_bytes, share)) return false;
    } else {
      body_ = server_.anonymous().grow(body_, bytes, limit_->anonymous_bytes, room_is_lost());
      if (body_ == 0) {
        reserved_ = 0;
        return false;
      }
    }
    reserved_ += bytes;
    return true;
  }

  /// Called when another body takes the room of this one: what still comes is not read.
  AnonymousBodies::Drop room_is_lost() {
    return [weak = this->weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      boost::asio::post(self->stream_.get_executor(), [self] {
        if (self->body_ == 0) return;
        self->lost_room_ = true;
        Error ignored;
        self->socket().cancel(ignored);
      });
    };
  }

  void release_body() {
    const std::size_t bytes = std::exchange(reserved_, 0);
    if (!sender_.empty() && bytes > 0) return server_.known().release(sender_, bytes);
    if (body_ != 0) return server_.anonymous().end(std::exchange(body_, 0));
    if (bytes > 0) server_.anonymous().release_body(bytes);
  }

  HttpServer& server_;
  Stream stream_;
  Deadline<HttpServer::Socket::executor_type> deadline_;
  const bool loopback_;
  boost::beast::flat_buffer buffer_;
  std::optional<RequestParser> parser_;
  std::shared_ptr<const LimitConfig> limit_;  // shared with the server until it changes
  HttpRequest request_;                       // its head, while it is handled
  HttpService::Context context_;
  std::string text_;  // the answer
  std::unique_ptr<EventStream> events_;
  std::array<char, 512> discard_buffer_;
  Clock::time_point began_ = Clock::now();
  std::uint64_t number_ = 0;  // of the request: an answer that comes too late is dropped
  std::uint64_t ticket_ = 0;  // among those that may be evicted; 0: it may not
  std::string waits_as_;      // among those of whom
  Clock::time_point body_began_ = began_;
  std::size_t reserved_ = 0;      // bytes of the body that have come
  std::string sender_;            // whose budget they are taken from; empty: without a token
  AnonymousBodies::Id body_ = 0;  // among those without a token that are being read
  bool lost_room_ = false;
  bool waits_for_request_ = false;
  bool writes_events_ = false;
  bool has_head_ = false;
  bool handled_ = false;    // a worker has the request
  bool timed_out_ = false;  // the socket was closed by its deadline
  bool keep_alive_ = false;
  bool http_1_0_ = false;
};

}  // namespace twinbox::app
