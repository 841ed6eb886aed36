#pragma once

namespace twinbox {

struct Twice {
  int count = 0;
};

}  // namespace twinbox
