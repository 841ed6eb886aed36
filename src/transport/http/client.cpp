#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <pthread.h>
#include <signal.h>
#include <stdexcept>
#include <thread>
#include <unordered_map>

#include "transport/http/address.hpp"
#include "transport/http/transfer.hpp"
#include "twinbox/sink.hpp"

namespace twinbox {
namespace {

using TransferPtr = std::shared_ptr<Transfer>;  // shared by its sender and the loop

void start_curl() {
  static const CURLcode code = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (code != CURLE_OK) {
    throw std::runtime_error(std::string{"libcurl cannot be used: "} + curl_easy_strerror(code));
  }
}

}  // namespace

void HttpClientOptions::check() const {
  const auto at_least_one = [](const char* name, auto value) {
    if (value < decltype(value){1}) {
      throw std::invalid_argument(std::string{"http client: "} + name + " must be at least 1");
    }
  };
  at_least_one("per_host", per_host);
  at_least_one("idle_connections", idle_connections);
  at_least_one("connect_timeout", connect_timeout);
  at_least_one("max_response", max_response);
  if (!proxy.empty()) HttpUrl::parse(proxy);
  static_cast<void>(AddressFilter{allow});
  if (certificate_file.empty() && !key_file.empty()) {
    throw std::invalid_argument(
        "http client: key_file needs certificate_file, the certificate of that key");
  }
}

/// All input and output happens on one thread; senders enqueue their transfers and wait.
class HttpClient::Loop {
 public:
  explicit Loop(HttpClientOptions options)
      : options_(std::move(options)), filter_(options_.allow), multi_(curl_multi_init()) {
    if (multi_ == nullptr) throw std::bad_alloc{};
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options_.idle_connections));
    // Of several requests over one HTTP/2 connection, sometimes one never sees the end of its
    // answer (libcurl 7.88: 4 of 14 400, on a busy machine).
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
    thread_ = std::jthread{[this](const std::stop_token& stop) { work(stop); }};
  }
  ~Loop() {
    thread_.request_stop();
    curl_multi_wakeup(multi_);
    thread_.join();
    curl_multi_cleanup(multi_);
  }

  HttpResponse send(const HttpRequest& request, Duration timeout, const std::stop_token& stop,
                    Duration grace) {
    const auto transfer = std::make_shared<Transfer>(request, options_, filter_, timeout);
    transfer->grace = grace;
    if (stop.stop_requested()) {
      transfer->result = CURLE_ABORTED_BY_CALLBACK;
      return transfer->answer();
    }
    std::future<void> done = transfer->done.get_future();
    {
      const std::scoped_lock lock{mutex_};
      arrived_.push_back(transfer);
    }
    curl_multi_wakeup(multi_);
    const std::stop_callback on_stop{stop, [&] {
                                       transfer->cancelled = true;
                                       cancelling_ = true;
                                       curl_multi_wakeup(multi_);
                                     }};
    done.wait();
    return transfer->answer();
  }

 private:
  /// Requests to one host: a limited number runs, the others wait for their turn.
  struct Host {
    std::size_t running = 0;
    std::deque<TransferPtr> waiting = {};
  };

  void work(const std::stop_token& stop) {
    // Signals are the program's business; and a broken pipe is an error code here.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    while (!stop.stop_requested()) {
      // Read before the arrived data is processed: a later stop request is seen at the next turn.
      const bool cancelling = cancelling_.exchange(false);
      start_arrived();
      if (cancelling) cancel();
      int running = 0;
      curl_multi_perform(multi_, &running);
      complete_finished();
      curl_multi_poll(multi_, nullptr, 0, abort_expired(), nullptr);
    }
  }

  void start_arrived() {
    std::vector<TransferPtr> arrived;
    {
      const std::scoped_lock lock{mutex_};
      arrived.swap(arrived_);
    }
    for (TransferPtr& transfer : arrived) {
      Host& host = hosts_[transfer->host()];
      if (host.running < options_.per_host) {
        start(host, std::move(transfer));
      } else {
        host.waiting.push_back(std::move(transfer));
      }
    }
  }

  void start(Host& host, TransferPtr transfer) {
    CURL* easy = transfer->easy();
    ++host.running;
    running_.emplace(easy, std::move(transfer));
    const CURLMcode code = curl_multi_add_handle(multi_, easy);
    if (code != CURLM_OK) end(easy, CURLE_FAILED_INIT);
  }

  void end(CURL* easy, CURLcode result) {
    const auto found = running_.find(easy);
    const TransferPtr transfer = std::move(found->second);
    running_.erase(found);
    curl_multi_remove_handle(multi_, easy);
    transfer->result = result;
    const std::string name = transfer->host();
    transfer->done.set_value();
    Host& host = hosts_[name];
    --host.running;
    if (!host.waiting.empty()) {
      TransferPtr next = std::move(host.waiting.front());
      host.waiting.pop_front();
      start(host, std::move(next));
    } else if (host.running == 0) {
      hosts_.erase(name);
    }
  }

  void complete_finished() {
    int left = 0;
    std::vector<std::pair<CURL*, CURLcode>> finished;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg == CURLMSG_DONE)
        finished.emplace_back(message->easy_handle, message->data.result);
    }
    for (const auto& [easy, result] : finished) end(easy, result);
  }

  void cancel() {
    for (auto& [name, host] : hosts_) {
      std::erase_if(host.waiting, [](const TransferPtr& transfer) {
        if (!transfer->cancelled) return false;
        transfer->result = CURLE_ABORTED_BY_CALLBACK;
        transfer->done.set_value();
        return true;
      });
    }
    for (const auto& [easy, transfer] : running_) {
      if (!transfer->cancelled || transfer->abort_at) continue;
      const auto longest = std::chrono::hours{24};
      transfer->abort_at = Transfer::Clock::now() + std::min<Duration>(transfer->grace, longest);
      some_cancelled_ = true;
    }
  }

  /// Ends cancelled transfers whose grace period is over. Returns how many milliseconds to wait at
  /// most until the next one.
  int abort_expired() {
    using namespace std::chrono;
    constexpr milliseconds longest{60'000};
    if (!some_cancelled_) return static_cast<int>(longest.count());
    const auto now = Transfer::Clock::now();
    auto next = now + longest;
    std::vector<CURL*> late;
    some_cancelled_ = false;
    for (const auto& [easy, transfer] : running_) {
      if (!transfer->abort_at) continue;
      if (*transfer->abort_at <= now) {
        late.push_back(easy);
      } else {
        next = std::min(next, *transfer->abort_at);
        some_cancelled_ = true;
      }
    }
    for (CURL* easy : late) end(easy, CURLE_ABORTED_BY_CALLBACK);
    // Their successors are started at once.
    return late.empty() ? static_cast<int>(ceil<milliseconds>(next - now).count()) : 0;
  }

  const HttpClientOptions options_;
  const AddressFilter filter_;
  std::mutex mutex_;
  std::vector<TransferPtr> arrived_;
  std::atomic<bool> cancelling_ = false;
  // The loop's own.
  CURLM* multi_;
  std::unordered_map<CURL*, TransferPtr> running_;
  bool some_cancelled_ = false;  ///< some of them were cancelled
  std::map<std::string, Host> hosts_;
  std::jthread thread_;
};

HttpClient::HttpClient(HttpClientOptions options) {
  options.check();
  start_curl();
  loop_ = std::make_unique<Loop>(std::move(options));
}

HttpClient::~HttpClient() = default;

HttpResponse HttpClient::send(const HttpRequest& request, Duration timeout, std::stop_token stop,
                              Duration grace) {
  return loop_->send(request, timeout, stop, grace);
}

}  // namespace twinbox
