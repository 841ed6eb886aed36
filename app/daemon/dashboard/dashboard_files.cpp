#include "daemon/dashboard/dashboard_files.hpp"

#include <algorithm>

namespace twinbox::app {
namespace {

/// Allows no external, no inline content, and no frames.
constexpr std::string_view policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src "
    "'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

/// Removes and returns `text` up to the separator.
std::string_view take_part(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return trimmed(part);
}

/// True if the list accepts `gzip`, or else `*`, with a weight above 0. No list: no compression.
bool accepts_gzip(const HttpRequest& request) {
  std::string_view list = request.headers.find("Accept-Encoding").value_or("");
  bool any = false;
  while (!list.empty()) {
    std::string_view one = take_part(list, ',');
    const std::string_view name = take_part(one, ';');
    const std::string_view weight = take_part(one, ';');
    const bool wanted =
        !weight.starts_with("q=") || weight.find_first_of("123456789") != std::string_view::npos;
    if (name == "gzip") return wanted;
    if (name == "*") any = wanted;
  }
  return any;
}

HttpResponse serve(const Asset& asset, const HttpRequest& request) {
  const bool gzip = accepts_gzip(request);
  std::string etag{asset.etag};
  if (gzip) etag.insert(etag.size() - 1, "-gzip");  // other bytes, another tag
  HttpResponse response{200,
                        {{"Content-Type", std::string{asset.content_type}},
                         {"Vary", "Accept-Encoding"},
                         {"ETag", etag},
                         {"Content-Security-Policy", std::string{policy}},
                         {"X-Frame-Options", "DENY"},
                         {"X-Content-Type-Options", "nosniff"},
                         {"Referrer-Policy", "no-referrer"},
                         {"Cross-Origin-Opener-Policy", "same-origin"},
                         {"Cross-Origin-Resource-Policy", "same-origin"}}};
  // Asset names change with their content; the name of the page does not.
  response.headers.add("Cache-Control",
                       asset.path == "/" ? "no-cache" : "public, max-age=31536000, immutable");
  if (request.headers.find("If-None-Match") == etag) {
    response.status = 304;
    return response;
  }
  if (gzip) response.headers.add("Content-Encoding", "gzip");
  response.body = gzip ? asset.gzip : asset.content;
  return response;
}

}  // namespace

void add_dashboard_files(HttpRouter& router, std::span<const Asset> assets, bool enabled) {
  const auto find = [assets, enabled](const EndpointRequest& call) {
    if (!enabled) throw HttpProblem(404, "the dashboard is disabled; set dashboard.enabled = true");
    if (assets.empty()) {
      throw HttpProblem(
          404, "this program was built without the dashboard; build it with Node.js installed");
    }
    std::string path;
    for (const std::string& segment : call.target.segments) path += "/" + segment;
    const auto found = std::ranges::find(assets, std::string_view{path}, &Asset::path);
    if (found == assets.end()) throw HttpProblem(404, "the dashboard has no such file; open /");
    return serve(*found, call.request);
  };
  router.add({"GET", "/", RequiredAccess::nothing, find, true});
  router.add({"GET", "/assets/{file}", RequiredAccess::nothing, find, true});
}

}  // namespace twinbox::app
