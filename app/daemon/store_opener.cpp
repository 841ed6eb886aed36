#include "daemon/store_opener.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>

#include <twinbox/error.hpp>
#include <twinbox/stop_scope.hpp>

namespace twinbox::app {

struct StoreOpener::Work {
  struct Site {
    Stores::Entry entry = {};
    bool done = false;
    std::string unreachable = {};
    std::exception_ptr unusable = {};
  };

  std::filesystem::path config_file;
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<Site> sites;
  std::size_t begun = 0;
  std::size_t open = 0;  ///< or failed

  void run(const std::stop_token& stop) {
    const StopScope until_the_end{stop};
    std::unique_lock lock{mutex};
    while (begun < sites.size() && !stop.stop_requested()) {
      Site& site = sites[begun++];
      lock.unlock();
      std::string unreachable;
      std::exception_ptr unusable;
      try {
        open_boxes(site.entry);
      } catch (const DatabaseError& error) {
        unreachable = error.what();
      } catch (...) {
        unusable = std::current_exception();
      }
      lock.lock();
      site.unreachable = std::move(unreachable);
      site.unusable = unusable;
      site.done = true;
      ++open;
      ended.notify_all();
    }
  }

  void open_boxes(const Stores::Entry& entry) const {
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
  for (const Stores::Entry& entry : stores.all()) work_->sites.emplace_back().entry = entry;
  for (std::size_t i = 0; i < std::min(options_.threads, work_->sites.size()); ++i) {
    threads_.emplace_back([work = work_](const std::stop_token& stop) { work->run(stop); });
  }
  std::unique_lock lock{work_->mutex};
  work_->ended.wait_for(lock, options_.patience,
                        [&] { return work_->open == work_->sites.size(); });
  std::vector<Failure> failures;
  for (const Work::Site& site : work_->sites) {
    if (site.unusable) std::rethrow_exception(site.unusable);
    if (!site.done) {
      failures.push_back(
          {site.entry.store.get(),
           "it has not answered yet; it is opened in the background, and tried again "
           "with each request"});
    } else if (!site.unreachable.empty()) {
      failures.push_back({site.entry.store.get(), site.unreachable});
    }
  }
  return failures;
}

}  // namespace twinbox::app
