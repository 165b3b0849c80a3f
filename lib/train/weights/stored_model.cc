#include "lib/train/weights/stored_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/model_card.h"
#include "lib/ckpt/weights_file.h"
#include "lib/config/load_config.h"
#include "lib/model/transformer/transformer_shape.h"
#include "lib/util/limits.h"

namespace bv {
namespace {

constexpr const char* kGridOfFlexiVit = "posemb_size";

TokenGrid grid_of(const std::string& model_name, const Config& model,
                  const std::vector<int64_t>& image) {
  std::vector<int64_t> sides;
  if (model_name == "vit" && image.size() == 3) {
    const TransformerShape shape = read_transformer_shape(model, /*patch=*/16);
    sides = {image[0] / shape.patch_height, image[1] / shape.patch_width};
  } else if (model_name == "flexi_vit" || model_name == "proj.flexi.vit") {
    sides = model.get<std::vector<int64_t>>(kGridOfFlexiVit, {7, 7});
  }
  const bool usable =
      sides.size() == 2 && std::all_of(sides.begin(), sides.end(), [](int64_t side) {
        return side > 0 && side <= limits::kModelImageSide;
      });
  return usable ? TokenGrid{sides[0], sides[1]} : TokenGrid{};
}

StoredModel of_checkpoint(const std::string& folder) {
  const auto found = Checkpointer::peek(folder);
  if (!found || !found->meta.contains("config")) return {};
  StoredModel stored;
  if (found->meta.contains("image"))  // older checkpoints lack it
    stored.image = found->meta.at("image").get<std::vector<int64_t>>();
  const Config config =
      parse_config_json(found->meta.at("config").get<std::string>(), found->folder);
  stored.positions =
      grid_of(config.get<std::string>("model_name", ""), config.section("model"), stored.image);
  return stored;
}

StoredModel of_file(const std::string& path) {
  const Metadata metadata = read_weights_metadata(path);
  const auto card = parse_model_card(metadata, path);
  if (!card) return {};
  StoredModel stored;
  stored.image = card->image;
  // In timm's format a flexi_vit is a vit for one size of patches, which the card does not name.
  if (!metadata.contains("timm_class") || card->model_name == "vit")
    stored.positions =
        grid_of(card->model_name, parse_config_json(card->model, path), stored.image);
  return stored;
}

}  // namespace

StoredModel stored_model(const std::string& path) {
  const std::string file = without_subtree(path);
  try {
    return is_checkpoint(file) ? of_checkpoint(file) : of_file(path);
  } catch (const Error&) {
    return {};  // its metadata is damaged, or of a version that knows other keys
  }
}

}  // namespace bv
