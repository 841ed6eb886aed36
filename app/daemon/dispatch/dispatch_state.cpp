#include "daemon/dispatch/dispatch_state.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <fstream>
#include <iterator>

#include "daemon/state_file.hpp"
#include <twinbox/ids.hpp>

namespace twinbox::app {
namespace {

namespace json = boost::json;

constexpr int version = 1;

json::array texts(const std::set<std::string>& list) {
  json::array out;
  for (const std::string& text : list) out.push_back(json::string{text});
  return out;
}

std::set<std::string> read_texts(const json::value& list) {
  std::set<std::string> out;
  for (const json::value& text : list.as_array()) out.emplace(text.as_string());
  return out;
}

BoxKind read_box(const json::value& text) {
  if (text.as_string() == "outbox") return BoxKind::outbox;
  if (text.as_string() == "inbox") return BoxKind::inbox;
  throw std::invalid_argument("unknown box");
}

}  // namespace

std::string to_json(const DispatchState& dispatch_state) {
  json::array routes;
  for (const auto& [route, reason] : dispatch_state.routes) {
    routes.push_back(json::object{{"box", json::string_view{to_string(route.first)}},
                                  {"name", route.second},
                                  {"reason", reason}});
  }
  return json::serialize(json::object{{"version", version},
                                      {"paused", dispatch_state.paused},
                                      {"paused_stores", texts(dispatch_state.stores)},
                                      {"paused_topics", texts(dispatch_state.topics)},
                                      {"disabled_routes", std::move(routes)}}) +
         "\n";
}

std::optional<DispatchState> parse_dispatch_state(std::string_view text) {
  try {
    const json::value document = json::parse({text.data(), text.size()});
    if (document.at("version").as_int64() != version) return {};
    DispatchState dispatch_state{.paused = document.at("paused").as_bool(),
                                 .stores = read_texts(document.at("paused_stores")),
                                 .topics = read_texts(document.at("paused_topics"))};
    for (const std::string& topic : dispatch_state.topics) const Topic checked{topic};
    for (const json::value& route : document.at("disabled_routes").as_array()) {
      dispatch_state.routes.emplace(
          std::pair{read_box(route.at("box")), std::string{route.at("name").as_string()}},
          std::string{route.at("reason").as_string()});
    }
    return dispatch_state;
  } catch (const std::exception&) {  // invalid JSON, or unexpected members
    return {};
  }
}

DispatchStateFile::DispatchStateFile(std::filesystem::path file, Environment environment)
    : file_(std::move(file)), environment_(std::move(environment)) {
  if (file_.empty()) return;
  std::ifstream stream{file_, std::ios::binary};
  if (!stream) return;
  const std::string text{std::istreambuf_iterator<char>{stream}, {}};
  if (auto found = parse_dispatch_state(text)) {
    dispatch_state_ = std::move(*found);
  } else {
    move_damaged_file(file_, "dispatch_state_unusable", environment_);
  }
}

DispatchState DispatchStateFile::now() const {
  const std::lock_guard lock{mutex_};
  return dispatch_state_;
}

void DispatchStateFile::change(const std::function<void(DispatchState&)>& edit) {
  const std::lock_guard lock{mutex_};
  DispatchState next = dispatch_state_;
  edit(next);
  if (next == dispatch_state_) return;
  dispatch_state_ = std::move(next);
  if (file_.empty()) return;
  try {
    save_file(file_, to_json(dispatch_state_));
  } catch (const std::exception& error) {
    environment_.write(LogLevel::error, "dispatch_state_not_saved", {{"error", error.what()}});
  }
}

}  // namespace twinbox::app
