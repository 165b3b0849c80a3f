#include "lib/export/trained_model.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/ckpt/weights_file.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/call.h"
#include "lib/config/load_config.h"
#include "lib/model/model.h"
#include "lib/model/model_size_limit.h"
#include "lib/model/target_scale.h"
#include "lib/report/log.h"
#include "lib/tasks/task.h"
#include "lib/train/weights/stored_model.h"
#include "lib/train/weights/weights.h"
#include "lib/util/file.h"
#include "lib/util/limits.h"
#include "lib/util/pattern.h"
#include "lib/util/text.h"

namespace bv {
namespace {

NamedTensors below(const NamedTensors& all, const std::string& prefix) {
  NamedTensors found;
  for (const auto& [name, value] : all) {
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), value);
  }
  return found;
}

// Returns the size of the images on which the weights were trained: the one that bvtrain's files
// record, or else that of the square images for a vit's learned position embedding or a mixer's
// token-mixing MLP. Returns nullopt if it is unknown: other models, other names than big_vision's,
// or a number of tokens that is not a square (a class token with a position).
std::optional<ImageSize> size_in_file(const std::string& path, const std::string& model) {
  if (const auto image = stored_model(path).image; image.size() == 3)
    return ImageSize{image[0], image[1], image[2]};
  if (model != "vit" && model != "mlp_mixer") return std::nullopt;
  const bool vit = model == "vit";
  // There is no model to compare the file with yet; load_weights() does that later.
  NamedTensors file;
  try {
    file = read_weights(path, limits::kUnknownModelBytes);
  } catch (const Error& error) {
    constexpr uint64_t kMost =
        limits::kWeightsBytes + limits::kWeightsPerModel * limits::kUnknownModelBytes;
    if (peek_weights(path).value_or(0) <= kMost) throw;
    throw Error(error.code(), error.where(),
                error.message() + "; give --image-size HEIGHT,WIDTH[,CHANNELS]");
  }
  const auto counted =
      file.find(vit ? "pos_embedding" : "MixerBlock_0/token_mixing/Dense_0/kernel");
  const auto patch = file.find(vit ? "embedding/kernel" : "stem/kernel");
  if (counted == file.end() || patch == file.end()) return std::nullopt;
  if (counted->second.dim() != (vit ? 3 : 2) || patch->second.dim() != 4) return std::nullopt;
  // Sizes of arrays without elements may be of any size.
  if (counted->second.numel() == 0 || patch->second.numel() == 0) return std::nullopt;
  const int64_t tokens = counted->second.size(vit ? 1 : 0);  // (1, N, D), (N, hidden)
  const int64_t side = square_grid(tokens).rows;
  if (side == 0) return std::nullopt;
  return ImageSize{side * patch->second.size(0), side * patch->second.size(1),
                   patch->second.size(2)};
}

// Returns the number of channels that the file records if bvtrain wrote it, otherwise 3.
int64_t channels_in_file(const std::string& path) {
  const std::vector<int64_t> image = stored_model(path).image;
  return image.size() == 3 ? image[2] : 3;
}

// Throws if the weights are tied to positions that images of this size do not have, or if a
// model for such images has parameters of other shapes than the trained model.
void check_fit(const TrainedModel& trained, const ImageSize& image) {
  const MetaDevice meta;
  uint64_t bytes = 0;
  for (const auto& [name, value] : trained.params) bytes += value.nbytes();
  const ModelSizeLimit limit(bytes, trained.origin);  // a checkpoint may describe any model
  const Config& config = trained.config;
  const auto model = Model::Registry::make(
      config.get<std::string>("model_name"), config.section("model"), config.place("model_name"),
      ModelEnv{config.get<int64_t>("num_classes", 0), image.height, image.width, image.channels});
  throw_problems(config);
  const ImageSize& before = trained.image;
  if (before.height > 0 &&
      !weights_fit_places(*model, before.height, before.width, /*resampled=*/false)) {
    throw Error(
        Exit::usage, trained.origin,
        fmt::format("the weights are tied to positions in {}x{} images and do not fit {}x{} "
                    "images{}",
                    before.height, before.width, image.height, image.width,
                    model->position_grid().size() > 0
                        ? "; to resample the position embeddings, export with --config C --set "
                          "model_init=WORKDIR instead of --workdir"
                        : "; leave out --image-size"));
  }
  for (const auto& [name, parameter] : named_parameters(*model)) {
    const auto own = trained.params.find(name);
    if (own == trained.params.end() || own->second.sizes() == parameter.sizes()) continue;
    throw Error(Exit::usage, trained.origin,
                fmt::format("the weights do not fit images of {}x{}x{}: {} is {}, but would be {}",
                            image.height, image.width, image.channels, name,
                            shape_text(own->second.sizes()), shape_text(parameter.sizes())));
  }
}

