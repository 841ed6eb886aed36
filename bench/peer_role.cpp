#include <atomic>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

#include "load.hpp"
#include "peer.hpp"
#include "sender.hpp"
#include "twinbox/dispatcher.hpp"

namespace twinbox::bench {
namespace {

using std::chrono::steady_clock;

void say(const std::string& word) {
  const std::string line = word + "\n";
  // One write: lines of several threads do not mix.
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(4);
}

void say(std::size_t number) { say(std::to_string(number)); }

class Role {
 public:
  Role() = default;
  Role(const Role&) = delete;
  Role& operator=(const Role&) = delete;
  virtual ~Role() = default;
  virtual void enqueue(int count) = 0;
};

std::vector<NewMessage> a_batch() { return some_messages(cycle_batch, 256); }

class DispatcherRole final : public Role {
 public:
  explicit DispatcherRole(const StoreAddress& site)
      : database_(site.address),
        outbox_(database_, site.options()),
        dispatcher_(outbox_, handlers(), {.batch = cycle_batch}, observer()),
        runner_([this](const std::stop_token& stop) { dispatcher_.run(stop); }) {}

  void enqueue(int count) override {
    for (int left = count; left > 0; left -= cycle_batch) outbox_.enqueue(messages_);
  }

  /// Evenly over the time; what comes late is caught up with.
  void offer(int count, int seconds) {
    const auto begin = steady_clock::now();
    const std::chrono::duration<double> all{seconds};
    for (int done = 0; done < count; done += cycle_batch) {
      std::this_thread::sleep_until(begin + std::chrono::duration_cast<steady_clock::duration>(
                                                all * (static_cast<double>(done) / count)));
      outbox_.enqueue(messages_);
    }
  }

 private:
  static Handlers handlers() {
    Handlers handlers;
    handlers.on(Topic{"order.placed"}, [](const Message&) {});
    return handlers;
  }

  static DispatchObserver observer() {
    return {.settled = [](std::string_view, std::size_t count, Duration) { say(count); }};
  }

  Database database_;
  Outbox outbox_;
  Dispatcher dispatcher_;
  const std::vector<NewMessage> messages_ = a_batch();
  std::jthread runner_;
};

/// Claims and acks once. False: nothing was due.
bool drain_once(Candidate& store) {
  const std::vector<Message> messages = store.claim(cycle_batch);
  if (!messages.empty()) say(store.ack(messages));
  return !messages.empty();
}

class LoopRole final : public Role {
 public:
  explicit LoopRole(const StoreAddress& site) : store_(open_raw(site, BoxKind::outbox)) {}

  void enqueue(int count) override {
    for (int left = count; left > 0; left -= cycle_batch) {
      store_->enqueue(messages_);
      drain_once(*store_);
    }
    while (drain_once(*store_)) {
    }
  }

 private:
  std::unique_ptr<RawConnection> store_;
  const std::vector<NewMessage> messages_ = a_batch();
};

class TwoLoopsRole final : public Role {
 public:
  explicit TwoLoopsRole(const StoreAddress& site)
      : writer_(open_raw(site, BoxKind::outbox)), worker_(open_raw(site, BoxKind::outbox)) {}

  void enqueue(int count) override {
    std::atomic<bool> written = false;
    std::jthread worker([&] {
      for (;;) {
        const bool last = written;
        if (drain_once(*worker_)) continue;
        if (last) break;
        std::this_thread::yield();
      }
    });
    for (int left = count; left > 0; left -= cycle_batch) writer_->enqueue(messages_);
    written = true;
  }

 private:
  std::unique_ptr<RawConnection> writer_;
  std::unique_ptr<RawConnection> worker_;
  const std::vector<NewMessage> messages_ = a_batch();
};

template <class Body>
void for_each_line(Body body) {
  say("ready");
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words{line};
    std::string verb;
    int count = 0;
    int seconds = 0;
    words >> verb >> count >> seconds;
    if (verb == "time") {
      say(static_cast<std::size_t>(processor_time().count()));
    } else {
      body(verb, count, seconds);
    }
  }
}

void enqueue_on_request(Role& role) {
  for_each_line([&](const std::string&, int count, int) { role.enqueue(count); });
}

void dispatch_on_request(DispatcherRole& role) {
  for_each_line([&](const std::string& verb, int count, int seconds) {
    verb == "offer" ? role.offer(count, seconds) : role.enqueue(count);
  });
}

/// `send` returns when its commit had returned.
template <class Send>
void send_on_request(Send send) {
  for_each_line([&](const std::string&, int, int) {
    say(std::to_string(steady_clock::time_point{send()}.time_since_epoch().count()));
  });
}

/// By hand, since the time of the commit is wanted before others are told of it: whoever is told
/// may run at once, in the place of the one who told.
void send_to_file(const StoreAddress& site) {
  const auto store = open_raw(site, BoxKind::outbox);
  const std::string directory = std::filesystem::path{site.file()}.parent_path();
  const NewMessage message = some_messages(1, 256).front();
  send_on_request([&] {
    store->enqueue(message);
    const auto committed = steady_clock::now();
    close(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return committed;
  });
}

}  // namespace

bool is_peer(int count, char** words) { return count == 6 && std::string_view{words[1]} == "peer"; }

int run_peer(char** words) {
  const std::string_view role = words[2];
  const StoreAddress site{
      std::string_view{words[3]} == "sqlite" ? Dialect::sqlite : Dialect::postgres, words[4],
      words[5]};
  if (role == "dispatcher") {
    DispatcherRole dispatcher{site};
    dispatch_on_request(dispatcher);
  } else if (role == "loop") {
    LoopRole loop{site};
    enqueue_on_request(loop);
  } else if (role == "two_loops") {
    TwoLoopsRole loops{site};
    enqueue_on_request(loops);
  } else if (role == "sender" && site.dialect == Dialect::sqlite) {
    send_to_file(site);
  } else if (role == "sender") {
    Database database{site.address};
    Sender sender{database, site.options()};
    send_on_request([&] { return sender.send(); });
  } else {
    throw std::runtime_error("there is no peer called " + std::string{role});
  }
  return 0;
}

}  // namespace twinbox::bench
