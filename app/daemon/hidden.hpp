// Characters that have no shape of their own but change how the text around them is shown.
#pragma once

#include <algorithm>
#include <array>

namespace twinbox::app {

struct CodeRange {
  char32_t first, last;
};

/// DEL and C1 controls, marks of direction and of no width, line and paragraph separators, tags.
inline constexpr std::array<CodeRange, 7> hidden_codes = {{{0x7F, 0x9F},
                                                           {0x061C, 0x061C},
                                                           {0x200B, 0x200F},
                                                           {0x2028, 0x202E},
                                                           {0x2060, 0x206F},
                                                           {0xFEFF, 0xFEFF},
                                                           {0xE0000, 0xE007F}}};

constexpr bool is_hidden(char32_t code) {
  return std::any_of(hidden_codes.begin(), hidden_codes.end(), [&](const CodeRange& range) {
    return code >= range.first && code <= range.last;
  });
}

}  // namespace twinbox::app
