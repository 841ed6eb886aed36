// Our JSON reader beside Boost.JSON: they must agree about every text.
#include "core/json.hpp"

#include <boost/json.hpp>

#include "core/text.hpp"
#include "require.hpp"

using namespace twinbox;

namespace {

/// What Boost.JSON refuses although the grammar has it: huge exponents, halves of surrogate pairs.
bool may_be_beyond_grammar(std::string_view text, const boost::json::error_code& error) {
  return error == boost::json::make_error_code(boost::json::error::exponent_overflow) ||
         text.find("\\ud") != std::string_view::npos || text.find("\\uD") != std::string_view::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  boost::json::error_code error;
  boost::json::parse_options options;
  options.max_depth = max_json_depth;
  const boost::json::value value =
      boost::json::parse({text.data(), text.size()}, error, {}, options);
  const bool ours = is_json(text);
  require(ours || error, "what the other reader takes, ours takes");
  if (error && !may_be_beyond_grammar(text, error)) require(!ours, "both readers agree");

  const auto members = split_json_object(text);
  require(members.has_value() == is_json_object(text), "an object can be split");
  if (members) {
    for (const JsonPart& part : *members) {
      require(is_json(part.value), "a member's value is JSON");
      const auto name = unescape_json(part.name);
      if (!error && name) require(value.as_object().contains(*name), "a member has its name");
    }
  }
  if (const auto elements = split_json_array(text); elements && !error) {
    require(elements->size() == value.as_array().size(), "an array has its elements");
  }
  if (ours && text.starts_with('"') && text.ends_with('"') && !error) {
    require(json_string(text) == std::string_view{value.as_string()}, "a string says the same");
  }

  std::string written;
  append_json_string(written, text);
  require(is_json(written), "what is written is JSON");
  if (!find_invalid_utf8(text)) require(json_string(written) == text, "and says what was given");
  return 0;
}
