// Channels: where messages come from, what they are about, who handles them, and the inbox in which
// they wait.
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

/// What is done at start-up about channels without an inbox.
enum class WithoutInbox { none, warn, fail };

struct ChannelPolicy {
  WithoutInbox without_inbox = WithoutInbox::none;
};

/// One channel. Described first, then used through Channels.
class Channel {
 public:
  /// Takes messages of this source only; left out: of every source.
  Channel& from(Source source);
  /// The transport's name: kept in the header `transport` of messages that do not bring that
  /// header.
  Channel& over(std::string transport);
  /// Messages wait in this inbox, one delivery per handler. It must outlive the channels; several
  /// channels may share it, and share its dispatcher then.
  Channel& uses(Inbox& inbox);
  /// ChannelPolicy::without_inbox does not apply: that it has no inbox is meant.
  Channel& allow_without_inbox();

  /// `key` is stored with each delivery: keep it stable, or name its former keys as legacy keys.
  template <class F>
  requires HandlerCallable<std::decay_t<F>> Channel& on(const Topic& topic, const HandlerKey& key,
                                                        F&& handler, HandlerOptions options = {}) {
    return add(topic, key, HandlerEntry::of(std::forward<F>(handler), std::move(options)));
  }
  /// Without a key: for a channel without an inbox. It is called by accept itself, once: what it
  /// throws is logged (`handler_error`) and forgotten.
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

/// Described, then checked, then used: thread-safe from check() on.
class Channels {
 public:
  /// The environment's log hears of what belongs to no store.
  explicit Channels(ChannelPolicy policy = {}, Environment environment = {});
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  /// Throws UsageError when there is a channel of that name already.
  Channel& add(std::string name);

  /// For start-up. Throws UsageError with every problem there is: handlers without a key on a
  /// channel with an inbox, keys or legacy keys that are not unique over all channels and stores,
  /// channels without an inbox against the policy (or a warning, `channel_without_inbox`), and the
  /// like. Then warns of open work under keys that nobody claims (`unclaimed_key`). Throws
  /// DatabaseError. Nothing can be added afterwards, nothing be accepted before.
  void check();

  /// The message and one delivery per handler of its topic, in one transaction. Throws
  /// std::invalid_argument for a channel that does not exist, or a topic or source that it does not
  /// take. Without an inbox: calls the handlers of the topic, one after the other.
  Accepted accept(std::string_view channel, const Arrival& arrival);
  /// In the caller's transaction; the channel must have an inbox.
  Accepted accept(Session& session, std::string_view channel, const Arrival& arrival);

  /// What became of an arrival on one channel.
  struct Delivered {
    std::string_view channel;
    Accepted accepted;
  };
  /// On every channel that takes its source and topic; one transaction per store, then the handlers
  /// without an inbox. After an error hand it over again: a store that has it takes no second one.
  /// Throws std::invalid_argument when there is no such channel.
  std::vector<Delivered> accept(const Arrival& arrival);

  /// For the compiler's errors: names the field that is wrong; see twinbox::fields.
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

  /// What the dispatcher of this inbox handles: the handlers of all channels that use it, no other.
  /// Throws UsageError when no channel does.
  [[nodiscard]] Handlers handlers_of(const Inbox& inbox) const;
  /// Null: the channel has none. Throws std::invalid_argument for a channel that does not exist.
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

// Presets. A preset sets only what still has its default; what the caller has set stays. Use both
// of a pair: the box has the retention, the dispatcher prunes by it, unless its `housekeeping` has
// a retention of its own.

/// Per-handler delivery: 5 attempts, delays of 2 s doubled up to 5 min with equal jitter; finished
/// messages are kept for ever.
BoxOptions per_handler_box(BoxOptions options = {});
/// Batches of 100, a look every 30 s, a handler that has been silent for 5 min is stuck; prunes
/// hourly in batches of 10 000.
DispatcherOptions per_handler_dispatcher(DispatcherOptions options = {});

/// At most once: finished messages and marks are kept for 7 days.
BoxOptions at_most_once_box(BoxOptions options = {});
/// Prunes hourly in batches of 1 000.
DispatcherOptions at_most_once_dispatcher(DispatcherOptions options = {});

/// The event bus: 5 attempts, delays of 1 min doubled up to 1 h; finished messages are kept for 7
/// days.
BoxOptions event_bus_box(BoxOptions options = {});
/// Batches of 100, a look every 30 s; prunes every 30 s in batches of 100 (outbox) or hourly in
/// batches of 1 000 (inbox).
DispatcherOptions event_bus_dispatcher(BoxKind box, DispatcherOptions options = {});

}  // namespace twinbox
