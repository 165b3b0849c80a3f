#include "lib/init/pretrained.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/ckpt/weights_file.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/load_config.h"
#include "lib/export/trained_model.h"
#include "lib/init/stored_preprocessing.h"
#include "lib/init/yaml_text.h"
#include "lib/model/meta_device.h"
#include "lib/model/model.h"
#include "lib/model/model_size_limit.h"
#include "lib/model/transformer/transformer_shape.h"
#include "lib/predict/predict_model.h"
#include "lib/report/log.h"
#include "lib/report/muted.h"
#include "lib/train/weights/attention_heads.h"
#include "lib/train/weights/stored_arguments.h"
#include "lib/train/weights/weights.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr const char* kBlock = "Transformer/encoderblock_0/";

// Returns the size of an axis of a parameter. No model has an empty one, but a file may.
int64_t size_of(const std::string& name, const at::Tensor& value, int64_t axis,
                const std::string& path) {
  if (value.numel() > 0) return value.size(axis);
  throw Error(
      Exit::usage, path,
      fmt::format("'{}' has shape {}, which no model has", name, shape_text(value.sizes())));
}

// The parameters of a model, by big_vision's names.
class ParameterShapes {
 public:
  ParameterShapes(const NamedTensors& tree, const std::string& path) : tree_(tree), path_(path) {}

  bool has(const std::string& name) const { return tree_.count(name) > 0; }
  // Returns a dimension of a parameter that must exist; negative axes count from the end.
  int64_t side(const std::string& name, int64_t axis) const {
    const auto found = tree_.find(name);
    const int64_t rank = found == tree_.end() ? 0 : found->second.dim();
    if (axis >= rank || -axis > rank) {
      throw Error(Exit::usage, path_,
                  fmt::format("'{}' is missing or has another shape than in a model that can be "
                              "fine-tuned; write model_name and model yourself",
                              name));
    }
    return size_of(name, found->second, axis, path_);
  }
  // Returns the count of numbers n for which prefix + n + "/" begins a name.
  int64_t count(const std::string& prefix) const {
    std::set<std::string> numbers;
    for (auto at = tree_.lower_bound(prefix); at != tree_.end() && at->first.starts_with(prefix);
         ++at)
      numbers.insert(
          at->first.substr(prefix.size(), at->first.find('/', prefix.size()) - prefix.size()));
    return std::ssize(numbers);
  }

 private:
  const NamedTensors& tree_;
  const std::string& path_;
};

// Returns the width D of a vit with any program's parameter names; nullopt if it is not a vit.
std::optional<int64_t> vit_width(const NamedTensors& tree, const std::string& path) {
  for (const char* name :
       {"patch_embed.proj.weight", "embeddings.patch_embeddings.projection.weight",
        "vit.embeddings.patch_embeddings.projection.weight"}) {
    const auto found = tree.find(name);
    if (found != tree.end() && found->second.dim() == 4)
      return size_of(name, found->second, 0, path);
  }
  const auto ours = tree.find("embedding/kernel");
  const bool vit = ours != tree.end() && ours->second.dim() == 4;
  return vit ? std::optional(size_of(ours->first, ours->second, 3, path)) : std::nullopt;
}

// Returns the name of the variant of this shape, such as "B"; "" if there is none.
std::string variant_of(const TransformerShape& shape) {
  for (const NamedVariant& variant : transformer_variants()) {
    const Config config = parse_config(variant.yaml, variant.name);
    const TransformerShape known = read_transformer_shape(config, 16);
    if (known.width == shape.width && known.depth == shape.depth &&
        known.mlp_dim == shape.mlp_dim && known.num_heads == shape.num_heads)
      return variant.name.substr(0, variant.name.find('/'));
  }
  return "";
}

constexpr const char* kAssumedScaling =
    "This config scales them to -1 .. 1, as most models of big_vision and timm's augreg do.\n"
    "If the weights were trained with ImageNet's mean and standard deviation (deit, for\n"
    "example), replace that op by vgg_value_range.";

// Returns what is assumed about the values of pixels, and why.
std::string scaling_note(const std::string& path) {
  std::string why = "No file next to the weights states how pixel values were scaled.";
  for (const char* name : {"config.json", "preprocessor_config.json"}) {
    const std::string reason = json_not_read(path, name);
    if (reason.empty()) continue;
    why = fmt::format(
        "{} next to the weights is not read, because {}.\n"
        "So it is not known how pixel values were scaled.",
        name, reason);
    break;
  }
  return why + '\n' + kAssumedScaling;
}

// Returns the number of heads of a model whose kernels do not reveal it: the one that is recorded
// next to them, or else the usual one for the width, with a note.
int64_t hidden_heads(int64_t width, int64_t recorded, const std::string& path, std::string& note) {
  require_whole_heads(recorded, width, path);
  if (recorded > 0) return recorded;
  if (const auto usual = usual_heads(width)) {
    note = fmt::format(
        "Nothing states how many attention heads the model has. The config has {}, as published\n"
        "models of width {}. With another number the model computes nonsense.",
        *usual, width);
    return *usual;
  }
  throw Error(Exit::usage, path,
              fmt::format("the number of attention heads does not follow from its width {}; write "
                          "model_name and model yourself",
                          width));
}

