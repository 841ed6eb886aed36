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
      throw CliError(exit_usage, "message " + printable(id) +
                                     " is in the outbox and in the inbox; add --outbox or --inbox");
    }
    found.emplace(box, std::move(*detail));
  }
  return found;
}

std::string unknown_message(const std::string& id) {
  return "there is no message " + printable(id) + "; twinbox list shows what there is";
}

}  // namespace twinbox::cli
