#include "lib/export/timm_file.h"

#include <nlohmann/json.hpp>

#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/formats/safetensors.h"

namespace bv {

void write_timm(const std::string& output, const TrainedModel& trained, const NamedTensors& params,
                const std::string& timm_class, const nlohmann::json& arguments) {
  Metadata about = metadata_within(trained, safetensors_room(params), output);
  about["format"] = "pt";
  about["timm"] = arguments.dump();
  about["timm_class"] = timm_class;
  replace_file(output, [&](FileWriter& out) { write_safetensors(out, params, about); });
}

double timm_ratio(int64_t features, int64_t width) {
  const int64_t whole = features / width;
  if (whole * width == features) return static_cast<double>(whole);
  return (static_cast<double>(features) + 0.5) / static_cast<double>(width);
}

}  // namespace bv
