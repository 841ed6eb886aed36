#include "dispatch/call_batch.hpp"

#include <map>
#include <stdexcept>

#include "core/text.hpp"
#include "twinbox/error.hpp"

namespace twinbox {
namespace {

std::vector<Outcome> checked_call(const BatchHandler& handler, std::span<const Message> messages,
                                  std::stop_token stop) {
  std::vector<Outcome> outcomes = handler(messages, std::move(stop));
  if (outcomes.size() != messages.size()) {
    throw std::logic_error("the batch handler gave " + std::to_string(outcomes.size()) +
                           " outcomes for " + std::to_string(messages.size()) +
                           " messages; it must give one for each, in their order");
  }
  return outcomes;
}

}  // namespace

std::vector<std::vector<std::size_t>> batches_of(const Handlers& handlers,
                                                 std::span<const Message> messages) {
  std::vector<std::vector<std::size_t>> batches;
  std::map<const HandlerEntry*, std::size_t> with_room;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const HandlerEntry* entry = handlers.find(messages[i].handler, messages[i].topic);
    if (entry == nullptr || !std::holds_alternative<BatchHandler>(entry->call)) {
      batches.push_back({i});
      continue;
    }
    const auto [found, opened] = with_room.try_emplace(entry, batches.size());
    if (opened) batches.emplace_back();
    batches[found->second].push_back(i);
    if (batches[found->second].size() >= entry->options.max_batch) with_room.erase(found);
  }
  return batches;
}

BatchAnswer call_batch(const BatchHandler& handler, std::span<const Message> messages,
                       std::stop_token stop) {
  std::string error;
  std::string_view cause = "exception";
  try {
    return {checked_call(handler, messages, std::move(stop))};
  } catch (const DatabaseError& exception) {
    error = truncate_error(text_of(exception));
    cause = to_string(exception.kind());
  } catch (const std::exception& exception) {
    error = truncate_error(text_of(exception));
  } catch (...) {
    error = "the handler threw something that is no std::exception";
  }
  return {std::vector<Outcome>(messages.size(), Outcome::retry(error, {}, "exception")), error,
          cause};
}

}  // namespace twinbox
