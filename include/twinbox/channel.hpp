// Channels: each channel names its source, its topics, its handlers and the inbox that stores its
// messages.
#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "twinbox/dispatcher.hpp"
#include "twinbox/handler.hpp"
#include "twinbox/inbox.hpp"

namespace twinbox {

/// What to do at start-up about channels without an inbox.
enum class WithoutInbox { none, warn, fail };

struct ChannelPolicy {
  WithoutInbox without_inbox = WithoutInbox::none;
};

/// One channel. Describe it first, then use it through Channels.
class Channel {
 public:
  /// Takes messages of this source only; without it: of every source.
  Channel& from(Source source);
  /// The transport's name: stored in the header `transport` of messages that lack that header.
  Channel& over(std::string transport);
  /// Stores messages in this inbox, one delivery per handler. The inbox must outlive the channels;
  /// channels that share it also share its dispatcher.
  Channel& uses(Inbox& inbox);
  /// The channel has no inbox on purpose: ChannelPolicy::without_inbox does not apply.
  Channel& allow_without_inbox();

  /// Each delivery stores `key`: keep it stable, or list former keys as legacy keys.
  template <class F>
  requires HandlerCallable<std::decay_t<F>> Channel& on(const Topic& topic, const HandlerKey& key,
                                                        F&& handler, HandlerOptions options = {}) {
    return add(topic, key, HandlerEntry::of(std::forward<F>(handler), std::move(options)));
  }
  /// Without a key: for a channel without an inbox. accept() calls the handler once; its exceptions
  /// are logged (`handler_error`) and dropped.
  template <class F>
  requires HandlerCallable<std::decay_t<F>> Channel& on(const Topic& topic, F&& handler,
                                                        HandlerOptions options = {}) {
    return add(topic, {}, HandlerEntry::of(std::forward<F>(handler), std::move(options)));
  }
  /// The handler gets the payload as a T; see typed.hpp.
  template <Decodable T, class F>
  Channel& on(const Topic& topic, const HandlerKey& key, F&& handler, HandlerOptions options = {}) {
    return on(topic, key, typed<T>(std::forward<F>(handler)), std::move(options));
  }
  template <Decodable T, class F>
  Channel& on(const Topic& topic, F&& handler, HandlerOptions options = {}) {
    return on(topic, typed<T>(std::forward<F>(handler)), std::move(options));
  }
  Channel& on_batch(const Topic& topic, const HandlerKey& key, BatchHandler handler,
                    HandlerOptions options = {}) {
    return add(topic, key, {std::move(handler), std::move(options)});
  }
  Channel& add(const Topic& topic, std::optional<HandlerKey> key, HandlerEntry entry);

 private:
  friend class Channels;
  struct Consumer {
    Topic topic;
    std::optional<HandlerKey> key;
    HandlerEntry entry;
  };
  explicit Channel(std::string name) : name_(std::move(name)) {}
  Channel& changed();
  void find_problems(std::vector<std::string>& problems) const;

  std::string name_;
  std::optional<Source> source_;
  std::string transport_;
  Inbox* inbox_ = nullptr;
  bool may_lack_inbox_ = false;
  bool sealed_ = false;
  std::vector<Consumer> consumers_;
  std::map<std::string, std::vector<HandlerName>, std::less<>> handlers_;  ///< by topic
};

/// Describe, check, then use: thread-safe from check() on.
class Channels {
 public:
  /// The environment's log receives the events that belong to no store.
  explicit Channels(ChannelPolicy policy = {}, Environment environment = {});
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  /// Throws UsageError when a channel of that name exists.
  Channel& add(std::string name);

  /// For start-up. Throws UsageError listing every problem: handlers without a key on a channel
  /// with an inbox, keys or legacy keys that are not unique over all channels and stores, channels
  /// without an inbox against the policy (or a warning, `channel_without_inbox`), and so on. Warns
  /// of open deliveries whose key no handler claims (`unclaimed_key`). Throws DatabaseError. After
  /// check() no channel can be added; before it nothing can be accepted.
  void check();

