#include "daemon/store/store_opener.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>

#include <twinbox/database.hpp>
#include <twinbox/error.hpp>

namespace twinbox::app {

struct StoreOpener::Work {
  struct OpeningStore {
    Stores::ServedStore entry = {};
    bool done = false;
    std::string unreachable = {};
    std::exception_ptr unusable = {};
  };

  std::filesystem::path config_file;
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<OpeningStore> opening_stores;
  std::size_t begun = 0;
  std::size_t open = 0;  ///< or failed

  void run(const std::stop_token& stop) {
    const StopScope until_the_end{stop};
    std::unique_lock lock{mutex};
    while (begun < opening_stores.size() && !stop.stop_requested()) {
      OpeningStore& opening_store = opening_stores[begun++];
      lock.unlock();
      std::string unreachable;
      std::exception_ptr unusable;
      try {
        open_boxes(opening_store.entry);
      } catch (const DatabaseError& error) {
        unreachable = error.what();
      } catch (...) {
        unusable = std::current_exception();
      }
      lock.lock();
      opening_store.unreachable = std::move(unreachable);
      opening_store.unusable = unusable;
      opening_store.done = true;
      ++open;
      ended.notify_all();
    }
  }

  void open_boxes(const Stores::ServedStore& entry) const {
    for (const BoxKind kind : {BoxKind::outbox, BoxKind::inbox}) {
      if (!serves(entry.boxes, kind)) continue;
      require_tables(*entry.store, kind, config_file);
      box_of(*entry.store, kind);
    }
  }
};

StoreOpener::StoreOpener(Options options) : options_(options) {}

StoreOpener::~StoreOpener() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

std::vector<StoreOpener::Failure> StoreOpener::open(const Stores& stores,
                                                    const std::filesystem::path& config_file) {
  work_ = std::make_shared<Work>();
  work_->config_file = config_file;
  for (const Stores::ServedStore& entry : stores.all())
    work_->opening_stores.emplace_back().entry = entry;
  for (std::size_t i = 0; i < std::min(options_.threads, work_->opening_stores.size()); ++i) {
    threads_.emplace_back([work = work_](const std::stop_token& stop) { work->run(stop); });
  }
  std::unique_lock lock{work_->mutex};
  work_->ended.wait_for(lock, options_.max_wait,
                        [&] { return work_->open == work_->opening_stores.size(); });
  std::vector<Failure> failures;
  for (const Work::OpeningStore& opening_store : work_->opening_stores) {
    if (opening_store.unusable) std::rethrow_exception(opening_store.unusable);
    if (!opening_store.done) {
      failures.push_back({opening_store.entry.store.get(),
                          "no response yet; the daemon keeps opening it in the background and "
                          "retries with each request"});
    } else if (!opening_store.unreachable.empty()) {
      failures.push_back({opening_store.entry.store.get(), opening_store.unreachable});
    }
  }
  return failures;
}

}  // namespace twinbox::app