PretrainedModel vit_of(const NamedTensors& given, int64_t width, const StoredArguments& stored,
                       const std::string& path) {
  const std::string query = std::string(kBlock) + "MultiHeadDotProductAttention_0/query/bias";
  const NamedTensors unstacked = unstack_blocks(given, path);
  const auto own = unstacked.find(query);
  PretrainedModel found;
  const int64_t heads = own != unstacked.end() && own->second.dim() == 2
                            ? size_of(query, own->second, 0, path)
                            : hidden_heads(width, stored.heads, path, found.heads_note);
  const Shapes wanted = {{"Transformer/encoder_norm/scale", {width}},
                         {query, {heads, width / heads}}};
  const TokenGrid grid = stored_grid(given, stored);
  const NamedTensors tree = adapt_layout(given, wanted, path, grid, stored.own_formulas);
  const ParameterShapes shapes(tree, path);
  TransformerShape shape;
  shape.width = width;
  shape.depth = shapes.count("Transformer/encoderblock_");
  shape.mlp_dim = shapes.side(std::string(kBlock) + "MlpBlock_0/Dense_0/kernel", 1);
  shape.num_heads = heads;
  const int64_t rows = shapes.side("embedding/kernel", 0),
                columns = shapes.side("embedding/kernel", 1);

  found.path = path;
  found.model_name = "vit";
  found.patch = std::max(rows, columns);
  found.channels = shapes.side("embedding/kernel", 2);
  const std::string variant = variant_of(shape);
  found.model = variant.empty() || rows != columns
                    ? fmt::format(
                          "{{width: {}, depth: {}, mlp_dim: {}, num_heads: {}, patch_size: "
                          "[{}, {}]",
                          width, shape.depth, shape.mlp_dim, heads, rows, columns)
                    : fmt::format("{{variant: {}/{}", variant, rows);
  found.model += fmt::format(", pool_type: {}{}}}",
                             shapes.has("cls")               ? "tok"
                             : shapes.has("MAPHead_0/probe") ? "map"
                                                             : "gap",
                             shapes.has("pos_embedding") ? "" : ", posemb: sincos2d");
  if (shapes.has("pos_embedding")) {
    const int64_t tokens = shapes.side("pos_embedding", -2);
    const TokenGrid known = grid.size() == tokens ? grid : square_grid(tokens);
    found.image = {known.rows * rows, known.columns * columns};
    found.other_sizes = known.rows == known.columns;
  }
  found.fresh = {"head/.*"};
  if (shapes.has("pre_logits/kernel")) found.fresh.emplace_back("pre_logits/.*");
  return found;
}

PretrainedModel mixer_of(const NamedTensors& given, const std::string& path) {
  const NamedTensors tree = adapt_layout(given, {{"pre_head_layer_norm/scale", {1}}}, path);
  const ParameterShapes shapes(tree, path);
  const int64_t rows = shapes.side("stem/kernel", 0), columns = shapes.side("stem/kernel", 1);
  const std::string block = "MixerBlock_0/";
  const int64_t side = square_grid(shapes.side(block + "token_mixing/Dense_0/kernel", 0)).rows;
  if (side == 0)
    throw Error(Exit::usage, path,
                "is a mixer for images that are not square; write model yourself");
  PretrainedModel found;
  found.path = path;
  found.model_name = "mlp_mixer";
  found.model = fmt::format(
      "{{patch_size: [{}, {}], hidden_dim: {}, num_blocks: {}, tokens_mlp_dim: {}, "
      "channels_mlp_dim: {}}}",
      rows, columns, shapes.side("stem/kernel", 3), shapes.count("MixerBlock_"),
      shapes.side(block + "token_mixing/Dense_0/kernel", 1),
      shapes.side(block + "channel_mixing/Dense_0/kernel", 1));
  found.channels = shapes.side("stem/kernel", 2);
  found.image = {side * rows, side * columns};
  found.other_sizes = false;
  found.fresh = {"head/.*"};
  return found;
}

PretrainedModel bit_of(const NamedTensors& given, const std::string& path) {
  const NamedTensors tree = adapt_layout(given, {{"norm-pre-head/scale", {1}}}, path);
  const ParameterShapes shapes(tree, path);
  std::vector<std::string> units;
  for (int64_t block = 1; block <= shapes.count("block"); ++block)
    units.push_back(fmt::format("{}", shapes.count(fmt::format("block{}/unit", block))));
  const int64_t width = shapes.side("root_block/conv_root/kernel", 3);
  PretrainedModel found;
  found.path = path;
  found.model_name = "bit_paper";
  found.model =
      fmt::format("{{depth: [{}], width: {}}}", join(units, ", "), static_cast<double>(width) / 64);
  found.channels = shapes.side("root_block/conv_root/kernel", 2);
  found.fresh = {"head/.*"};
  return found;
}