  /// Stores the message and one delivery per handler of its topic, in one transaction. Throws
  /// std::invalid_argument for an unknown channel, or a topic or source that the channel does not
  /// take. Without an inbox: calls the handlers of the topic, one after the other.
  Accepted accept(std::string_view channel, const Arrival& arrival);
  /// In the caller's transaction; the channel must have an inbox.
  Accepted accept(Session& session, std::string_view channel, const Arrival& arrival);

  /// The result of an arrival on one channel.
  struct Delivered {
    std::string_view channel;
    Accepted accepted;
  };
  /// On every channel that takes its source and topic; one transaction per store, then the handlers
  /// without an inbox. After an error pass it again: a store that has it stores no second copy.
  /// Throws std::invalid_argument when no channel takes it.
  std::vector<Delivered> accept(const Arrival& arrival);

  /// For compile errors: names the field that is wrong; see twinbox::fields.
  template <std::same_as<fields::ArrivalFields> T = fields::ArrivalFields>
  Accepted accept(std::string_view, const T&) {
    return fields::refuse<T, Accepted>();
  }
  template <std::same_as<fields::ArrivalFields> T = fields::ArrivalFields>
  Accepted accept(Session&, std::string_view, const T&) {
    return fields::refuse<T, Accepted>();
  }
  template <std::same_as<fields::ArrivalFields> T = fields::ArrivalFields>
  std::vector<Delivered> accept(const T&) {
    return fields::refuse<T, std::vector<Delivered>>();
  }

  /// The handlers of all channels that use this inbox, for its dispatcher. Throws UsageError when
  /// no channel uses it.
  [[nodiscard]] Handlers handlers_of(const Inbox& inbox) const;
  /// Null: the channel has no inbox. Throws std::invalid_argument for an unknown channel.
  [[nodiscard]] Inbox* inbox_of(std::string_view channel) const;
  /// Each inbox once: each needs a dispatcher of its own.
  [[nodiscard]] std::vector<Inbox*> inboxes() const;

 private:
  [[nodiscard]] const Channel& named(std::string_view name) const;
  [[nodiscard]] const Channel& open(std::string_view name, const Arrival& arrival) const;
  void require_checked() const;
  void find_clashes(std::vector<std::string>& problems) const;
  void find_shared_tables(std::vector<std::string>& problems) const;
  void call_directly(const Channel& channel, const Arrival& arrival) const;

  ChannelPolicy policy_;
  Environment environment_;
  std::map<std::string, Channel, std::less<>> channels_;
  std::map<std::string, std::vector<const Channel*>, std::less<>> by_topic_;
  bool checked_ = false;
};

// Presets. A preset sets only options that still have their default. Use both of a pair: the box
// has the retention, and the dispatcher prunes by it unless its `housekeeping` sets another.

/// Per-handler delivery: 5 attempts, delays of 2 s doubled up to 5 min with equal jitter; finished
/// messages are kept forever.
BoxOptions per_handler_box(BoxOptions options = {});
/// Batches of 100, a poll every 30 s, a lease of 5 min; prunes hourly in batches of 10 000.
DispatcherOptions per_handler_dispatcher(DispatcherOptions options = {});

/// At most once: finished messages and marks are kept for 7 days.
BoxOptions at_most_once_box(BoxOptions options = {});
/// Prunes hourly in batches of 1 000.
DispatcherOptions at_most_once_dispatcher(DispatcherOptions options = {});

/// The event bus: 5 attempts, delays of 1 min doubled up to 1 h; finished messages are kept for 7
/// days.
BoxOptions event_bus_box(BoxOptions options = {});
/// Batches of 100, a poll every 30 s; prunes every 30 s in batches of 100 (outbox) or hourly in
/// batches of 1 000 (inbox).
DispatcherOptions event_bus_dispatcher(BoxKind box, DispatcherOptions options = {});

}  // namespace twinbox
