#include "lib/train/step/bad_step.h"

#include <ATen/ops/isfinite.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/checkpoint_writer.h"
#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/input/image/normalize.h"
#include "lib/input/loader/failed_example.h"
#include "lib/util/crash_point.h"
#include "lib/util/file.h"
#include "lib/util/json_text.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Examples that are computed at once if the model allows it: the global batch of many ranks may not
// fit into one rank's memory.
constexpr int64_t kAtOnce = 64;

// The maximum size of a batch's images as float32: the process holds several copies of them, and
// decodes them while all other ranks wait.
constexpr double kMostImageBytes = 1 << 30;

bool is_finite(const at::Tensor& values) {
  return !at::isFloatingType(values.scalar_type()) || values.isfinite().all().item<bool>();
}

Example rows_of(const Example& batch, int64_t begin, int64_t count) {
  Example rows;
  for (const auto& [name, values] : batch) rows[name] = values.narrow(0, begin, count);
  return rows;
}

// Returns a copy of the batch, mixed as the step mixes it.
Example mixed(const Example& batch, MixupConfig mixup, uint64_t seed, int64_t step, int ranks) {
  Example copy = copy_of(batch);
  const at::Tensor shares = mixup_shares(mixup_coefficient(seed, step, mixup.p));
  mixup.ranks_here = ranks;
  prepare_batch(mixup, std::nullopt, shares, copy, Group::single());
  return copy;
}

// Finds the first non-finite activation and the first non-finite gradient, in the order of
// computation.
class Search {
 public:
  // `order` are the names of the activations as they were computed.
  void activations(const std::vector<std::string>& order, const Features& features) {
    for (size_t i = 0; i < std::min(order.size(), activation_); ++i) {
      if (is_finite(features.at(order[i]))) continue;
      activation_ = i;
      found_.activation = order[i];
      found_.activation_before = i > 0 ? order[i - 1] : "";
    }
  }
  void loss(double value) {
    if (!std::isfinite(value) && found_.loss.empty()) found_.loss = fmt::format("{}", value);
  }
  void gradient(size_t index, const std::string& name) {
    if (index >= gradient_) return;
    gradient_ = index;
    found_.gradient = name;
  }
  const Diagnosis& found() const { return found_; }

 private:
  Diagnosis found_;
  size_t activation_ = SIZE_MAX, gradient_ = SIZE_MAX;  // their places
};

// `update`: BadStep::update.
std::string origin(const Diagnosis& found, bool update) {
  if (!found.activation.empty()) {
    return fmt::format(
        "the first activation that is not finite in float32: {}{}\n", found.activation,
        found.activation_before.empty() ? "" : ", right after " + found.activation_before);
  }
  if (!found.loss.empty())
    return fmt::format("in float32 all activations are finite, but the loss is {}\n", found.loss);
  if (!found.gradient.empty()) {
    return fmt::format(
        "in float32 all activations and the loss are finite, but the gradient of {}, or its "
        "square, is not\n",
        found.gradient);
  }
  if (update) {
    return "in float32 all activations, the loss and the gradients are finite: the update is too "
           "large; lower lr, or let it rise more slowly\n";
  }
  return "in float32 all activations, the loss and the gradients are finite: the values became "
         "non-finite only because the run computed the step in a lower precision or on another "
         "device\n";
}

}  // namespace

std::string BadStep::text() const {
  std::string out = fmt::format("step {}: {}\n", step, reason);
  if (!bad_examples.empty())
    out += fmt::format("inputs that are not finite: {}\n", short_list(bad_examples));
  if (float32) out += origin(*float32, update);
  const auto largest = std::max_element(
      norms.begin(), norms.end(),
      [](const auto& a, const auto& b) { return std::isnan(b.second) || a.second < b.second; });
  if (largest != norms.end())
    out += fmt::format("the largest parameter before the step: {}, norm {}\n", largest->first,
                       short_number(largest->second));
  return out;
}

nlohmann::ordered_json BadStep::json() const {
  nlohmann::ordered_json named = nlohmann::ordered_json::object();
  for (const auto& [name, norm] : norms) named[name] = json_value(norm);
  nlohmann::ordered_json all = {
      {"step", step}, {"reason", reason}, {"examples", examples}, {"bad_examples", bad_examples}};
  if (update) all["update"] = true;
  if (!batch_left_out.empty()) all["batch_left_out"] = batch_left_out;
  if (float32) {
    all["activation"] = float32->activation;
    all["activation_before"] = float32->activation_before;
    all["loss"] = float32->loss;
    all["gradient"] = float32->gradient;
  }
  all["parameter_norms"] = named;
  return all;
}

Example whole_batch(const Recipe& recipe, int64_t step, int64_t shift,
                    const std::set<std::string>& failed) {
  LoaderOptions options = in_one_process(recipe.loader);
  options.warns = false;
  options.shift = shift;
  Loader loader(recipe.data, options);
  for (const std::string& name : failed) loader.add_failed(name);
  loader.seek(step - 1);
  Example batch = copy_of(loader.next());
  at::Tensor& image = batch.at("image");
  if (image.scalar_type() == at::kByte && recipe.image_normalization)
    image = normalize(image, *recipe.image_normalization);
  return batch;
}