// Returns the pp string with which a trained model is evaluated, or else that of its training.
std::string trained_pp(const Config& config, const std::string& path) {
  if (const auto evaluator = first_evaluator_with_pp(config))
    return evaluator->get<std::string>("pp_fn");
  if (const Config input = config.section("input"); input.has("pp"))
    return input.get<std::string>("pp");
  throw Error(Exit::usage, path,
              "does not record how its images were preprocessed, as it has no pp_fn; write pp, "
              "pp_fn and model_init yourself");
}

// A model that bvtrain has trained: a checkpoint, whose folder is `checkpoint`, or a file of
// `bvtrain export`, for which that is empty.
PretrainedModel own_model(const std::string& path, const std::string& checkpoint) {
  const PredictModel trained = open_predict_model({.workdir = checkpoint,
                                                   .weights = checkpoint.empty() ? path : "",
                                                   .config = "",
                                                   .overrides = {}});
  PretrainedModel found;
  found.path = path;
  found.model_name = trained.config.get<std::string>("model_name");
  found.model = without_references(trained.config.section("model").json());
  found.scaling = scaling_in(trained_pp(trained.config, path), path);
  found.other_sizes = false;
  const bool sized =
      trained.image.size() == 3 && std::ranges::all_of(trained.image, [](int64_t side) {
        return side > 0 && side <= limits::kModelImageSide;
      });
  if (!sized) {
    throw Error(Exit::usage, path,
                "does not record the size of its images; write the path of the weights into "
                "model_init yourself");
  }
  found.image = {trained.image[0], trained.image[1]};
  found.channels = trained.image[2];
  found.fresh = {"head/.*"};
  if (trained.checkpoint) {
    for (const auto& [name, value] : trained.checkpoint->tensors) found.bytes += value.nbytes();
  }
  return found;
}

// Builds the model of the config without memory for its parameters.
std::unique_ptr<Model> model_of_shapes(const PretrainedModel& from, const ImageSides& image) {
  const Config keys = parse_config(from.model, from.path);
  const MetaDevice no_memory;
  const ModelSizeLimit limit(from.bytes, from.path);  // the keys may come from there too
  auto model = Model::Registry::make(from.model_name, keys, Place{from.path},
                                     ModelEnv{.num_classes = 1,
                                              .height = image.height,
                                              .width = image.width,
                                              .channels = from.channels});
  throw_problems(keys);
  return model;
}

}  // namespace

PretrainedModel model_of_parameters(const NamedTensors& tree, const std::string& path,
                                    const StoredArguments& stored) {
  const auto any_below = [&](const char* prefix) {
    const auto found = tree.lower_bound(prefix);
    return found != tree.end() && found->first.starts_with(prefix);
  };
  PretrainedModel found;
  if (is_timm_mixer(tree) || any_below("MixerBlock_") || any_below("Mixer/"))
    found = mixer_of(tree, path);
  else if (is_bit_tf(tree) || is_timm_bit(tree) || any_below("root_block/conv_root/"))
    found = bit_of(tree, path);
  else if (const auto width = vit_width(tree, path))
    found = vit_of(tree, *width, stored, path);
  else
    throw Error(Exit::usage, path,
                "its model is not known; expected weights of a vit, mlp_mixer or bit_paper "
                "(big_vision, timm, Hugging Face), a file of `bvtrain export` or a workdir");
  found.inferred = true;
  found.pil = is_timm(tree) || is_timm_mixer(tree) || is_timm_bit(tree) || is_hugging_face(tree);
  return found;
}

PretrainedModel inspect_weights(const std::string& path) {
  if (!valid_utf8(path))
    throw Error(Exit::usage, path, "a config cannot name this file: its name is not UTF-8");
  const uint64_t bytes_of_arrays = peek_weights(path).value_or(0);
  if (const std::string folder = without_subtree(path); is_checkpoint(folder)) {
    // Throws if "W:ema" names a subtree that the checkpoint lacks.
    if (checkpoint_path(path) != folder) read_weights(path, limits::kUnknownModelBytes);
    return own_model(path, folder);
  }
  if (read_weights_metadata(path).contains("bvtrain.model_name")) {
    PretrainedModel own = own_model(path, /*checkpoint=*/"");
    own.bytes = bytes_of_arrays;
    return own;
  }
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  // A part of a file, "two_towers.npz:img", has no file size.
  NamedTensors weights = read_weights(path, error ? limits::kUnknownModelBytes : bytes);
  PretrainedModel found = model_of_parameters(weights, path, stored_arguments(path));
  found.weights = std::move(weights);
  found.bytes = bytes_of_arrays;
  const StoredPreprocessing stored = stored_preprocessing(path, found.channels);
  if (stored.scaling)
    found.scaling = *stored.scaling;
  else
    found.scaling_note = scaling_note(path);
  found.crop_share = stored.crop_share;
  found.resize_method = stored.resize_method;
  return found;
}

void require_loadable(const PretrainedModel& from, const ImageSides& image) {
  const auto model = model_of_shapes(from, image);
  const log::Muted muted;  // the run says the same
  if (from.inferred)
    plan_weights(from.weights, from.path, *model, from.fresh);
  else
    plan_weights(from.path, *model, from.fresh);
}

}  // namespace bv
