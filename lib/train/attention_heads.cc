#include "lib/train/attention_heads.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/ckpt/weights_file.h"
#include "lib/model/transformer/transformer_shape.h"
#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/limits.h"

namespace bv {
namespace {

namespace fs = std::filesystem;

// Returns the positive integer `key` of a JSON object; 0 if the text has none.
int64_t count_in(const std::string& json, const char* key) {
  const auto object = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_number_integer()) return 0;
  return std::max<int64_t>(object.at(key).get<int64_t>(), 0);
}

// Returns the config.json beside Hugging Face's model.safetensors, "" if there is none.
std::string config_beside(const std::string& file) {
  const bool folder = folder_exists(file);
  if (!folder && fs::path(file).filename() != "model.safetensors") return "";
  const fs::path config = (folder ? fs::path(file) : fs::path(file).parent_path()) / "config.json";
  return read_file_if_any(config.string(), limits::kConfigBytes).value_or("");
}

}  // namespace

int64_t stored_heads(const std::string& path) {
  const std::string file = without_subtree(path);
  if (is_checkpoint(file)) return 0;
  try {
    const Metadata metadata = read_weights_metadata(path);
    if (const auto timm = metadata.find("timm"); timm != metadata.end())
      return count_in(timm->second, "num_heads");
    return count_in(config_beside(file), "num_attention_heads");
  } catch (const Error&) {
    return 0;  // what is beside the arrays cannot be read
  }
}

void check_heads(const NamedTensors& file, const Shapes& wanted, const std::string& path) {
  const auto [heads, features] = heads_of(wanted);
  if (heads == 0 || (!is_timm(file) && !is_hugging_face(file))) return;
  const int64_t stored = stored_heads(path);
  if (stored == heads) return;
  if (stored > 0) {
    throw Error(Exit::usage, path,
                fmt::format("its model has {} attention heads, but this one has {}; write "
                            "model.num_heads: {}",
                            stored, heads, stored));
  }
  const int64_t width = heads * features;
  const auto usual = usual_heads(width);
  if (usual == heads) return;
  log::warn(
      "{}: its arrays do not show how many attention heads its model has; they are read with "
      "model.num_heads: {}{}",
      path, heads,
      usual ? fmt::format(", but published models of width {} have {}", width, *usual) : "");
}

}  // namespace bv
