#include <exception>
#include <utility>

#include "queue/box.hpp"
#include "twinbox/inbox.hpp"

namespace twinbox {
namespace {

Topic no_type() { return Topic{"-"}; }

}  // namespace

AtMostOnce::AtMostOnce(Inbox& inbox, AtMostOnceOptions options)
    : inbox_(&inbox), options_(std::move(options)) {}

template <class Claim, class Release>
bool AtMostOnce::call(const MessageKey& key, const Handler& handler, Claim&& claim,
                      Release&& release) {
  if (options_.enabled && !claim()) return false;
  try {
    handler();
  } catch (...) {
    if (options_.enabled && options_.release_claim_on_error) {
      try {
        release();
      } catch (const std::exception& error) {
        // The caller expects the handler's own exception.
        box_of(*inbox_).log(LogLevel::error, "release_claim_failed",
                            {{"source", key.source.view()},
                             {"id", key.id.view()},
                             {"error", std::string_view{error.what()}}});
      }
    }
    throw;
  }
  return true;
}

bool AtMostOnce::run(const MessageKey& key, const Topic& type, const Handler& handler) {
  return call(
      key, handler, [&] { return inbox_->try_claim(key, type, options_.handler); },
      [&] { inbox_->release_claim(key, options_.handler); });
}

bool AtMostOnce::run(const MessageKey& key, const Handler& handler) {
  return run(key, no_type(), handler);
}

bool AtMostOnce::run(Session& session, const MessageKey& key, const Topic& type,
                     const Handler& handler) {
  return call(
      key, handler, [&] { return inbox_->try_claim(session, key, type, options_.handler); },
      [&] { inbox_->release_claim(session, key, options_.handler); });
}

bool AtMostOnce::run(Session& session, const MessageKey& key, const Handler& handler) {
  return run(session, key, no_type(), handler);
}

}  // namespace twinbox