// Returns the metadata from the config alone. Its keys were checked by training, or are checked by
// the caller.
ModelCard card_of(const Config& config) {
  ModelCard card;
  card.model_name = config.get<std::string>("model_name", "");
  card.model = config.section("model").json();
  card.num_classes = config.get<int64_t>("num_classes", 0);
  card.loss = read_loss(config);
  if (config.get("task", "classify") == "classify" && config.is_map("task_kw"))
    card.multilabel = config.section("task_kw").get<bool>("multilabel", false);
  if (const auto evaluator = first_evaluator_with_pp(config))
    card.pp = fill_constants(evaluator->get<std::string>("pp_fn"), *evaluator);
  const std::string precision = config.word("precision", "auto", {"float32", "bf16", "auto"});
  if (precision != "auto") card.precision = precision;
  if (config.is_map("input"))
    card.max_pixels = config.section("input").maybe<int64_t>("max_pixels");
  return card;
}

// Adds the metadata of a checkpoint.
void read_meta(const Restored& checkpoint, ModelCard& card) {
  const nlohmann::json& meta = checkpoint.meta;
  card.step = checkpoint.step;
  if (meta.contains("precision")) card.precision = meta.at("precision").get<std::string>();
  if (meta.contains("image_values"))
    card.image_values = meta.at("image_values").get<std::vector<double>>();
  if (meta.contains("class_names"))
    card.class_names = meta.at("class_names").get<std::vector<std::string>>();
}

// Returns `path` with the folder of the newest intact checkpoint in place of a workdir or a ckpt/
// folder: what is read there, one after the other, is then of the same step.
std::string one_checkpoint(const std::string& path) {
  const std::string folder = without_subtree(path);
  if (!is_checkpoint(folder) || is_checkpoint_folder(folder)) return path;
  const auto nothing = [](const std::string&, const std::vector<int64_t>&,
                          const std::vector<int64_t>&) { return ElementRange{}; };
  const std::string newest = Checkpointer::load(folder, {.wanted = nothing}).folder;
  return path == folder ? newest : newest + path.substr(path.rfind(':'));
}

// Sets trained.trained_on to `recorded`, the size of the images in the training, if the weights fit
// images of that size too, and otherwise trained.resampled_from.
void note_training_images(const std::vector<int64_t>& recorded, TrainedModel& trained) {
  if (recorded.size() != 3) return;
  const ImageSize before = {recorded[0], recorded[1], recorded[2]};
  if (before == trained.image) return;
  TrainedModel copy = trained;  // a problem of the check stays in its config
  copy.config = parse_config_json(trained.config.json(), trained.origin);
  try {
    check_fit(copy, before);
    trained.trained_on = before;
  } catch (const Error&) {
    trained.resampled_from = before;
  }
}

// Leaves the class names out if the model has another number of classes.
void check_class_names(ModelCard& card) {
  const int64_t names = std::ssize(card.class_names);
  if (names == 0 || names == card.num_classes) return;
  if (card.num_classes > 0) {
    log::warn("the data has {} class names, but the model has {} classes: the names are left out",
              names, card.num_classes);
  }
  card.class_names.clear();
}

// Whether `path` is the subtree ema of the checkpoint in `folder`, as in "W:ema".
bool is_average(std::string path, const std::string& folder) {
  if (checkpoint_path(path) == folder) return false;  // it names no subtree
  while (path.ends_with('/')) path.pop_back();
  return path.ends_with(":ema");
}

