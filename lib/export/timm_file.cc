#include "lib/export/timm_file.h"

#include <nlohmann/json.hpp>

#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/safetensors.h"

namespace bv {

void write_timm(const std::string& output, const NamedTensors& params,
                const std::string& timm_class, const nlohmann::json& arguments) {
  const std::string text = arguments.dump();
  replace_file(output, [&](FileWriter& out) {
    write_safetensors(out, params, {{"format", "pt"}, {"timm", text}, {"timm_class", timm_class}});
  });
}

double timm_ratio(int64_t features, int64_t width) {
  if (features % width == 0) return static_cast<double>(features / width);
  return (static_cast<double>(features) + 0.5) / static_cast<double>(width);
}

}  // namespace bv
