#include "lib/train/weights/weights.h"

#include <ATen/ops/allclose.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/layouts/layouts.h"
#include "lib/ckpt/model_card.h"
#include "lib/ckpt/weights_file.h"
#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/model/parameter_resizer.h"
#include "lib/model/target_scale.h"
#include "lib/model/transformer/position_embedding.h"
#include "lib/report/log.h"
#include "lib/train/weights/attention_heads.h"
#include "lib/train/weights/stored_arguments.h"
#include "lib/train/weights/stored_model.h"
#include "lib/util/json_kind.h"
#include "lib/util/pattern.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable weights_top_keys(
    "", {},
    {{"model_load", "map", "{}",
      "How the weights of `model_init` are loaded. It has no effect without `model_init`.",
      "{dont_load: ['head/.*']}"}});

const KeyTable load_keys(
    "model_load",
    {"How the weights of `model_init` are loaded.", "dont_load: ['head/.*']",
     "models/common.py merge_params"},
    {{"dont_load", "list of string", "[]",
      "Parameters not to load from the file: a list of regular expressions that must match their "
      "whole names. Matching parameters of the model start as in a new model. Matching parameters "
      "that only the file has are ignored. Use ['head/.*'] to train a new last layer for other "
      "classes.",
      "['head/kernel', 'head/bias']"}});

// The patterns of dont_load: names that keep their initial values.
class Exceptions {
 public:
  Exceptions(const std::vector<std::string>& patterns, const std::string& origin) {
    for (const std::string& pattern : patterns) {
      if (const std::string why = Pattern::name_problem(pattern); !why.empty())
        throw Error(Exit::usage, origin, "model_load.dont_load: " + why);
      patterns_.push_back({Pattern(pattern), false});
    }
  }
  bool match(const std::string& name) {
    bool any = false;
    for (auto& [pattern, used] : patterns_) {
      if (!pattern.matches(name)) continue;
      any = used = true;
    }
    return any;
  }
  // `place` is where the patterns are in the config, or empty.
  void warn_unused(const std::string& place) const {
    for (const auto& [pattern, used] : patterns_) {
      if (used) continue;
      log::warn(
          "{}{}model_load.dont_load: the pattern '{}' matches no name of the model or the file",
          place, place.empty() ? "" : ": ", pattern.text());
    }
  }

 private:
  std::vector<std::pair<Pattern, bool>> patterns_;  // with whether it has matched a name
};

constexpr const char* kPositions = "pos_embedding";

// The grids of the position embeddings of a file and of a model; {} if they are not known.
struct PositionGrids {
  TokenGrid file, model;
  bool assumed = false;  // the file's may be the model's as well
};

// `stored`: the grid that the file records. Without one, a square number of positions is taken for
// a square, as in most published weights.
PositionGrids position_grids(const NamedTensors& file, TokenGrid stored, const Model& model) {
  PositionGrids grids = {{}, model.position_grid()};
  const auto found = file.find(kPositions);
  if (found == file.end() || grids.model.size() == 0) return grids;
  const at::IntArrayRef shape = found->second.sizes();
  grids.file = position_grid(shape, stored);
  if (shape.size() != 3) return grids;
  const bool same_size = shape[1] == grids.model.size();
  if (grids.file.size() == 0 && same_size) grids.file = grids.model;
  grids.assumed = same_size && grids.file != grids.model && stored.size() != shape[1];
  return grids;
}

// Logs if `old`, an array of the file, has another size or grid in the model.
void log_resampling(const WeightCopy& copy, const at::Tensor& old, const PositionGrids& grids,
                    const std::string& path) {
  if (copy.from.is_same(old)) return;
  const TokenGrid from = grids.file, to = grids.model;
  if (copy.name == kPositions && from.size() > 0 && from == to) return;
  if (copy.name != kPositions || from.size() == 0) {
    log::info("{} was resampled from {} to {}", copy.name, shape_text(old.sizes()),
              shape_text(copy.to.sizes()));
  } else if (!grids.assumed) {
    log::info("{} was resampled from a grid of {}x{} to {}x{}", copy.name, from.rows, from.columns,
              to.rows, to.columns);
  } else {
    log::warn(
        "{}: it does not record the grid of its {} position embeddings, so they are resampled from "
        "a square of {}x{} to the model's {}x{}; if they have that grid already, store {} as "
        "(1, {}, {}, {})",
        path, from.size(), from.rows, from.columns, to.rows, to.columns, copy.name, to.rows,
        to.columns, old.size(-1));
  }
}

