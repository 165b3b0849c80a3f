#include "app/json_output.h"

#include <cstdio>

namespace bv {

void print_json(const nlohmann::ordered_json& object) {
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  std::printf("%s\n", object.dump(2, ' ', false, replace).c_str());
}

}  // namespace bv