// Adds what the weights record about their training.
void add_recorded(const ModelCard& recorded, ModelCard& card) {
  card.class_names = recorded.class_names;
  card.image_values = recorded.image_values;
  if (card.precision.empty()) card.precision = recorded.precision;  // that of the config wins
  card.step = recorded.step;
  card.ema = recorded.ema;
  check_class_names(card);
}

}  // namespace

std::optional<Config> first_evaluator_with_pp(const Config& config) {
  for (const auto& [name, keys] : config.section("evals").items()) {
    keys.mark_read();
    if (keys.has("pp_fn")) return keys;
  }
  return std::nullopt;
}

Metadata metadata_of(const TrainedModel& trained) {
  ModelCard card = trained.card;
  const ImageSize& image = trained.image;
  if (image.height > 0 && image.width > 0) card.image = {image.height, image.width, image.channels};
  return to_metadata(card);
}

Metadata metadata_within(const TrainedModel& trained, uint64_t most, const std::string& output) {
  Metadata about = metadata_of(trained);
  const std::vector<std::string>& names = trained.card.class_names;
  if (names.empty()) return about;
  const size_t bytes = metadata_json(about).size();
  if (bytes <= most) return about;
  log::warn("{}: the {} class names are left out: with them the metadata takes {}, and {} fit",
            output, human_count(std::ssize(names)), human_bytes(static_cast<double>(bytes)),
            human_bytes(static_cast<double>(most)));
  TrainedModel unnamed = trained;
  unnamed.card.class_names.clear();
  return metadata_of(unnamed);
}

ImageSize parse_image_size(const std::string& text) {
  std::vector<int64_t> sizes;
  for (const std::string& part : split(text, ',')) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    const bool number = error == std::errc() && end == part.data() + part.size();
    sizes.push_back(number && value > 0 && value <= limits::kModelImageSide ? value : 0);
  }
  if (sizes.size() > 3 || std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
    throw Error(Exit::usage, "--image-size " + text,
                "expected HEIGHT,WIDTH or HEIGHT,WIDTH,CHANNELS, e.g. 224,224");
  }
  return {sizes.front(), sizes.size() > 1 ? sizes[1] : sizes[0], sizes.size() > 2 ? sizes[2] : 0};
}

void set_image_size(TrainedModel& trained, ImageSize size) {
  if (size.channels == 0) size.channels = trained.image.channels;
  check_fit(trained, size);
  if (trained.image.height > 0 && !trained.trained_on) trained.trained_on = trained.image;
  trained.image = size;
}

void warn_of_other_weights(const Config& config, bool ema) {
  if (ema) return;
  std::vector<std::string> averaged;
  for (const auto& [name, keys] : config.section("evals").items()) {
    keys.mark_read();
    if (keys.get<bool>("ema", false)) averaged.push_back(name);
  }
  if (averaged.empty()) return;
  log::warn(
      "the metrics of {} are those of the averaged weights, but this command uses the unaveraged "
      "ones; --ema uses the averaged ones",
      join(averaged, ", "));
}

ModelCard recorded_training(const std::string& path) {
  ModelCard recorded;
  Metadata metadata;
  try {
    const std::string one = one_checkpoint(path);
    if (const std::string folder = without_subtree(one); is_checkpoint(folder)) {
      const auto checkpoint = Checkpointer::peek(folder);
      if (!checkpoint) return recorded;
      read_meta(*checkpoint, recorded);
      if (checkpoint->meta.contains("image"))  // older checkpoints lack it
        recorded.image = checkpoint->meta.at("image").get<std::vector<int64_t>>();
      recorded.ema = is_average(one, folder);
      return recorded;
    }
    metadata = read_weights_metadata(path);
  } catch (const Error&) {
    return recorded;  // whoever loads the weights reports it
  }
  try {
    return parse_model_card(metadata, path).value_or(recorded);
  } catch (const Error& error) {
    log::warn("{}: {}", path, error.message());
    return recorded;
  }
}

