// Tells that something has happened to a file: inotify, one instance for the whole process.
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

/// Thread-safe. The system gives a user few instances (128), so that all files share one, and the
/// files of one directory share a watch.
class DirectoryWatch {
 public:
  /// The instance of this process, as long as somebody has it; null when the system has none to
  /// give.
  static std::shared_ptr<DirectoryWatch> shared();

  explicit DirectoryWatch(int descriptor) noexcept : descriptor_(descriptor) {}
  ~DirectoryWatch();
  DirectoryWatch(const DirectoryWatch&) = delete;
  DirectoryWatch& operator=(const DirectoryWatch&) = delete;

  /// What a hint is given for: any change of the file, its log and its journal; or only those that
  /// a commit makes, so that opening, closing and checkpointing the file tell nothing.
  enum class Notify { changes, commits };

  /// What is known about one file, its log and its journal.
  class Hint {
   public:
    ~Hint();
    Hint(const Hint&) = delete;
    Hint& operator=(const Hint&) = delete;

    /// True when something has happened since the last call.
    bool take();
    /// True when take() would be. Whoever asks for one file also reads what has happened to others.
    [[nodiscard]] bool told() const;
    /// What was written has been seen: nobody needs to be told once more when it is committed.
    void confirm();
    /// True once the directory is gone: nothing will be told any more.
    [[nodiscard]] bool lost() const;

   private:
    friend DirectoryWatch;
    Hint(std::shared_ptr<DirectoryWatch> owner, int directory, std::string name, Notify tells);

    std::shared_ptr<DirectoryWatch> owner_;  ///< shared by all hints and their watches
    int directory_;
    std::string name_;
    Notify notify_;
    // Without the lock: a thousand files are asked at each turn.
    std::atomic<bool> told_ = false;
    bool written_ = false;  ///< and not confirm yet
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

  /// Readable when something has happened to some file.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  using Names = std::multimap<std::string, Hint*, std::less<>>;

  /// Reads what has happened and marks the hints it concerns.
  void drain();
  void mark(int directory, std::string_view name, std::uint32_t event);
  /// Somebody has committed, to one of the files that were written.
  void mark_written(int directory);
  void mark_all();
  void lose(int directory);

  const int descriptor_;
  mutable std::mutex mutex_;
  std::unordered_map<int, Names> directories_;  ///< by the system's number
  std::atomic<std::size_t> hints_ = 0;
  using Clock = std::chrono::steady_clock;
  std::atomic<Clock::rep> drained_ = std::numeric_limits<Clock::rep>::min() / 2;
};

}  // namespace twinbox
