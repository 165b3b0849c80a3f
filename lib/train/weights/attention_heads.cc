#include "lib/train/weights/attention_heads.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/ckpt/weights_file.h"
#include "lib/model/transformer/transformer_shape.h"
#include "lib/report/log.h"
#include "lib/util/error.h"

namespace bv {
namespace {

// Returns the positive integer `key` of a JSON object; 0 if there is none.
int64_t count_in(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_number_integer()) return 0;
  return std::max<int64_t>(object.at(key).get<int64_t>(), 0);
}

// Returns what a config.json of Hugging Face or of timm records.
int64_t heads_in(const nlohmann::json& config) {
  if (const int64_t heads = count_in(config, "num_attention_heads"); heads > 0) return heads;
  return config.contains("model_args") ? count_in(config.at("model_args"), "num_heads") : 0;
}

}  // namespace

int64_t stored_heads(const std::string& path) {
  Metadata metadata;
  try {
    metadata = read_weights_metadata(path);
  } catch (const Error&) {
    // The arrays can be read without the metadata.
  }
  if (const auto timm = metadata.find("timm"); timm != metadata.end()) {
    return count_in(nlohmann::json::parse(timm->second, nullptr, /*allow_exceptions=*/false),
                    "num_heads");
  }
  return heads_in(json_beside(path, "config.json"));
}

void require_whole_heads(int64_t stored, int64_t width, const std::string& path) {
  if (stored == 0 || width % stored == 0) return;
  throw Error(Exit::usage, path,
              fmt::format("its metadata or the config.json beside it states {} attention heads, "
                          "which do not divide the width {}; correct the number there",
                          stored, width));
}

void check_heads(const NamedTensors& file, const Shapes& wanted, const std::string& path) {
  const auto [heads, features] = heads_of(wanted);
  if (heads == 0 || (!is_timm(file) && !is_hugging_face(file))) return;
  const int64_t stored = stored_heads(path), width = heads * features;
  if (stored == heads) return;
  require_whole_heads(stored, width, path);
  if (stored > 0) {
    throw Error(Exit::usage, path,
                fmt::format("its weights have {} attention heads, but the config's model has {}; "
                            "write model.num_heads: {}",
                            stored, heads, stored));
  }
  const auto usual = usual_heads(width);
  if (usual == heads) return;
  log::warn(
      "{}: its arrays do not show how many attention heads its model has; they are read with "
      "model.num_heads: {}{}",
      path, heads,
      usual ? fmt::format(", but published models of width {} have {}", width, *usual) : "");
}

}  // namespace bv
