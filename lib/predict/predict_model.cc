#include "lib/predict/predict_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/ckpt/weights_file.h"
#include "lib/export/trained_model.h"
#include "lib/params/state_part.h"
#include "lib/report/log.h"
#include "lib/train/recipe.h"
#include "lib/train/weights/weights.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Returns the config that a card describes: the keys that predict reads.
Config card_config(const ModelCard& card, const std::string& file,
                   const std::vector<Override>& overrides) {
  nlohmann::ordered_json keys = {{"model_name", card.model_name},
                                 {"model", nlohmann::ordered_json::parse(card.model)},
                                 {"num_classes", card.num_classes},
                                 {"loss", card.loss}};
  if (card.multilabel) keys["task_kw"]["multilabel"] = true;
  if (!card.precision.empty()) keys["precision"] = card.precision;
  if (card.max_pixels) keys["input"]["max_pixels"] = *card.max_pixels;
  if (card.pp) keys["evals"]["exported"]["pp_fn"] = *card.pp;
  return parse_config_json(keys.dump(), file, overrides);
}

void open_checkpoint(const PredictFrom& from, PredictModel& model) {
  model.checkpoint = Checkpointer::load(from.workdir, {.wanted = wanted_weights(from.ema)});
  model.ema = from.ema;
  model.origin = model.checkpoint->folder;
  const nlohmann::json& meta = model.checkpoint->meta;
  const std::string name = model.origin + "/" + kManifestName;
  const std::string config = run_config(*model.checkpoint);
  model.trained = parse_config_json(config, name);
  if (from.config.empty()) model.config = parse_config_json(config, name, from.overrides);
  if (meta.contains("class_names"))
    model.class_names = meta.at("class_names").get<std::vector<std::string>>();
  // Older checkpoints lack these.
  if (meta.contains("image")) model.image = meta.at("image").get<std::vector<int64_t>>();
  if (meta.contains("image_values")) {
    const auto ends = meta.at("image_values").get<std::vector<double>>();
    model.image_values = {ends.at(0), ends.at(1)};
  }
  if (meta.contains("precision")) model.precision = meta.at("precision").get<std::string>();
}

// Returns the card of a weights file. With a config the file needs no card, so a problem with the
// card is only a warning.
std::optional<ModelCard> read_card(const PredictFrom& from) {
  const Metadata metadata = read_weights_metadata(from.weights);
  try {
    auto card = parse_model_card(metadata, from.weights);
    if (card && card->model_name.find("flexi") != std::string::npos &&
        metadata.contains("timm_class")) {
      throw Error(Exit::usage, from.weights,
                  "holds a flexi_vit as timm's plain vit; give the file of `bvtrain export` in the "
                  "format safetensors or npz");
    }
    return card;
  } catch (const Error& error) {
    if (from.config.empty()) throw;
    log::warn("{}: {}", from.weights, error.message());
    return std::nullopt;
  }
}

void use_training(const ModelCard& card, PredictModel& model) {
  model.class_names = card.class_names;
  model.image = card.image;
  if (!card.image_values.empty()) model.image_values = {card.image_values[0], card.image_values[1]};
  model.precision = card.precision;
}

void open_weights(const PredictFrom& from, PredictModel& model) {
  if (is_checkpoint(from.weights)) {
    const std::string advice = advice_for_weights_in(from.weights);
    throw Error(Exit::usage, "--weights " + from.weights,
                advice.empty() ? "is a folder of a run; give --workdir"
                               : "is a folder without a model.safetensors; " + advice);
  }
  if (is_checkpoint(without_subtree(from.weights))) {
    throw Error(
        Exit::usage, "--weights " + from.weights,
        fmt::format("is a part of a checkpoint; give --workdir, with --ema for the averaged "
                    "weights, or --config C --set model_init={}",
                    from.weights));
  }
  model.weights = model.origin = from.weights;
  const std::optional<ModelCard> card = read_card(from);
  if (!card) {
    if (!from.config.empty()) return;
    throw Error(Exit::usage, from.weights,
                "has no metadata of `bvtrain export` that describes its model; give --config C "
                "with its model_name, model and num_classes too");
  }
  model.trained = card_config(*card, from.weights, {});
  if (from.config.empty()) model.config = card_config(*card, from.weights, from.overrides);
  use_training(*card, model);
}

