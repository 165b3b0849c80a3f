#include "app/json_output.h"

#include "app/standard_output.h"

namespace bv {

void print_json(const nlohmann::ordered_json& object) {
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  write_stdout(object.dump(2, ' ', false, replace) + "\n");
}

}  // namespace bv
