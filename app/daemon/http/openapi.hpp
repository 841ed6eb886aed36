// The description of the HTTP API, embedded from openapi.json.
#pragma once

#include <string_view>

namespace twinbox::app {

extern const std::string_view openapi_json;

}  // namespace twinbox::app
