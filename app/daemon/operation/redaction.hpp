// Removes the parts of a payload that the configuration hides.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace twinbox::app {

/// Blanks members of JSON payloads. A payload that begins with `{` or `[` and cannot be parsed is
/// hidden whole; anything else is shown as it is. A pointer that begins with
/// `/data` also leads into the `data_base64` of a CloudEvent, and into its `data` if that is JSON
/// in a string.
class Redaction {
 public:
  /// What stands in place of a value.
  static constexpr std::string_view mask = "[redacted]";

  /// JSON pointers (RFC 6901).
  explicit Redaction(std::vector<std::string> pointers) : pointers_(std::move(pointers)) {}

  /// Returns the pointers that led to something; its text is written anew then, or when a name
  /// comes twice in one object.
  std::vector<std::string> apply(std::string& payload) const;
  /// Throws HttpProblem when a mask stands where something is hidden: who was shown a part only can
  /// replace the content whole, and not correct it.
  void refuse_mask(std::string_view payload) const;

 private:
  /// The pointers into an event's data, as they lead from there.
  [[nodiscard]] Redaction of_data() const;
  std::vector<std::string> apply_to_data(boost::json::value& event) const;

  std::vector<std::string> pointers_;
};

}  // namespace twinbox::app
