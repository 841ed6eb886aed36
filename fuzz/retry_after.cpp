// The header Retry-After, and dates of HTTP.
#include "transport/http/retry_after.hpp"

#include <algorithm>

#include "require.hpp"

using namespace twinbox;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr Instant now = std::chrono::sys_days{std::chrono::January / 15 / 2030};
  const std::string_view text = text_of(data, size);
  const auto delay = parse_retry_after(text, now);
  if (delay) require(delay->count() >= 0, "no delay is negative");
  const auto date = parse_http_date(text, now);
  if (!date) return 0;
  require(delay && *delay == std::max(std::chrono::microseconds::zero(),
                                      std::chrono::microseconds{*date - now}),
          "a date means the time until then");
  return 0;
}