std::string too_large_to_save(const Recipe& recipe) {
  const ModelEnv& env = recipe.env();
  const double limit = bad_batch_limit().value_or(kMostImageBytes);
  const double bytes = 4.0 * static_cast<double>(recipe.length.batch_size) *
                       static_cast<double>(env.height * env.width * env.channels);
  if (bytes <= limit) return "";
  return fmt::format("{} images of {}x{}x{} take {}, more than {}", recipe.length.batch_size,
                     env.height, env.width, env.channels, human_bytes(bytes), human_bytes(limit));
}

BadStep bad_step(const Recipe& recipe, int64_t step, std::string reason, Example batch,
                 int64_t shift) {
  BadStep bad;
  bad.step = step;
  bad.reason = std::move(reason);
  bad.batch = std::move(batch);
  const int64_t size = recipe.length.batch_size;
  for (int64_t row = 0; row < size; ++row) {
    const int64_t position = (step - 1) * size + row + shift;
    bad.examples.push_back(in_utf8(recipe.data->describe(
        recipe.data->pick(position, recipe.loader.seed, recipe.loader.shuffle))));
    for (const auto& [name, values] : bad.batch) {
      if (!is_finite(values[row]))
        bad.bad_examples.push_back(fmt::format("{} ({})", bad.examples.back(), name));
    }
  }
  return bad;
}

std::vector<std::pair<std::string, double>> parameter_norms(const Model& model) {
  std::vector<std::pair<std::string, double>> norms;
  for (const auto& [name, values] : named_parameters(model)) {
    const double norm = values.detach().norm().item<double>();
    norms.emplace_back(name, std::isfinite(norm) ? norm : NAN);
  }
  return norms;
}

Diagnosis diagnose(Model& model, const Task& task, const Example& batch, const MixupConfig& mixup,
                   uint64_t seed, int64_t step, int ranks) {
  const Example whole = mixed(batch, mixup, seed, step, ranks);
  const int64_t n = whole.at("image").size(0);
  const int64_t at_once = model.has_batch_statistics() ? n : std::min(n, kAtOnce);
  std::vector<at::Tensor> parameters;
  std::vector<std::string> names;
  for (const auto& [name, parameter] : named_parameters(model)) {
    if (!parameter.requires_grad()) continue;  // it is frozen
    names.push_back(name);
    parameters.push_back(parameter);
  }
  Search search;
  for (int64_t begin = 0; begin < n; begin += at_once) {
    Features features;
    std::vector<std::string> order;
    Pass pass;
    pass.train = true;  // batch norm uses the same statistics as in the step
    pass.features = &features;
    pass.order = &order;
    pass.seed = seed;
    pass.step = step;
    pass.first_example = begin;
    const at::Tensor loss =
        task.loss(model, rows_of(whole, begin, std::min(at_once, n - begin)), pass);
    search.activations(order, features);
    search.loss(loss.item<double>());
    const auto gradients = torch::autograd::grad({loss}, parameters, {}, std::nullopt,
                                                 /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i].defined() && !is_finite(gradients[i].square().sum()))
        search.gradient(i, names[i]);
  }
  return search.found();
}

std::string batch_checksum(const std::string& folder) {
  return fmt::format("{:016x}", hash64(read_file(folder + "/" + kBadStepBatch)));
}

Snapshot weights_before(const Model& model, int64_t step, nlohmann::json meta) {
  Snapshot snapshot;
  snapshot.step = step - 1;
  snapshot.meta = std::move(meta);
  for (const auto& [name, values] : named_parameters(model))
    snapshot.tensors["params/" + name] = values.detach().to(at::kCPU, /*non_blocking=*/false,
                                                            /*copy=*/true);
  for (const auto& [name, values] : named_buffers(model))
    snapshot.tensors["buffers/" + name] = values.to(at::kCPU, /*non_blocking=*/false,
                                                    /*copy=*/true);
  return snapshot;
}

void write_bad_step(const std::string& folder, const BadStep& bad, const Snapshot* weights) {
  const std::string temporary = folder + ".tmp", old = folder + ".old";
  delete_folder(temporary);
  try {
    make_folders(temporary);
    if (!bad.batch.empty()) write_npz(temporary + "/" + kBadStepBatch, bad.batch);
    if (weights) {
      Snapshot with_reason = *weights;  // the tensors are shared
      with_reason.meta["bad_step"] = {
          {"reason", bad.reason},
          {"update", bad.update},
          {"examples", bad.examples},
          {"bad_examples", bad.bad_examples},
          {"batch", bad.batch.empty() ? "" : batch_checksum(temporary)}};
      StorageRetries retries;
      write_checkpoint(temporary + "/" + kBadStepWeights, with_reason, /*keep=*/true, {}, retries);
    }
    write_file_atomically(temporary + "/" + kBadStepReport, json_text(bad.json(), 2) + "\n");
    // move_folder() would hide the older folder: after a kill, only checkpoints are renamed back.
    // The user can see these names.
    if (file_exists(folder)) {
      delete_folder(old);
      rename_file(folder, old);
    }
    crash_point("bad_step.moved_away");
    rename_durably(temporary, folder);
    delete_folder(old);
  } catch (...) {
    delete_folder(temporary);
    throw;
  }
}

}  // namespace bv