void require_all_loaded(const DontLoad& dont_load, const Model& model) {
  const std::vector<Pattern> patterns(dont_load.patterns.begin(), dont_load.patterns.end());
  std::vector<std::string> left_out;
  const auto look_at = [&](const std::string& name) {
    if (std::ranges::any_of(patterns, [&](const Pattern& each) { return each.matches(name); }))
      left_out.push_back(name);
  };
  for (const auto& [name, parameter] : named_parameters(model)) look_at(name);
  for (const auto& [name, buffer] : named_buffers(model)) look_at("buffers/" + name);
  if (left_out.empty()) return;
  std::ranges::sort(left_out);
  throw Error(Exit::usage, dont_load.place,
              fmt::format("model_load.dont_load leaves out {}, which would be untrained; --set "
                          "model_load=null loads everything",
                          short_list(left_out)));
}

TrainedModel load_trained_model(const Restored& checkpoint, bool ema) {
  TrainedModel trained;
  trained.origin = checkpoint.folder;
  trained.config = parse_config_json(checkpoint.meta.value("config", std::string("{}")),
                                     checkpoint.folder + "/" + kManifestName);
  trained.card = card_of(trained.config);
  trained.card.ema = ema;
  warn_of_other_weights(trained.config, ema);
  read_meta(checkpoint, trained.card);
  check_class_names(trained.card);
  trained.params = below(checkpoint.tensors, "params/");
  trained.buffers = below(checkpoint.tensors, "buffers/");
  if (ema) {
    bool any = false;
    for (const auto& [name, value] : below(checkpoint.tensors, "ema/")) {
      any = true;
      (trained.params.count(name) ? trained.params : trained.buffers)[name] = value;
    }
    if (!any) throw Error(Exit::usage, checkpoint.folder, "has no averaged weights (--ema)");
  }
  const auto image = checkpoint.meta.find("image");
  if (image != checkpoint.meta.end() && image->is_array() && image->size() == 3)
    trained.image = {image->at(0), image->at(1), image->at(2)};
  return trained;
}

TrainedModel load_trained_model(const Config& config, std::optional<ImageSize> size) {
  const auto weights = config.get<std::string>("model_init", "");
  if (weights.empty()) {
    throw Error(Exit::usage, "bvtrain export",
                "no weights: give --workdir, or --set model_init=FILE");
  }
  const DontLoad dont_load = read_dont_load(config);
  const auto name = config.get<std::string>("model_name");
  replace_auto_classes(config, weights);
  const auto classes = config.get<int64_t>("num_classes");
  const ModelCard card = card_of(config);
  throw_problems(config);
  const std::string path = one_checkpoint(weights);
  peek_weights(path);  // before a large model is created
  if (!size) size = size_in_file(path, name);
  if (size && size->channels == 0) size->channels = channels_in_file(path);
  if (!size) {
    throw Error(Exit::usage, path,
                "does not record the size of the model's images; give --image-size "
                "HEIGHT,WIDTH[,CHANNELS]");
  }
  const auto model =
      Model::Registry::make(name, config.section("model"), config.place("model_name"),
                            ModelEnv{classes, size->height, size->width, size->channels});
  throw_problems(config);
  init_parameters(*model, static_cast<uint64_t>(config.get<int64_t>("seed", 0)),
                  config.maybe<double>("init_head_bias"));
  // Without a scale, the outputs of a regression are in the units of the targets.
  if (config.get("task", "classify") == "regress" && has_target_scale(path, *model))
    add_target_scale(*model, classes);
  require_all_loaded(dont_load, *model);
  load_weights(path, *model, dont_load.patterns, dont_load.place.text());
  TrainedModel trained;
  trained.config = config;
  trained.origin = path;
  trained.image = *size;
  trained.card = card;
  const ModelCard recorded = recorded_training(path);
  add_recorded(recorded, trained.card);
  for (const auto& [path_of, value] : named_parameters(*model)) trained.params[path_of] = value;
  for (const auto& [path_of, value] : named_buffers(*model)) trained.buffers[path_of] = value;
  note_training_images(recorded.image, trained);
  return trained;
}

}  // namespace bv
