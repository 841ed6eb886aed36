// One reason text, shared by health and the doctor.
#pragma once

#include <string>

#include "twinbox/work_queue.hpp"

namespace twinbox {

std::string stalled_text(Duration stalled);

}  // namespace twinbox
