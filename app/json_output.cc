#include "app/json_output.h"

#include "app/standard_output.h"
#include "lib/util/json_text.h"

namespace bv {

void print_json(const nlohmann::ordered_json& object) { write_stdout(json_text(object, 2) + "\n"); }

}  // namespace bv
