// Browsers that have logged in. A session stands for a token, without being one.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/access/tokens.hpp"

namespace twinbox::app {

/// In memory: sessions end with the process. Only hashes of their ids are kept. Thread-safe.
class Sessions {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t max_per_token = 32;  ///< the oldest ends for another one
  static constexpr int max_failed_at_once = 20;     ///< logins; then one per time_per_failed_login
  static constexpr Milliseconds time_per_failed_login{100};
  static constexpr std::chrono::minutes code_time{15};  ///< how long a code is worth something

  explicit Sessions(std::function<Clock::time_point()> now = Clock::now) : now_(std::move(now)) {}

  /// From now on, for sessions that are there as well.
  void set(const AccessConfig& config);

  enum class Failed {
    counted,
    first_rejected,  ///< too many have failed; the first of those that are refused for it
    rejected,
  };
  /// Counts a login that brought neither a token nor a code.
  Failed count_failed_login();
  /// Begins one for the token of that hash, and returns its id.
  std::string begin(const std::string& token_hash);
  /// The hash of the token that it stands for, and it counts as used now. Empty: there is none.
  std::optional<std::string> find(std::string_view id);
  /// The same, and it does not count as used.
  std::optional<std::string> peek(std::string_view id);
  void end(std::string_view id);
  /// Ends those of all other tokens.
  void keep_only(const std::vector<Token>& tokens);

  /// A code that logs in once, within `code_time`, as the token of that hash would.
  std::string make_code(const std::string& token_hash);
  /// The hash of its token; from then on it is worth nothing. Empty: it is none.
  std::optional<std::string> redeem_code(std::string_view code);

 private:
  struct Session {
    std::string token_hash;
    Clock::time_point began;
    Clock::time_point used;
  };
  struct Code {
    std::string token_hash;
    Clock::time_point made;
  };
  [[nodiscard]] bool is_expired(const Session& session, Clock::time_point now) const;
  std::optional<std::string> find(std::string_view id, bool use);
  void make_room(const std::string& token_hash);

  std::function<Clock::time_point()> now_;
  std::mutex mutex_;
  Milliseconds time_ = AccessConfig{}.session_time;
  Milliseconds idle_ = AccessConfig{}.session_idle;
  std::map<std::string, Session> sessions_;  ///< by the hash of their id
  std::map<std::string, Code> codes_;        ///< by their hash; the daemon makes one
  Clock::time_point failed_until_ = {};      ///< when all failed logins are forgotten
  bool refuses_logins_ = false;
};

}  // namespace twinbox::app
