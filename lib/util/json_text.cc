#include "lib/util/json_text.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/util/text.h"

namespace bv {

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

nlohmann::ordered_json json_value(double value) {
  using Json = nlohmann::ordered_json;
  return std::isfinite(value) ? Json(value) : Json::parse(json_number(value));
}

}  // namespace bv
