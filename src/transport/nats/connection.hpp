// One connection to a NATS server. The library reads, writes and calls back on threads of its own.
#pragma once

#include <memory>
#include <nats/nats.h>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/nats.hpp"

namespace twinbox::nats {

struct Server {
  std::string host;
  int port;
};

/// The parts of `url`.
struct Address {
  std::vector<std::string> urls;  ///< with users and passwords
  std::vector<Server> servers;
  bool tls;

  /// Throws std::invalid_argument.
  static Address parse(const std::string& url);
  /// Its name in errors and logs: without users and passwords.
  [[nodiscard]] std::string display_name() const;
};

/// Throws std::invalid_argument naming the option.
void check(const NatsConnection& options);
/// A name of a stream or a consumer, or a subject without wildcards, that the server takes.
bool is_name(std::string_view text) noexcept;
bool is_subject(std::string_view text) noexcept;

/// Destroys objects that the library returns.
struct Destroyer {
  void operator()(natsMsg* message) const noexcept { natsMsg_Destroy(message); }
  void operator()(natsOptions* options) const noexcept { natsOptions_Destroy(options); }
  void operator()(jsCtx* context) const noexcept { jsCtx_Destroy(context); }
  void operator()(jsStreamInfo* info) const noexcept { jsStreamInfo_Destroy(info); }
  void operator()(jsConsumerInfo* info) const noexcept { jsConsumerInfo_Destroy(info); }
  void operator()(jsStreamNamesList* list) const noexcept { jsStreamNamesList_Destroy(list); }
  void operator()(natsSubscription* one) const noexcept { natsSubscription_Destroy(one); }
};
template <class T>
using Owned = std::unique_ptr<T, Destroyer>;
using MessagePtr = Owned<natsMsg>;

/// Receives the messages to the inbox of a connection, on a thread of the library.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void receive(MessagePtr nats_message) = 0;
  /// The user lacks the right to publish to `subject`, or to subscribe to it: messages sent there
  /// get no answer. `text`: the server's words.
  virtual void refused(const std::string& subject, const std::string& text) = 0;
  /// Once: nothing follows.
  virtual void closed() = 0;
};

/// Does not reconnect. Thread-safe.
class Connection {
 public:
  /// `listener` receives the messages under inbox(), and is kept until `closed` was called. Throws
  /// BrokerError.
  Connection(const NatsConnection& options, std::shared_ptr<Listener> listener);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] const std::string& display_name() const noexcept { return display_name_; }
  /// Ends with a dot; a reply subject is this and anything.
  [[nodiscard]] const std::string& inbox() const noexcept { return inbox_; }
  [[nodiscard]] jsCtx* jet_stream() const noexcept { return context_.get(); }
  /// Why it was lost, as far as known.
  [[nodiscard]] std::string last_error() const;

  /// Sent soon, with others; NATS_MAX_PAYLOAD when the server would not take it.
  natsStatus publish(natsMsg& message);
  natsStatus publish(const std::string& subject, const std::string& reply, std::string_view body);
  /// Until the server has read all published messages. Throws BrokerError.
  void flush(Duration limit);
  /// Stops deliveries; those in flight still arrive, and then `closed`.
  void drain(Duration limit) noexcept;

  /// Throw BrokerError, beginning with `what`, for any status but success.
  void check(natsStatus status, const std::string& what) const;

 private:
  void connect(const NatsConnection& options, const Address& address);
  [[nodiscard]] std::string reason_of(natsStatus status) const;
  void listen(std::shared_ptr<Listener> listener);

  /// While it lives, its listener receives what the library reports of a connection, however late.
  class ListenerRegistration {
   public:
    explicit ListenerRegistration(const std::shared_ptr<Listener>& listener);
    ~ListenerRegistration();
    ListenerRegistration(const ListenerRegistration&) = delete;
    ListenerRegistration& operator=(const ListenerRegistration&) = delete;
    [[nodiscard]] void* handle() const noexcept { return handle_; }

   private:
    void* handle_;
  };

  std::string display_name_;
  std::string inbox_;
  const ListenerRegistration registration_;
  struct Closer {
    void operator()(natsConnection* connection) const noexcept;
  };
  std::unique_ptr<natsConnection, Closer> connection_;
  Owned<jsCtx> context_;
  Owned<natsSubscription> subscription_;
};

}  // namespace twinbox::nats
