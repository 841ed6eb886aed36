#include "daemon/access/sessions.hpp"

#include <algorithm>
#include <utility>

namespace twinbox::app {

void Sessions::set(const AccessConfig& config) {
  const std::lock_guard lock{mutex_};
  time_ = config.session_time;
  idle_ = config.session_idle;
}

bool Sessions::is_expired(const Session& session, Clock::time_point now) const {
  return now - session.began >= time_ || now - session.used >= idle_;
}

void Sessions::make_room(const std::string& token_hash) {
  const auto now = now_();
  std::erase_if(sessions_, [&](const auto& one) { return is_expired(one.second, now); });
  auto oldest = sessions_.end();
  std::size_t count = 0;
  for (auto one = sessions_.begin(); one != sessions_.end(); ++one) {
    if (one->second.token_hash != token_hash) continue;
    ++count;
    if (oldest == sessions_.end() || one->second.used < oldest->second.used) oldest = one;
  }
  if (count >= max_per_token) sessions_.erase(oldest);
}

Sessions::Failed Sessions::count_failed_login() {
  const std::lock_guard lock{mutex_};
  const auto now = now_();
  const auto until = std::max(failed_until_, now) + time_per_failed_login;
  if (until - now > max_failed_at_once * time_per_failed_login) {
    return std::exchange(refuses_logins_, true) ? Failed::rejected : Failed::first_rejected;
  }
  failed_until_ = until;
  refuses_logins_ = false;
  return Failed::counted;
}

std::string Sessions::begin(const std::string& hash) {
  std::string id = make_secret("");
  const std::lock_guard lock{mutex_};
  make_room(hash);
  const auto now = now_();
  sessions_.emplace(token_hash(id), Session{hash, now, now});
  return id;
}

std::optional<std::string> Sessions::find(std::string_view id) { return find(id, true); }

std::optional<std::string> Sessions::peek(std::string_view id) { return find(id, false); }

std::optional<std::string> Sessions::find(std::string_view id, bool use) {
  const std::string key = token_hash(id);
  const std::lock_guard lock{mutex_};
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return {};
  const auto now = now_();
  if (is_expired(found->second, now)) {
    sessions_.erase(found);
    return {};
  }
  if (use) found->second.used = now;
  return found->second.token_hash;
}

void Sessions::end(std::string_view id) {
  const std::lock_guard lock{mutex_};
  sessions_.erase(token_hash(id));
}

void Sessions::keep_only(const std::vector<Token>& tokens) {
  const auto gone = [&](const std::string& hash) {
    return std::ranges::find(tokens, hash, &Token::hash) == tokens.end();
  };
  const std::lock_guard lock{mutex_};
  std::erase_if(sessions_, [&](const auto& one) { return gone(one.second.token_hash); });
  std::erase_if(codes_, [&](const auto& one) { return gone(one.second.token_hash); });
}

std::string Sessions::make_code(const std::string& hash) {
  std::string code = make_secret("once_");
  const std::lock_guard lock{mutex_};
  codes_.emplace(token_hash(code), Code{hash, now_()});
  return code;
}

std::optional<std::string> Sessions::redeem_code(std::string_view code) {
  const std::lock_guard lock{mutex_};
  const auto found = codes_.find(token_hash(code));
  if (found == codes_.end()) return {};
  const Code taken = std::move(found->second);
  codes_.erase(found);
  if (now_() - taken.made >= code_time) return {};
  return taken.token_hash;
}

}  // namespace twinbox::app
