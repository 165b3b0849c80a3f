#include "lib/train/trainer/replay.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/earlier_run.h"
#include "lib/device/compute_threads.h"
#include "lib/report/log.h"
#include "lib/train/recipe.h"
#include "lib/train/start.h"
#include "lib/train/trainer/rollback.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr int64_t kTold = 1000;  // steps between two lines of the log

// Returns the config of the run, with which a bad step changes nothing and is told.
Config config_of(const Restored& checkpoint, std::vector<Override> overrides) {
  const std::string name = checkpoint.folder + "/" + kManifestName;
  if (!checkpoint.meta.contains("config")) throw Error(Exit::usage, name, "has no config of a run");
  const auto text = checkpoint.meta.at("config").get<std::string>();
  const auto precision = checkpoint.meta.value("precision", std::string());
  if (!precision.empty())
    overrides.insert(overrides.begin(), {"precision", precision, "the checkpoint"});
  overrides.push_back({"nan", "skip", "replay"});
  return parse_config_json(text, name, overrides);
}

bool is_finite(const at::Tensor& values) {
  return !at::isFloatingType(values.scalar_type()) || values.isfinite().all().item<bool>();
}

Example copy_of(const Batch& batch) {
  Example copy;
  for (const auto& [name, values] : batch) copy[name] = values.clone();
  return copy;
}

// The run, trained again.
class Rerun {
 public:
  Rerun(const Restored& from, const nlohmann::json& rollbacks,
        const std::vector<Override>& overrides)
      : config_(config_of(from, overrides)),
        recipe_(config_, from.meta.value("synthetic", false), /*meta=*/false, Group::single(),
                c10::kCPU, 0, classes_of(from)),
        step_(from.step) {
    recipe_.step->load_state(from.tensors, from.folder);
    start_compute_threads(from.meta.value("compute_threads", recipe_.compute_threads));
    const int64_t batch = recipe_.length.batch_size;
    const int64_t position =
        from.meta.value("position", step_ * batch) + examples_left_out(rollbacks, from);
    LoaderOptions options = recipe_.loader;
    options.shift = shift_ = position - step_ * batch;
    loader_ = std::make_unique<Loader>(recipe_.data, options);
    loader_->seek(step_);
  }

  int64_t total_steps() const { return recipe_.length.total_steps; }
  int64_t step() const { return step_; }

  // Computes the next step. Returns what is wrong with it, if anything is.
  std::optional<BadStep> advance() {
    Example batch = copy_of(loader_->next());  // a step may write into its batch
    ++step_;
    recipe_.step->run(step_, batch, /*measure=*/false);
    if (recipe_.step->skipped().empty()) return std::nullopt;
    BadStep bad;
    bad.step = step_;
    bad.reason = recipe_.step->skipped();
    bad.batch = std::move(batch);
    name_examples(bad);
    find_activation(bad);
    for (const auto& [name, values] : named_parameters(*recipe_.model)) {
      bad.norms.emplace_back(name, is_finite(values) ? values.norm().item<double>() : NAN);
    }
    return bad;
  }

 private:
  void name_examples(BadStep& bad) const {
    const int64_t batch = recipe_.length.batch_size;
    for (int64_t row = 0; row < batch; ++row) {
      const int64_t position = (step_ - 1) * batch + row + shift_;
      bad.examples.push_back(recipe_.data->describe(
          recipe_.data->pick(position, recipe_.loader.seed, recipe_.loader.shuffle)));
      for (const auto& [name, values] : bad.batch) {
        if (is_finite(values[row])) continue;
        bad.bad_examples.push_back(fmt::format("{} ({})", bad.examples.back(), name));
      }
    }
  }

  void find_activation(BadStep& bad) const {
    const auto image = bad.batch.find("image");
    if (image == bad.batch.end()) return;
    const c10::AutoGradMode no_grad(false);
    Features features;
    std::vector<std::string> order;
    Pass pass;
    pass.train = true;  // batch norm takes the statistics of the batch, as in the step
    pass.features = &features;
    pass.order = &order;
    pass.seed = recipe_.seed;
    pass.step = step_;
    recipe_.model->forward(image->second, pass);
    for (const std::string& name : order) {
      if (!is_finite(features.at(name))) {
        bad.activation = name;
        return;
      }
      bad.activation_before = name;
    }
  }

  const Config config_;
  Recipe recipe_;
  int64_t step_, shift_ = 0;
  std::unique_ptr<Loader> loader_;
};

}  // namespace

std::string BadStep::text() const {
  std::string out = fmt::format("step {}: {}\n", step, reason);
  if (!bad_examples.empty())
    out += fmt::format("inputs that are not finite: {}\n", short_list(bad_examples));
  if (activation.empty())
    out +=
        "in float32 all activations are finite: the values come from the loss, the gradients or a "
        "lower precision\n";
  else
    out += fmt::format("the first activation that is not finite in float32: {}{}\n", activation,
                       activation_before.empty() ? "" : ", behind " + activation_before);
  const auto largest = std::max_element(
      norms.begin(), norms.end(),
      [](const auto& a, const auto& b) { return std::isnan(b.second) || a.second < b.second; });
  if (largest != norms.end())
    out += fmt::format("the largest parameter before the step: {}, of length {}\n", largest->first,
                       short_number(largest->second));
  return out;
}

nlohmann::ordered_json BadStep::json() const {
  nlohmann::ordered_json lengths = nlohmann::ordered_json::object();
  for (const auto& [name, norm] : norms)
    lengths[name] = nlohmann::ordered_json::parse(json_number(norm));
  return {{"step", step},
          {"reason", reason},
          {"examples", examples},
          {"bad_examples", bad_examples},
          {"activation", activation},
          {"activation_before", activation_before},
          {"parameter_norms", lengths}};
}

Replay replay(const Workdir& workdir, const std::vector<Override>& overrides, int64_t most_steps) {
  const auto checkpoint = Checkpointer::latest(workdir, {.resumes = true});
  if (!checkpoint)
    throw Error(Exit::usage, workdir.dir(),
                "has no checkpoint from which the run could be repeated");
  Rerun rerun(*checkpoint, peek_rollbacks(workdir.run_json()), overrides);
  Replay result;
  result.first_step = checkpoint->step;
  const int64_t end = most_steps > 0 ? std::min(rerun.total_steps(), checkpoint->step + most_steps)
                                     : rerun.total_steps();
  log::info("Repeating {} from step {} to step {}", workdir.dir(), checkpoint->step, end);
  while (rerun.step() < end && !result.bad) {
    result.bad = rerun.advance();
    if (rerun.step() % kTold == 0) log::info("step {} is good", rerun.step());
    poll_signals();
  }
  result.last_step = rerun.step();
  return result;
}

}  // namespace bv
