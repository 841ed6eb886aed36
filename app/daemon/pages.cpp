#include "daemon/pages.hpp"

#include <algorithm>

namespace twinbox::app {
namespace {

/// Nothing from elsewhere, nothing inline, in no frame.
constexpr std::string_view policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src "
    "'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Says no to gzip: `gzip;q=0`, or a list without it. Without a list everything is welcome.
bool refuses_gzip(const HttpRequest& request) {
  const auto accepted = request.headers.find("Accept-Encoding");
  if (!accepted) return false;
  std::string_view list = *accepted;
  while (!list.empty()) {
    std::string_view one = list.substr(0, std::min(list.find(','), list.size()));
    list.remove_prefix(std::min(one.size() + 1, list.size()));
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    const std::string_view name = one.substr(0, std::min(one.find_first_of("; "), one.size()));
    if (name == "gzip" || name == "*") return one.ends_with("q=0");
  }
  return true;
}

HttpResponse serve(const Asset& asset, const HttpRequest& request) {
  HttpResponse response{200,
                        {{"Content-Type", std::string{asset.content_type}},
                         {"Content-Encoding", "gzip"},
                         {"Vary", "Accept-Encoding"},
                         {"ETag", std::string{asset.etag}},
                         {"Content-Security-Policy", std::string{policy}},
                         {"X-Frame-Options", "DENY"},
                         {"X-Content-Type-Options", "nosniff"},
                         {"Referrer-Policy", "no-referrer"},
                         {"Cross-Origin-Opener-Policy", "same-origin"},
                         {"Cross-Origin-Resource-Policy", "same-origin"}}};
  // The names of assets change with their content, that of the page does not.
  response.headers.add("Cache-Control",
                       asset.path == "/" ? "no-cache" : "public, max-age=31536000, immutable");
  if (request.headers.find("If-None-Match") == asset.etag) {
    response.status = 304;
    return response;
  }
  if (refuses_gzip(request)) {
    throw Refused(406, "this is sent compressed by gzip, which every browser takes");
  }
  response.body = asset.gzip;
  return response;
}

}  // namespace

void add_pages(Router& router, std::span<const Asset> assets, bool enabled) {
  const auto find = [assets, enabled](const Call& call) {
    if (!enabled) throw Refused(404, "the dashboard is switched off: dashboard.enabled");
    if (assets.empty()) {
      throw Refused(404, "this program was built without Node.js, and so without the dashboard");
    }
    std::string path;
    for (const std::string& segment : call.target.segments) path += "/" + segment;
    const auto found = std::ranges::find(assets, std::string_view{path}, &Asset::path);
    if (found == assets.end()) throw Refused(404, "the dashboard has no such file");
    return serve(*found, call.request);
  };
  router.add({"GET", "/", Need::nothing, find, true});
  router.add({"GET", "/assets/{file}", Need::nothing, find, true});
}

}  // namespace twinbox::app
