#include "queue/buffered_log.hpp"

namespace twinbox {

thread_local BufferedLog* BufferedLog::current_ = nullptr;

void BufferedLog::write(const Environment& environment, LogLevel level, std::string_view name,
                        std::vector<LogField> fields) {
  if (current_ == nullptr) return environment.write({level, name, fields});
  Event& event =
      current_->events_.emplace_back(Event{&environment, level, name, std::move(fields), {}});
  for (LogField& field : event.fields) {
    if (auto* text = std::get_if<std::string_view>(&field.value))
      *text = event.texts.emplace_back(*text);
  }
}

void BufferedLog::flush() noexcept {
  for (const Event& event : events_)
    event.environment->write({event.level, event.name, event.fields});
  events_.clear();
}

void BufferedLog::flush_to_outer() noexcept {
  if (current_ == nullptr) return flush();
  current_->events_.splice(current_->events_.end(), events_);
}

}  // namespace twinbox
