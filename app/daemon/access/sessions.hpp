// The sessions of browsers. A session refers to a token without containing it.
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

/// Sessions live in memory and end with the process. Only hashes of their ids are kept.
/// Thread-safe.
class Sessions {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t max_per_token = 32;  ///< a new session ends the oldest
  static constexpr int max_failed_at_once = 20;     ///< logins; then one per time_per_failed_login
  static constexpr Milliseconds time_per_failed_login{100};
  static constexpr std::chrono::minutes code_time{15};  ///< validity of a code

  explicit Sessions(std::function<Clock::time_point()> now = Clock::now) : now_(std::move(now)) {}

  /// Applies to existing sessions, too.
  void set(const AccessConfig& config);

  enum class Failed {
    counted,
    first_rejected,  ///< too many failed logins; the first one rejected for that
    rejected,
  };
  /// Counts a login without a valid token or code.
  Failed count_failed_login();
  /// Starts a session for the token with this hash and returns its id.
  std::string begin(const std::string& token_hash);
  /// The hash of the session's token; marks the session as used. Empty: unknown session.
  std::optional<std::string> find(std::string_view id);
  /// As find(), without marking the session as used.
  std::optional<std::string> peek(std::string_view id);
  void end(std::string_view id);
  /// Ends the sessions of all other tokens.
  void keep_only(const std::vector<Token>& tokens);

  /// Creates a code that can log in once, within `code_time`, as the token with this hash.
  std::string make_code(const std::string& token_hash);
  /// The hash of the code's token; the code becomes invalid. Empty: unknown code.
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
