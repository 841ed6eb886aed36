#include "cli/find_message.hpp"

#include "cli/text.hpp"

namespace twinbox::cli {

std::optional<std::pair<OpenBox, MessageDetail>> find_message(
    std::span<const OpenBox> boxes, const std::string& id,
    const std::optional<std::string>& source) {
  std::optional<std::pair<OpenBox, MessageDetail>> found;
  const MessageId message_id = MessageId::event_id(id);
  for (const OpenBox& box : boxes) {
    Admin admin(box.queue);
    auto detail =
        source ? admin.get(MessageKey{Source{*source}, message_id}) : admin.get(message_id);
    if (!detail) continue;
    if (found) {
      throw CliError(exit_usage,
                     "message " + printable(id) +
                         " exists in the outbox and in the inbox; add --outbox or --inbox");
    }
    found.emplace(box, std::move(*detail));
  }
  return found;
}

std::string unknown_message(const std::string& id) {
  return "message " + printable(id) + " does not exist; run twinbox list to see the messages";
}

}  // namespace twinbox::cli