// Takes over what the weights of the config's model_init record about their training. Predictor
// refuses weights whose last layer `model_load` leaves out.
void open_model_init(PredictModel& model) {
  const auto path = model.config.get<std::string>("model_init", "");
  if (!path.empty()) use_training(recorded_training(path), model);
}

// Throws if --set contains a key that predict does not read.
void check_predict_overrides(const PredictFrom& from, const PredictModel& model) {
  std::vector<std::string> used = {
      "model_name",         "model", "num_classes", "task",
      "task_kw.multilabel", "loss",  "precision",   "input.max_pixels"};
  if (from.workdir.empty() && from.weights.empty())
    used.insert(used.end(), {"model_init", "model_load"});
  // The images are preprocessed as in the training, if that is known.
  if (!from.eval.empty())
    used.insert(used.end(), {"evals." + from.eval, "seed"});
  else if (!model.trained || !first_evaluator_with_pp(*model.trained))
    used.emplace_back("evals");
  for (const Override& each : from.overrides) {
    const bool is_used = std::any_of(used.begin(), used.end(), [&](const std::string& key) {
      return each.key == key || each.key.starts_with(key + ".") || key.starts_with(each.key + ".");
    });
    if (!is_used)
      throw Error(Exit::usage, each.origin,
                  fmt::format("has no effect on predict; it uses {}", join(used, ", ")));
  }
}

// Replaces `num_classes: auto`, which means that of the training.
void set_class_count(const PredictFrom& from, const PredictModel& model) {
  if (!model.config.is_text("num_classes", "auto")) return;
  const std::string weights = model.checkpoint        ? model.checkpoint->folder
                              : !from.weights.empty() ? from.weights
                                                      : model.config.get("model_init", "");
  if (weights.empty()) {
    model.config.fail("num_classes",
                      "auto, but there are no weights that say the number: give --workdir, "
                      "--weights FILE, or --set model_init=FILE");
  }
  replace_auto_classes(model.config, weights);
}

}  // namespace

Precision precision_as_trained(const Config& config, const std::string& trained,
                               c10::Device device) {
  const Precision here = read_precision(config, device);
  if (trained.empty() || config.get("precision", "auto") != "auto") return here;
  return trained == "bf16" ? Precision::bf16 : Precision::float32;
}

void copy_weights(const Restored& checkpoint, bool ema, Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> views;
  NamedTensors from = checkpoint.tensors;
  bool averaged = false;
  const auto name_of = [&](const char* kind, const std::string& path) {
    const bool average = ema && from.contains("ema/" + path);
    averaged |= average;
    if (average) from.erase(kind + path);  // its average replaces it
    return (average ? "ema/" : kind) + path;
  };
  for (auto& [path, parameter] : named_parameters(model))
    views.emplace_back(name_of("params/", path), parameter.detach());
  for (auto& [path, buffer] : named_buffers(model))
    views.emplace_back(name_of("buffers/", path), buffer);
  if (ema && !averaged)
    throw Error(Exit::usage, checkpoint.folder, "has no averaged weights (--ema)");
  std::vector<std::string> prefixes = {"params/", "buffers/"};
  if (ema) prefixes.emplace_back("ema/");
  copy_in(views, from, prefixes, checkpoint.folder);
}

PredictModel open_predict_model(const PredictFrom& from) {
  for (const Override& each : from.overrides) {
    if (each.key == "model_init" && !(from.workdir.empty() && from.weights.empty()))
      throw Error(Exit::usage, each.origin, "the weights come from --workdir or --weights");
  }
  PredictModel model;
  if (!from.config.empty()) model.config = load_config(from.config, from.overrides);
  if (!from.workdir.empty())
    open_checkpoint(from, model);
  else if (!from.weights.empty())
    open_weights(from, model);
  else
    model.origin = from.config;
  check_predict_overrides(from, model);
  set_class_count(from, model);
  if (from.workdir.empty() && from.weights.empty()) open_model_init(model);
  return model;
}

}  // namespace bv
