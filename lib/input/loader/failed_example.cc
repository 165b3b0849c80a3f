#include "lib/input/loader/failed_example.h"

#include <nlohmann/json.hpp>

#include "lib/util/text.h"

namespace bv {

std::string in_utf8(const std::string& text) {
  return valid_utf8(text) ? text : nlohmann::json::parse(json_string(text)).get<std::string>();
}

std::vector<FailedExample> gather_failed(Group& group, const std::vector<FailedExample>& mine) {
  if (group.size() == 1) return mine;
  std::string text;  // JSON lists, separated by commas
  for (const FailedExample& each : mine) {
    text += fmt::format("{}[{}, {}, {}, {}]", text.empty() ? "" : ", ", each.index,
                        json_string(each.name), json_string(each.reason),
                        each.files ? nlohmann::json(*each.files).dump() : "null");
  }
  std::vector<FailedExample> all;
  for (const std::string& list : group.gather_text(text, "failed examples")) {
    for (const auto& each : nlohmann::json::parse("[" + list + "]")) {
      all.push_back({each.at(0), each.at(1), each.at(2)});
      if (!each.at(3).is_null()) all.back().files = each.at(3).get<std::vector<std::string>>();
    }
  }
  return all;
}

}  // namespace bv
