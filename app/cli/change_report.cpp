#include "cli/change_report.hpp"

#include <algorithm>

#include "cli/json.hpp"
#include "cli/text.hpp"

namespace twinbox::cli {

void ChangeCounts::add(const std::string& box, std::int64_t count) {
  const auto found =
      std::find_if(boxes_.begin(), boxes_.end(), [&](const auto& one) { return one.first == box; });
  if (found != boxes_.end())
    found->second += count;
  else
    boxes_.emplace_back(box, count);
}

std::int64_t ChangeCounts::total() const {
  std::int64_t sum = 0;
  for (const auto& [box, count] : boxes_) sum += count;
  return sum;
}

std::int64_t ChangeCounts::of(const std::string& box) const {
  std::int64_t sum = 0;
  for (const auto& [name, count] : boxes_) sum += name == box ? count : 0;
  return sum;
}

std::string ChangeCounts::text(const std::string& one, const std::string& many) const {
  std::string parts;
  for (const auto& [box, count] : boxes_) {
    if (count > 0) parts += (parts.empty() ? "" : ", ") + box + " " + std::to_string(count);
  }
  return counted(total(), one, many) + (parts.empty() ? "" : " (" + parts + ")");
}

void report(const Screen& screen, const CommonOptions& common, const ChangeCounts& tally,
            const std::string& done, const std::string& one, const std::string& many,
            const std::string& operation) {
  if (!common.json) {
    screen.print(tally.text(one, many) + " " + done + "\n");
    return;
  }
  boost::json::array boxes;
  for (const auto& [box, count] : tally.boxes()) boxes.push_back({{"box", box}, {"count", count}});
  boost::json::object answer = {
      {"dry_run", common.dry_run}, {"count", tally.total()}, {"boxes", std::move(boxes)}};
  if (!operation.empty()) answer["operation_id"] = operation;
  print_json(screen, answer);
}

}  // namespace twinbox::cli
