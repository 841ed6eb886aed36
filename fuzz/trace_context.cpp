// W3C trace context. The input is `traceparent`, a line feed, `tracestate`.
#include "require.hpp"
#include <twinbox/event.hpp>

using namespace twinbox;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  const std::size_t end = text.find('\n');
  const std::string_view state =
      end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  const auto context = TraceContext::parse(text.substr(0, end), state);
  if (!context) return 0;
  require(context->state.empty() || context->state == state, "tracestate is kept or left out");
  require(context->state.size() <= 512, "tracestate is bounded");
  require(TraceContext::parse(context->traceparent(), context->state) == context,
          "a context survives being written");
  require(context->child({}).span_id != context->span_id, "a child is another span");
  return 0;
}
