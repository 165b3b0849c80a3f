#include "lib/bench/scaling_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>

#include "lib/params/bucket_ranges.h"
#include "lib/train/recipe.h"

namespace bv {
namespace {

constexpr double kBackward = 2;  // backward takes this many times as long as forward

// Records the multiply-accumulates that forward has done when it enters and leaves each unit.
class UnitMeter : public UnitHooks {
 public:
  UnitMeter(size_t units, const double& macs) : enter_at(units), leave_at(units), macs_(macs) {}
  void begin() override {}
  void end() override {}
  void enter(int unit, const at::Tensor&) override { enter_at.at(unit) = macs_; }
  void leave(int unit, const at::Tensor&) override { leave_at.at(unit) = macs_; }

  std::vector<double> enter_at, leave_at;

 private:
  const double& macs_;
};

}  // namespace

struct ScalingModel::Impl {
  Impl(const Config& config, bool synthetic) : recipe(config, synthetic, /*meta=*/true) {}

  void measure();
  std::shared_ptr<Model> new_model() const;
  // Returns the fraction of backward after which the gradient of each parameter is ready.
  std::map<std::string, double> ready(const Model& model) const;

  Recipe recipe;
  int64_t parameters = 0;
  // Multiply-accumulates per example: before the units, after them, in total, and in each unit.
  double before = 0, after = 0, total = 0;
  std::vector<double> units;
};

std::shared_ptr<Model> ScalingModel::Impl::new_model() const {
  const MetaDevice meta;
  return Model::Registry::make(recipe.model_name, recipe.config.section("model"),
                               recipe.config.place("model_name"), recipe.env());
}

void ScalingModel::Impl::measure() {
  const at::NoGradGuard no_grad;
  Model& model = *recipe.model;
  for (const auto& [name, value] : named_parameters(model)) parameters += value.numel();
  const size_t count = model.units().size();
  UnitMeter meter(count, total);
  model.hooks = &meter;
  Pass pass;
  pass.precision = recipe.precision;
  pass.macs = &total;
  const ModelEnv& env = recipe.env();
  {
    const UnitScope scope(model, pass);
    model.forward(at::empty({1, env.height, env.width, env.channels},
                            at::TensorOptions(at::kFloat).device(at::kMeta)),
                  pass);
  }
  model.hooks = nullptr;
  // Without units everything counts as after them.
  double done = 0;
  for (size_t u = 0; u < count; ++u) {
    if (u == 0) before = done = meter.enter_at[u];
    units.push_back(meter.leave_at[u] - done);
    done = meter.leave_at[u];
  }
  after = total - done;
}

std::map<std::string, double> ScalingModel::Impl::ready(const Model& model) const {
  // The stages of forward: before the units, each unit, after the units.
  const std::vector<std::string> prefixes = model.units();
  const size_t last = prefixes.size() + 1;
  std::vector<double> share = {before};
  share.insert(share.end(), units.begin(), units.end());
  share.push_back(after);

  const auto named = named_parameters(model);
  std::vector<size_t> stage_of;
  std::vector<double> elements(last + 1);
  size_t reached = prefixes.empty() ? last : 0;
  for (const auto& [name, value] : named) {
    const auto unit = std::find_if(prefixes.begin(), prefixes.end(), [&, &name = name](auto& each) {
      return name.starts_with(each);
    });
    size_t stage = reached;
    if (unit != prefixes.end()) {
      stage = static_cast<size_t>(unit - prefixes.begin()) + 1;
      reached = last;  // parameters registered after a unit are used after all units
    }
    stage_of.push_back(stage);
    elements[stage] += static_cast<double>(value.numel());
  }
  std::vector<double> begin(last + 1);  // fraction of backward at which each stage starts
  for (size_t stage = last; stage-- > 0;)
    begin[stage] = begin[stage + 1] + share[stage + 1] / total;

  std::map<std::string, double> ready;
  std::vector<double> seen(last + 1);
  for (size_t i = named.size(); i-- > 0;) {
    const size_t stage = stage_of[i];
    seen[stage] += static_cast<double>(named[i].second.numel());
    ready[named[i].first] = begin[stage] + share[stage] / total * seen[stage] / elements[stage];
  }
  return ready;
}

ScalingModel::ScalingModel(const Config& config, bool synthetic)
    : impl_(std::make_unique<Impl>(config, synthetic)) {
  impl_->measure();
}
ScalingModel::~ScalingModel() = default;

const std::string& ScalingModel::model_name() const { return impl_->recipe.model_name; }
int64_t ScalingModel::parameters() const { return impl_->parameters; }
double ScalingModel::macs() const { return impl_->total; }
int64_t ScalingModel::batch_size() const { return impl_->recipe.length.batch_size; }

StepWork ScalingModel::work(int ranks, int64_t examples, double compute, double update) const {
  const Impl& impl = *impl_;
  const std::shared_ptr<Model> model = impl.new_model();
  const StepConfig step = read_step(impl.recipe.config, *model, impl.recipe.length, ranks);
  throw_problems(impl.recipe.config);
  const FlatParams params(*model, step.groups.group_of,
                          {0, ranks, step.levels, model->units(), step.bucket_bytes});
  const double forward = compute / (1 + kBackward);
  const auto seconds = [&](double macs) { return forward * macs / impl.total; };

  StepWork work;
  work.micro_batches = static_cast<int>(
      read_grad_accum_steps(impl.recipe.config, *model, examples * ranks, {ranks}));
  work.backward = kBackward;
  work.before = seconds(impl.before);
  work.after = seconds(impl.after);
  for (const double macs : impl.units) work.units.push_back({seconds(macs), 0});

  const std::map<std::string, double> ready = impl.ready(*model);
  const auto ready_at = [&](const FlatParams::Entry& entry) {
    return ready.at(entry.name) * kBackward * forward;
  };
  for (const BucketRange& range : bucket_ranges(params, step.bucket_bytes)) {
    double at = 0;
    for (const FlatParams::Entry* entry : range.entries) at = std::max(at, ready_at(*entry));
    work.gradients.push_back({4.0 * static_cast<double>(range.end - range.begin), at, false});
  }
  std::vector<double> last(params.segments().size());
  for (const FlatParams::Entry& entry : params.entries()) {
    if (entry.segment < 0) continue;
    last[entry.segment] = std::max(last[entry.segment], ready_at(entry));
  }
  for (size_t i = 0; i < last.size(); ++i) {
    const FlatParams::Segment& segment = params.segments()[i];
    const double bytes = 4.0 * static_cast<double>(segment.shard_size) * ranks;
    if (segment.level == ShardLevel::fsdp)
      (segment.unit < params.units() ? work.units[segment.unit].bytes : work.root_bytes) += bytes;
    else
      work.parameter_gathers.push_back(bytes);
    if (segment.trainable && segment.level != ShardLevel::zero1)
      work.gradients.push_back({bytes, last[i], true});
  }
  std::stable_sort(work.gradients.begin(), work.gradients.end(),
                   [](const auto& a, const auto& b) { return a.ready < b.ready; });
  int64_t whole = 0;  // elements that a single rank would update, gaps included
  for (const FlatParams::Entry& entry : params.entries()) {
    if (entry.group != kFrozen)
      whole += (entry.numel + FlatParams::kAlign - 1) / FlatParams::kAlign * FlatParams::kAlign;
  }
  if (whole > 0)
    work.update = update * static_cast<double>(params.state_size()) / static_cast<double>(whole);
  if (!params.segments().empty()) work.norm_reduces = step.clip_norm > 0 ? 2 : 1;
  return work;
}

}  // namespace bv