// Adds to `copies` how the file's array `value` fills `target`, resampled if necessary. Adds to
// `problems` if it does not fit. `resizer` may be null.
void plan_copy(const std::string& name, const at::Tensor& target, at::Tensor value,
               const ParameterResizer* resizer, const PositionGrids& grids,
               std::vector<WeightCopy>& copies, std::vector<std::string>& problems) {
  if (!at::isFloatingType(value.scalar_type()) && at::isFloatingType(target.scalar_type())) {
    problems.push_back(
        fmt::format("{} has type {} in the file", name, dtype_name(value.scalar_type())));
    return;
  }
  if (name == kPositions && (value.sizes() != target.sizes() || grids.file != grids.model)) {
    try {
      value = resample_positions(value, target.sizes().vec(), "", grids.file, grids.model);
    } catch (const Error& error) {
      problems.push_back(error.message());
      return;
    }
  }
  const at::Tensor fitting =
      resizer && value.sizes() != target.sizes() ? resizer->resize_parameter(name, value) : value;
  if (fitting.sizes() != target.sizes()) {
    problems.push_back(fmt::format("{} has shape {} in the file but {} in the model", name,
                                   shape_text(value.sizes()), shape_text(target.sizes())));
    return;
  }
  copies.push_back({name, target, fitting});
}

// Removes from `file` position embeddings that are the fixed ones of sincos2d if the model computes
// its own: timm's files have them as parameters.
void drop_fixed_positions(NamedTensors& file, const NamedTensors& targets, TokenGrid grid) {
  const auto found = file.find(kPositions);
  if (found == file.end() || targets.contains(kPositions)) return;
  const at::Tensor positions = found->second;
  if (positions.dim() != 3 || grid.size() == 0) return;
  const int64_t width = positions.size(2);
  if (width % 4 != 0 || width < 8) return;
  const at::Tensor fixed = sincos2d(grid.rows, grid.columns, width);
  if (positions.sizes() == fixed.sizes() && at::allclose(positions.to(at::kFloat), fixed, 0, 1e-6))
    file.erase(found);
}

const std::string kMean = std::string("buffers/") + kTargetMean;
const std::string kStd = std::string("buffers/") + kTargetStd;
constexpr const char* kHead = "head/";  // prefix of a last layer's parameter names
constexpr const char* kLeaveBothOut =
    "model_init with model_load: {dont_load: ['buffers/targets/.*', 'head/.*']}";

// Folds the target scale of `file` into its last layer, whose outputs are then in the units of the
// targets. Returns why it cannot, or "".
std::string fold_into_head(NamedTensors& file, const std::string& path, double logit_scale) {
  const at::Tensor mean = file.at(kMean), std = file.at(kStd);
  for (const char* name : {"head/kernel", "head/bias"}) {
    const auto found = file.find(name);
    if (found == file.end() || !at::isFloatingType(found->second.scalar_type()))
      return "";  // plan_weights() reports that
  }
  const at::Tensor kernel = file.at("head/kernel"), bias = file.at("head/bias");
  if (mean.dim() != 1 || std.sizes() != mean.sizes() || bias.sizes() != mean.sizes() ||
      kernel.dim() == 0 || kernel.size(-1) != mean.size(0)) {
    return fmt::format("{} {} and {} {} do not fit head/kernel {} and head/bias {}", kMean,
                       shape_text(mean.sizes()), kStd, shape_text(std.sizes()),
                       shape_text(kernel.sizes()), shape_text(bias.sizes()));
  }
  std::map<std::string, at::Tensor> buffers = {{kTargetMean, mean}, {kTargetStd, std}};
  fold_target_scale(file, buffers, path, logit_scale);
  log::info("{}: its target scale moves into its last layer", path);
  return "";
}

