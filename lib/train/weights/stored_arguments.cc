#include "lib/train/weights/stored_arguments.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/ckpt/weights_file.h"
#include "lib/util/error.h"
#include "lib/util/json_kind.h"
#include "lib/util/limits.h"

namespace bv {
namespace {

// Returns the positive integer `key` of a JSON object; 0 if there is none.
int64_t count_in(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_number_integer()) return 0;
  return std::max<int64_t>(object.at(key).get<int64_t>(), 0);
}

// Reads a size of images: a side, [height, width] or [channels, height, width].
void read_image(const nlohmann::json& object, const char* key, StoredArguments& stored) {
  if (!object.is_object() || !object.contains(key)) return;
  const nlohmann::json& size = object.at(key);
  const auto side = [&](size_t from_end) {
    const nlohmann::json& value = size.is_array() ? size.at(size.size() - from_end) : size;
    return value.is_number_integer() ? value.get<int64_t>() : 0;
  };
  if (size.is_array() && size.size() != 2 && size.size() != 3) return;
  const int64_t height = side(2), width = side(1);
  if (std::min(height, width) < 1 || std::max(height, width) > limits::kModelImageSide) return;
  stored.image_height = height;
  stored.image_width = width;
}

void read_pool(const nlohmann::json& object, StoredArguments& stored) {
  if (object.is_object() && object.contains("global_pool") && object.at("global_pool").is_string())
    stored.pool = object.at("global_pool").get<std::string>();
}

// `arguments`: of the constructor of a model of timm.
void read_timm(const nlohmann::json& arguments, StoredArguments& stored) {
  stored.heads = count_in(arguments, "num_heads");
  read_image(arguments, "img_size", stored);
  read_pool(arguments, stored);
}

}  // namespace

StoredArguments stored_arguments(const std::string& path) {
  Metadata metadata;
  try {
    metadata = read_weights_metadata(path);
  } catch (const Error&) {
    // The arrays can be read without the metadata.
  }
  StoredArguments stored;
  stored.own_formulas = metadata.contains("timm_class");
  if (const auto timm = metadata.find("timm"); timm != metadata.end()) {
    read_timm(shallow_json(timm->second), stored);
    return stored;
  }
  const nlohmann::json config = json_beside(path, "config.json");
  // What timm's model has become since its construction comes last and wins.
  if (config.contains("pretrained_cfg"))
    read_image(config.at("pretrained_cfg"), "input_size", stored);
  if (config.contains("model_args")) read_timm(config.at("model_args"), stored);
  read_pool(config, stored);
  if (const int64_t heads = count_in(config, "num_attention_heads"); heads > 0)
    stored.heads = heads;
  return stored;
}

void check_pooling(const NamedTensors& file, const StoredArguments& stored,
                   const std::string& path) {
  // fc_norm is a layer that no model of bvtrain has: the caller reports the name.
  if (!is_timm(file) || stored.pool.empty() || file.contains("fc_norm.weight")) return;
  const char* own = file.contains("attn_pool.latent") ? "map"
                    : file.contains("cls_token")      ? "token"
                                                      : "avg";
  if (stored.pool == own) return;
  throw Error(
      Exit::usage, path,
      fmt::format("its metadata or the config.json next to it states global_pool: {0}, but bvtrain "
                  "pools weights with these arrays as timm's '{1}' does, so the outputs would be "
                  "wrong; to fine-tune these weights anyway, write '{1}' there",
                  stored.pool, own));
}

TokenGrid stored_grid(const NamedTensors& file, const StoredArguments& stored) {
  const auto patches = file.find("patch_embed.proj.weight"), positions = file.find("pos_embed");
  if (stored.image_height == 0 || patches == file.end() || positions == file.end()) return {};
  const at::Tensor &kernel = patches->second, &all = positions->second;
  if (kernel.dim() != 4 || kernel.size(2) < 1 || kernel.size(3) < 1 || all.dim() != 3) return {};
  const TokenGrid grid = {stored.image_height / kernel.size(2),
                          stored.image_width / kernel.size(3)};
  const int64_t more = all.size(1) - grid.size();  // the class token's position
  return more == 0 || (more == 1 && file.contains("cls_token")) ? grid : TokenGrid{};
}

}  // namespace bv
