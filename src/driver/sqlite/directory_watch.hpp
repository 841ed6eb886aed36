// Reports changes of a file: inotify, one instance for the whole process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace twinbox {

/// Thread-safe. The system limits the instances per user (128), so all files share one, and the
/// files of one directory share a watch.
class DirectoryWatch {
 public:
  /// The instance of this process, while it has users; null when the system has none left.
  static std::shared_ptr<DirectoryWatch> shared();

  explicit DirectoryWatch(int descriptor) noexcept : descriptor_(descriptor) {}
  ~DirectoryWatch();
  DirectoryWatch(const DirectoryWatch&) = delete;
  DirectoryWatch& operator=(const DirectoryWatch&) = delete;

  /// The events for a hint: any change of the file, its log and its journal; or only those of a
  /// commit, so that opening, closing and checkpointing the file report nothing.
  enum class Notify { changes, commits };

  /// The state of one file, its log and its journal.
  class Hint {
   public:
    ~Hint();
    Hint(const Hint&) = delete;
    Hint& operator=(const Hint&) = delete;

    /// True after a change since the last call.
    bool take();
    /// True when take() would be. A query for one file also reads the events of the others.
    [[nodiscard]] bool told() const;
    /// The write has been seen: its commit need not be reported again.
    void confirm();
    /// True once the directory is gone: no further event is reported.
    [[nodiscard]] bool lost() const;

   private:
    friend DirectoryWatch;
    Hint(std::shared_ptr<DirectoryWatch> owner, int directory, std::string name, Notify tells);

    std::shared_ptr<DirectoryWatch> owner_;  ///< shared by all hints and their watches
    int directory_;
    std::string name_;
    Notify notify_;
    // Without the lock: a thousand files are queried at each turn.
    std::atomic<bool> told_ = false;
    bool written_ = false;  ///< and not confirmed yet
    std::atomic<bool> lost_ = false;
  };

  /// Null when the directory cannot be watched.
  static std::unique_ptr<Hint> watch(const std::shared_ptr<DirectoryWatch>& shared,
                                     const std::string& directory, const std::string& name,
                                     Notify tells = Notify::changes);
  using Hints = std::vector<std::unique_ptr<Hint>>;
  /// In the directory of `file` and of every link that leads to it; none where one of them cannot
  /// be watched.
  static Hints follow(const std::shared_ptr<DirectoryWatch>& shared, const std::string& file,
                      Notify tells);

  /// Readable after a change of some file.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  using Names = std::multimap<std::string, Hint*, std::less<>>;

  /// Reads the events and marks their hints.
  void drain();
  void mark(int directory, std::string_view name, std::uint32_t event);
  /// A commit to one of the written files has ended.
  void mark_written(int directory);
  void mark_all();
  void lose(int directory);

  const int descriptor_;
  mutable std::mutex mutex_;
  std::unordered_map<int, Names> directories_;  ///< by the watch descriptor
  std::atomic<std::size_t> hints_ = 0;
  using Clock = std::chrono::steady_clock;
  std::atomic<Clock::rep> drained_ = std::numeric_limits<Clock::rep>::min() / 2;
};

}  // namespace twinbox