// Keeps a last layer together with its target scale. A last layer that was trained with a scale
// predicts in its units, and one without in the units of the targets: exchanging them would give
// wrong values.
//
// If only `file` has a scale, it is folded into the file's last layer, or dropped with it. Returns
// why the file's last layer cannot be loaded, or "".
std::string fit_target_scale(NamedTensors& file, const NamedTensors& targets,
                             Exceptions& exceptions, const std::string& path, double logit_scale) {
  const bool in_file = file.contains(kMean) && file.contains(kStd);
  const bool in_model = targets.contains(kMean);
  if (!in_file && !in_model) return "";
  const bool no_mean = exceptions.match(kMean), no_std = exceptions.match(kStd);
  const bool head = std::any_of(targets.begin(), targets.end(), [&](const auto& each) {
    const std::string& name = each.first;
    return name.starts_with(kHead) && file.contains(name) && !exceptions.match(name);
  });
  std::string problem;
  if (head && !in_file) {
    problem = fmt::format(
        "it has no target scale ({}, {}), so its last layer and this model use different units. To "
        "train a new last layer, use {}; to keep the file's last layer and train it in the units "
        "of the labels, use task_kw: {{normalize_targets: false}}",
        kMean, kStd, kLeaveBothOut);
  } else if (head && (no_mean || no_std)) {
    problem = fmt::format(
        "model_load.dont_load leaves out the target scale ({}, {}), but loads the last layer that "
        "was trained with it; that layer would predict in other units. To leave out both, use {}",
        kMean, kStd, kLeaveBothOut);
  } else if (head && !in_model) {
    problem = fold_into_head(file, path, logit_scale);
  } else if (!head && in_file && in_model && !no_mean && !no_std) {
    log::warn(
        "{}: its target scale is loaded but not its last layer, so the new last layer learns in "
        "that scale, not in the scale of the training data. To leave out both, use {}",
        path, kLeaveBothOut);
  }
  if (in_file && !in_model) {
    file.erase(kMean);
    file.erase(kStd);
  }
  return problem;
}

// Returns the size of the model's parameters and buffers.
uint64_t bytes_of_model(const Model& model) {
  uint64_t bytes = 0;
  for (const auto& [name, parameter] : named_parameters(model)) bytes += parameter.nbytes();
  for (const auto& [name, buffer] : named_buffers(model)) bytes += buffer.nbytes();
  return bytes;
}

// Warns if some weights are tied to positions that the model's images do not have. Grids of
// positions are resampled instead.
void warn_of_other_positions(const std::string& path, const Model& model) {
  const std::vector<int64_t> image = stored_model(path).image;
  if (image.size() != 3 || weights_fit_places(model, image[0], image[1], /*resampled=*/true))
    return;
  log::warn(
      "{0}: some of its weights are tied to positions in {1}x{2} images and do not fit this "
      "model's "
      "images; use images of {1}x{2}",
      path, image[0], image[1]);
}

// Returns what is stated about `file`, the weights at `path`, if it has timm's names.
StoredArguments stored_by_timm(const NamedTensors& file, const std::string& path) {
  const bool timm = is_timm(file) || is_timm_mixer(file) || is_timm_bit(file);
  return timm ? stored_arguments(path) : StoredArguments();
}

// Throws plan_weights()'s error line if there are problems.
void throw_misfits(std::vector<std::string> problems, std::vector<std::string> missing,
                   const std::vector<std::string>& unexpected, const std::string& scale_problem,
                   const std::string& path) {
  if (!scale_problem.empty())
    std::erase_if(missing, [](const std::string& name) { return name == kMean || name == kStd; });
  if (!missing.empty()) problems.push_back("missing in the file: " + join(missing, ", "));
  if (!unexpected.empty()) problems.push_back("not in the model: " + join(unexpected, ", "));
  std::string line = join(problems, "; ");
  if (!problems.empty()) line += " (model_load: {dont_load: [PATTERN, ...]} leaves names out)";
  if (!scale_problem.empty()) line += (line.empty() ? "" : "; ") + scale_problem;
  if (!line.empty()) throw Error(Exit::usage, path, line);
}

}  // namespace

DontLoad read_dont_load(const Config& config) {
  const Config keys = config.section("model_load");
  DontLoad read = {keys.get("dont_load", std::vector<std::string>{}), keys.place("dont_load")};
  keys.done();
  for (const std::string& pattern : read.patterns) {
    if (const std::string why = Pattern::name_problem(pattern); !why.empty())
      keys.problem("dont_load", why);
  }
  return read;
}

std::vector<std::string> class_names_of(const std::string& path) {
  if (const std::string folder = without_subtree(path); is_checkpoint(folder)) {
    const auto from = Checkpointer::peek(folder);
    if (!from || !from->meta.contains("class_names")) return {};
    return from->meta.at("class_names").get<std::vector<std::string>>();
  }
  const auto card = parse_model_card(read_weights_metadata(path), path);
  return card ? card->class_names : std::vector<std::string>();
}

