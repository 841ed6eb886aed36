// The description of the HTTP API; its text is openapi.json, built in.
#pragma once

#include <string_view>

namespace twinbox::app {

extern const std::string_view openapi_json;

}  // namespace twinbox::app
