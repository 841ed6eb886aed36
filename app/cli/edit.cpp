// The command edit: changes the content of a pending or dead message.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/change_report.hpp"
#include "cli/find_message.hpp"
#include "cli/json.hpp"
#include "cli/payload.hpp"
#include "cli/text.hpp"
#include "cli/verbs.hpp"

namespace twinbox::cli {
namespace {

struct EditOptions {
  std::string id;
  std::optional<std::string> source, headers, content_type;
  PayloadOptions payload;
  bool requeue = false;
};

/// A file that only this user can read, removed by the destructor unless kept.
class PrivateFile {
 public:
  explicit PrivateFile(const std::string& content) {
    std::string pattern = (std::filesystem::temp_directory_path() / "twinbox.XXXXXX").string();
    const int descriptor = mkstemp(pattern.data());
    if (descriptor < 0)
      throw CliError(exit_failure,
                     std::string{"cannot create a temporary file: "} + std::strerror(errno));
    close(descriptor);
    path_ = pattern;
    std::ofstream stream(path_, std::ios::binary);
    stream << content;
    stream.close();
    if (stream) return;
    // A partly written file would look like a shortened payload.
    const std::string why = std::strerror(errno);
    remove();
    throw CliError(exit_failure, "the temporary file " + printable(path_) + " cannot be written: " +
                                     why + "; set TMPDIR to another folder");
  }
  ~PrivateFile() {
    if (!kept_) remove();
  }
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  void keep() noexcept { kept_ = true; }

 private:
  void remove() const noexcept {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  std::string path_;
  bool kept_ = false;
};

std::string editor() {
  for (const char* name : {"VISUAL", "EDITOR"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  throw CliError(exit_usage,
                 "edit: no change given and no editor found; set EDITOR, or give --payload, "
                 "--file, --headers or --content-type");
}

std::string edited_by_hand(const PrivateFile& file) {
  const std::string command = editor() + " \"$1\"";
  const pid_t child = fork();
  if (child < 0) throw CliError(exit_failure, std::string{"fork: "} + std::strerror(errno));
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), "sh", file.path().c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw CliError(exit_negative, "the editor '" + editor() + "' failed; nothing was changed");
  return read_file(file.path());
}

int answer(const CommonOptions& common, const Screen& screen, const OpenBox& box, bool changed) {
  if (common.json) {
    print_json(screen, {{"box", box.name()}, {"changed", changed}});
  } else if (changed) {
    screen.print("edited\n");
  }
  return changed ? exit_ok : exit_negative;
}

/// Applies the edit. If that fails, keeps the file with the user's text.
Admin::Edited apply(const OpenBox& box, std::int64_t number, const Admin::Edit& change,
                    const Operation& operation, std::optional<PrivateFile>& written,
                    const Screen& screen) {
  const auto keep = [&] {
    if (!written) return;
    written->keep();
    screen.note("your text is kept in " + printable(written->path()) + "\n");
  };
  try {
    Admin::Edited edited = Admin{box.queue}.edit(number, change, operation);
    if (!edited) keep();
    return edited;
  } catch (...) {
    keep();
    throw;
  }
}

int edit(const CommonOptions& common, const EditOptions& options, const Screen& screen) {
  OpenStore store(common);
  const auto found = find_message(store.boxes(), options.id, options.source);
  if (!found) throw CliError(exit_negative, unknown_message(options.id));
  const auto& [box, detail] = *found;
  Admin::Edit change{
      .headers = options.headers, .content_type = options.content_type, .requeue = options.requeue};
  const bool by_hand = !options.payload.given() && !options.headers && !options.content_type;
  if (options.payload.given()) change.payload = options.payload.read();
  std::optional<PrivateFile> written;
  if (by_hand) {
    if (!is_text(detail.payload)) {
      throw CliError(exit_usage, "message " + printable(options.id) +
                                     " has a binary payload, which an editor cannot show; give the "
                                     "new payload with --file");
    }
    editor();  // fails before the file is created
    written.emplace(detail.payload);
    change.payload = edited_by_hand(*written);
    if (*change.payload == detail.payload) {
      screen.note("nothing was changed\n");
      return answer(common, screen, box, false);
    }
  }
  // An edit by hand must not overwrite a concurrent edit.
  if (by_hand) change.content_version = detail.message.content_version;
  const Operation operation{
      .actor = actor_of(common), .reason = common.reason, .operation_id = common.operation};
  const Admin::Edited edited =
      apply(box, detail.message.number, change, operation, written, screen);
  if (!edited) {
    const bool overtaken = change.content_version && edited.content_version &&
                           *edited.content_version != *change.content_version;
    screen.note("message " + printable(options.id) +
                (overtaken ? " was changed by another operation in the meantime; edit it again\n"
                           : " cannot be edited: a worker holds it, or it is finished\n"));
  }
  return answer(common, screen, box, edited.changed);
}

}  // namespace

Verb edit_verb(CommonOptions& common) {
  auto options = std::make_shared<EditOptions>();
  return {
      .name = "edit",
      .group = "Operate",
      .summary = "Fix the payload of a pending or dead message",
      .text =
          "Without --payload, --file, --headers or --content-type, the payload opens in your "
          "editor. The audit keeps the previous content.",
      .options = with(
          {{"id", "ID", "Id of the message", &options->id, {}, true},
           {"--source", "SOURCE",
            "Source of the message, needed if several sources use the same id", &options->source}},
          {options->payload.options(),
           {{"--requeue", "", "Also requeue the message if it is dead", &options->requeue},
            {"--headers", "JSON", "Headers as a JSON object", &options->headers},
            {"--content-type", "TYPE", "Content type, such as application/json",
             &options->content_type},
            {"--reason", "TEXT", "Reason, kept in the audit", &common.reason},
            {"--actor", "NAME", "Name of the operator, kept in the audit (default: your user name)",
             &common.actor}},
           operation_options(common),
           box_options(common),
           store_options(common),
           answer_options(common)}),
      .examples = {{"twinbox edit evt_1 --requeue", "fix the payload and retry"},
                   {"twinbox edit evt_1 --file fixed.json --reason 'wrong currency'",
                    "from a file"}},
      .run = [&common, options](const Screen& screen) { return edit(common, *options, screen); }};
}

}  // namespace twinbox::cli