void replace_auto_classes(const Config& config, const std::string& path) {
  if (!config.is_text("num_classes", "auto")) return;
  std::optional<int64_t> count;
  if (const std::string folder = without_subtree(path); is_checkpoint(folder)) {
    const auto from = Checkpointer::peek(folder);
    const auto text = from ? from->meta.value("config", std::string("{}")) : "{}";
    const auto keys = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    const auto found = keys.find("num_classes");
    if (found != keys.end() && json_fault(*found, JsonKind::count).empty())
      count = found->get<int64_t>();
  } else if (const auto card = parse_model_card(read_weights_metadata(path), path)) {
    count = card->num_classes;
  }
  if (!count) {
    config.fail("num_classes",
                fmt::format("auto, but {} does not say how many classes its model has: write the "
                            "number",
                            path));
  }
  config.replace("num_classes", *count);
}

bool has_target_scale(const std::string& path, const Model& model) {
  return read_weights(path, bytes_of_model(model)).contains(kMean);
}

std::vector<WeightCopy> plan_weights(const std::string& path, const Model& model,
                                     const std::vector<std::string>& dont_load,
                                     const std::string& place) {
  return plan_weights(read_weights(path, bytes_of_model(model)), path, model, dont_load, place);
}

std::vector<WeightCopy> plan_weights(NamedTensors file, const std::string& path, const Model& model,
                                     const std::vector<std::string>& dont_load,
                                     const std::string& place) {
  NamedTensors targets;
  for (const auto& [name, parameter] : named_parameters(model)) targets.emplace(name, parameter);
  for (const auto& [name, buffer] : named_buffers(model)) targets["buffers/" + name] = buffer;
  Shapes wanted;
  for (const auto& [name, target] : targets) wanted[name] = target.sizes().vec();

  Exceptions exceptions(dont_load, path);
  const StoredArguments about = stored_by_timm(file, path);
  TokenGrid stored = model.position_grid().size() > 0 ? stored_model(path).positions : TokenGrid{};
  if (stored.size() == 0) stored = stored_grid(file, about);
  check_heads(file, wanted, path);
  check_pooling(file, about, path);
  file = adapt_layout(std::move(file), wanted, path, stored, about.own_formulas);
  const PositionGrids grids = position_grids(file, stored, model);
  drop_fixed_positions(file, targets, grids.file);
  const std::string scale_problem =
      fit_target_scale(file, targets, exceptions, path, logit_scale_of(model));
  const auto* resizer = dynamic_cast<const ParameterResizer*>(&model);
  std::vector<WeightCopy> copies;
  std::vector<std::string> missing, unexpected, problems;
  for (const auto& [name, target] : targets) {
    if (exceptions.match(name)) continue;
    const auto found = file.find(name);
    if (found == file.end())
      missing.push_back(name);
    else
      plan_copy(name, target, found->second, resizer, grids, copies, problems);
  }
  for (const auto& [name, value] : file) {
    if (!targets.count(name) && !exceptions.match(name)) unexpected.push_back(name);
  }
  throw_misfits(problems, missing, unexpected, scale_problem, path);
  exceptions.warn_unused(place);
  const bool whole = std::ranges::none_of(targets, [&](const auto& target) {
    return !target.first.starts_with(kHead) && exceptions.match(target.first);
  });
  if (whole) warn_of_other_positions(path, model);
  for (const WeightCopy& copy : copies) log_resampling(copy, file.at(copy.name), grids, path);
  return copies;
}

void require_finite(const std::vector<WeightCopy>& weights, const std::string& path) {
  std::vector<std::string> bad;
  for (const WeightCopy& copy : weights) {
    if (!copy.from.isfinite().all().item<bool>()) bad.push_back(fmt::format("'{}'", copy.name));
  }
  if (bad.empty()) return;
  throw Error(Exit::usage, path,
              fmt::format("{} {} values that are not finite", short_list(bad),
                          bad.size() == 1 ? "has" : "have"));
}

void load_weights(const std::string& path, Model& model, const std::vector<std::string>& dont_load,
                  const std::string& place) {
  const auto copies = plan_weights(path, model, dont_load, place);
  const c10::AutoGradMode no_grad(false);
  for (const WeightCopy& copy : copies) copy.to.copy_(copy.from);
}

}  // namespace bv
