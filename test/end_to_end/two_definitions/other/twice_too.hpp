#pragma once

namespace twinbox {

struct Twice {
  double share = 0;
};

}  // namespace twinbox
