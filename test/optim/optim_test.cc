// Every registered optimizer: the fused pass is compared with plain per-tensor code (plain_optim.h)
// and adam with at::_fused_adamw_. Also threads, and the rounding of bfloat16 state.
#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "lib/config/load_config.h"
#include "lib/optim/optimizer.h"
#include "lib/optim/param_groups.h"
#include "lib/optim/step_numbers.h"
#include "test/optim/optimizer_calls.h"
#include "test/optim/plain_optim.h"
#include "test/params/flat_views.h"
#include "test/support/config.h"
#include "test/support/folder.h"
#include "test/support/tiny_model.h"

namespace bv::test {
namespace {

constexpr int kSteps = 5;
struct Case {
  std::string name, optax;
  bool rounded;  // keeps bfloat16 state
  PlainRule rule;
};

std::vector<Case> cases() {
  const PlainRule gradient = [](const Values& g, int, PlainState&) { return g; };
  return {
      {"scale_by_adam", "{}", false, plain_adam(0.9F, 0.999F, 1e-8F, false, false)},
      {"scale_by_adam", "{mu_dtype: bfloat16, b2: 0.95}", true,
       plain_adam(0.9F, 0.95F, 1e-8F, true, false)},
      {"scale_by_adam", "{nesterov: true, b1: 0.8, eps: 0.001}", false,
       plain_adam(0.8F, 0.999F, 1e-3F, false, true)},
      {"scale_by_adam", "{nesterov: true, mu_dtype: bfloat16}", true,
       plain_adam(0.9F, 0.999F, 1e-8F, true, true)},
      {"momentum_hp", "{}", true, plain_momentum(0.9F, true, false)},
      {"momentum_hp", "{dtype: float32, momentum: 0.8}", false, plain_momentum(0.8F, false, false)},
      {"momentum_hp", "{nesterov: true}", true, plain_momentum(0.9F, true, true)},
      {"big_vision.momentum_hp", "{dtype: float32, nesterov: true}", false,
       plain_momentum(0.9F, false, true)},
      {"sgd", "{}", false, gradient},
      {"sgd", "{learning_rate: -0.5, momentum: 0.8, nesterov: true}", false,
       scaled(0.5F, plain_momentum(0.8F, false, true))},
      {"sgd", "{learning_rate: 2}", false, scaled(-2, gradient)},
      {"scale", "{step_size: 0.25}", false, scaled(0.25F, gradient)},
      {"trace", "{decay: 0.7}", false, plain_momentum(0.7F, false, false)},
      {"trace", "{decay: 0.9, nesterov: true, accumulator_dtype: bfloat16}", true,
       plain_momentum(0.9F, true, true)},
      {"adam", "{learning_rate: -1, b2: 0.99}", false,
       scaled(1, plain_adam(0.9F, 0.99F, 1e-8F, false, false))},
      {"adamw", "{learning_rate: -0.5, weight_decay: 0.3}", false,
       scaled(0.5F, plain_adam(0.9F, 0.999F, 1e-8F, false, false), 0.3F)},
      {"adamw", "{}", false, scaled(1, plain_adam(0.9F, 0.999F, 1e-8F, false, false), 1e-4F)},
      {"scale_by_adafactor", "{}", true, plain_adafactor(32, 0.999, 0.9, true, 0)},
      {"scale_by_adafactor", "{momentum: null, min_dim_size_to_factor: 1000}", false,
       plain_adafactor(1000, 0.999, 0, false, 0)},
      {"big_vision.scale_by_adafactor",
       "{dtype_momentum: float32, min_dim_size_to_factor: 4, beta2_cap: 0.5, momentum: 0.8, "
       "clipping_threshold: 0.7}",
       false, plain_adafactor(4, 0.5, 0.8, false, 0.7)},
      {"muon", "{}", false, plain_muon("head/kernel", 0.95F, true, 5, true)},
      {"muon",
       "{adam_for: [body/kernel], momentum: 0.6, nesterov: false, ns_steps: 3, adjust_lr: "
       "original}",
       false, plain_muon("body/kernel", 0.6F, false, 3, false)},
      {"big_vision.sgd", "{}", false, gradient},
      {"identity", "{}", false, gradient},
  };
}

constexpr float kEmaDecay = 0.75F;

std::vector<float> schedules_of(const ParamGroups& groups, int64_t count) {
  std::vector<float> values;
  for (const Schedule& schedule : groups.schedules) values.push_back(schedule(count));
  return values;
}

StepScalars scalars_of(const ParamGroups& groups, const FlatParams& params,
                       const Optimizer& optimizer, int count) {
  return {.lr = groups.lr,
          .clip_norm = 1.5F,
          .grad_squares = params.grads().to(at::kDouble).square().sum(),
          .numbers = numbers_of(optimizer, count, schedules_of(groups, count), kEmaDecay)};
}

ParamGroups tiny_groups(const Model& model) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : named_parameters(model)) names.push_back(name);
  const Config config = parse_config(
      "{lr: 0.1, wd: 0.02, lr_mults: [['head/.*', 3]], schedule: [['body/bias', null], ['head/.*', "
      "{decay_type: linear, mult: 2}], ['.*', {decay_type: cosine, warmup_steps: 2}]]}",
      "t.yaml");
  ParamGroups groups = read_groups(config, names, {.total_steps = kSteps});
  throw_problems(config);
  return groups;
}

// Parameters that are large enough for several chunks. The fused pass updates them kSteps times.
struct FusedRun {
  explicit FusedRun(const Case& c) : groups(tiny_groups(model)), params(model, groups.group_of) {
    optimizer = make(c.name, c.optax);
    optimizer->allocate(params);
    ema = params.new_buffer(at::kFloat);
    const auto ranges = update_ranges(groups, params);
    for (int step = 0; step < kSteps; ++step) {
      fill_gradients(params, step);
      sums = optimizer->update(params, ranges, scalars_of(groups, params, *optimizer, step), &ema);
    }
  }
  TinyModel model;
  ParamGroups groups;
  FlatParams params;
  std::unique_ptr<Optimizer> optimizer;
  at::Tensor ema;
  at::Tensor sums;  // (2)
};

// The same updates one tensor at a time, in the order of optax.py `make` of big_vision.
struct PlainRun {
  explicit PlainRun(const Case& c) {
    const ParamGroups groups = tiny_groups(model);
    const FlatParams params(model, groups.group_of);
    std::map<std::string, PlainState> states;
    for (const auto& entry : params.entries()) {
      const float* start = params.data().const_data_ptr<float>() + entry.offset;
      values[entry.name].assign(start, start + entry.numel);
      ema[entry.name].assign(entry.numel, 0.0F);
    }
    for (int step = 0; step < kSteps; ++step) {
      fill_gradients(params, step);
      const StepScalars scalars =
          scalars_of(groups, params, *make("identity", "{}"), step);  // without those of a rule
      const std::vector<float> schedules = schedules_of(groups, step);
      squares = update_squares = 0;
      for (const auto& entry : params.entries()) {
        if (entry.group == kFrozen) continue;
        update(c, entry, groups.groups[static_cast<size_t>(entry.group)], scalars, step, schedules,
               params.grads().const_data_ptr<float>() + entry.offset, states[entry.name]);
      }
    }
  }

  void update(const Case& c, const FlatParams::Entry& entry, const ParamGroups::Group& group,
              const StepScalars& s, int count, const std::vector<float>& schedules,
              const float* gradient, PlainState& state) {
    Values g(gradient, gradient + entry.numel);
    const auto norm = static_cast<float>(std::sqrt(s.grad_squares.item<double>()));
    for (float& x : g) {
      if (norm >= s.clip_norm) x = (x / norm) * s.clip_norm;
    }
    Values& p = values[entry.name];
    state.name = entry.name;
    state.shape = entry.shape;  // in the order of memory
    if (entry.shape.size() == 2 && entry.strides[0] == 1) std::swap(state.shape[0], state.shape[1]);
    state.params = p;
    Values u = c.rule(g, count, state);
    Values& e = ema[entry.name];
    for (size_t i = 0; i < u.size(); ++i) {
      u[i] *= s.lr;
      u[i] *= group.lr_mult;
      u[i] += group.weight_decay * p[i];
      u[i] *= schedules[static_cast<size_t>(group.schedule)];
      u[i] *= -1;
      p[i] += u[i];
      e[i] = kEmaDecay * e[i] + (1 - kEmaDecay) * p[i];
      squares += static_cast<double>(p[i]) * p[i];
      update_squares += static_cast<double>(u[i]) * u[i];
    }
  }
  TinyModel model;
  std::map<std::string, Values> values, ema;
  double squares = 0, update_squares = 0;
};

// Returns how many of n values differ by more than `tolerance` times the larger one.
int64_t differing(const float* got, const Values& want, double tolerance) {
  int64_t count = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double scale = std::max({std::abs(got[i]), std::abs(want[i]), 0.3F});
    if (!(std::abs(got[i] - want[i]) <= tolerance * scale)) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("the registered optimizers; each is tested below") {
  CHECK(Optimizer::Registry::names() ==
        std::vector<std::string>{"adam", "adamw", "big_vision.momentum_hp",
                                 "big_vision.scale_by_adafactor", "big_vision.sgd", "identity",
                                 "momentum_hp", "muon", "scale", "scale_by_adafactor",
                                 "scale_by_adam", "sgd", "trace"});
  for (const std::string& name : Optimizer::Registry::names()) {
    const auto all = cases();
    CHECK(std::any_of(all.begin(), all.end(), [&](const Case& c) { return c.name == name; }));
  }
}

TEST_CASE("the fused pass equals plain per-tensor float32 over five steps") {
  for (const Case& c : cases()) {
    INFO(c.name << " " << c.optax);
    const FusedRun fused(c);
    const PlainRun plain(c);
    for (const auto& entry : fused.params.entries()) {
      INFO(entry.name);
      const float* p = fused.params.data().const_data_ptr<float>() + entry.offset;
      CHECK(differing(p, plain.values.at(entry.name), c.rounded ? 2e-3 : 3e-6) == 0);
      // In rare cases a difference in the last bit changes a rounding to bfloat16.
      CHECK(differing(p, plain.values.at(entry.name), 3e-6) <=
            (c.rounded ? 1 + entry.numel / 50 : 0));
      if (entry.group == kFrozen) continue;
      const float* e = fused.ema.const_data_ptr<float>() + entry.offset;
      CHECK(differing(e, plain.ema.at(entry.name), c.rounded ? 2e-3 : 3e-6) == 0);
    }
    CHECK(fused.sums[0].item<double>() == Approx(plain.squares).epsilon(1e-5));
    CHECK(fused.sums[1].item<double>() ==
          Approx(plain.update_squares).epsilon(c.rounded ? 1e-3 : 1e-5));
  }
}

TEST_CASE("frozen parameters do not change and have no state, and gaps stay zero") {
  for (const Case& c : cases()) {
    INFO(c.name << " " << c.optax);
    const FusedRun fused(c);
    const TinyModel fresh;
    for (const auto& [name, parameter] : named_parameters(fresh)) {
      const bool equal = parameter.equal(named_parameters(fused.model).at(0).second);
      if (name == "body/kernel") CHECK_FALSE(equal);
    }
    CHECK(named_parameters(fused.model)[1].first == "body/bias");
    CHECK(named_parameters(fused.model)[1].second.equal(named_parameters(fresh)[1].second));
    for (const auto& slot : fused.optimizer->slots()) {
      CHECK(slot.flat.numel() == fused.params.trainable_size());
      for (const auto& [name, view] : flat_views(fused.params, slot.flat, ""))
        CHECK(name != "body/bias");
    }
    std::vector<at::Tensor> buffers = {fused.params.data(), fused.ema};
    for (const auto& slot : fused.optimizer->slots()) buffers.push_back(slot.flat.to(at::kFloat));
    for (const at::Tensor& buffer : buffers) {
      const float* values = buffer.const_data_ptr<float>();
      int64_t end = 0;
      for (const auto& entry : fused.params.entries()) {
        if (entry.offset >= buffer.numel()) break;
        for (int64_t i = end; i < entry.offset; ++i) REQUIRE(values[i] == 0.0F);
        end = entry.offset + entry.numel;
      }
      for (int64_t i = end; i < buffer.numel(); ++i) REQUIRE(values[i] == 0.0F);
    }
  }
}

TEST_CASE("an optimizer tells the size of its other state from the shapes alone") {
  for (const Case& c : cases()) {
    INFO(c.name << " " << c.optax);
    const FusedRun fused(c);
    const auto unallocated = make(c.name, c.optax);
    int64_t told = 0, held = 0;
    for (const auto& entry : fused.params.entries()) {
      if (entry.group != kFrozen) told += unallocated->other_elements(entry.shape);
    }
    for (const auto& [name, values] : fused.optimizer->other_state()) held += values.numel();
    CHECK(told == held);
  }
}

TEST_CASE("the fused pass gives the same bits for any number of threads") {
  class BigModel : public Model {
   public:
    BigModel() {
      add_parameter("a/kernel", {300, 301}, normal(1));
      add_parameter("a/bias", {70001}, normal(1));
      add_parameter("b/kernel", {70, 50}, normal(1));
      init_parameters(*this, 1, std::nullopt);
    }
    at::Tensor forward(const at::Tensor& image, Pass&) override { return image; }
  };
  const int threads = at::get_num_threads();
  for (const Case& c : cases()) {
    INFO(c.name << " " << c.optax);
    std::vector<at::Tensor> data;
    std::vector<at::Tensor> sums;
    for (int n : {1, 2, 3}) {
      at::set_num_threads(n);
      BigModel model;
      const std::vector<int> groups = {0, 1, 0};
      const FlatParams params(model, groups);
      const std::vector<UpdateRange> ranges = {
          {.begin = 0, .end = group_range(params, 0).second, .weight_decay = 0.1F},
          {.begin = group_range(params, 1).first,
           .end = params.trainable_size(),
           .data = group_range(params, 1).first,
           .grad = group_range(params, 1).first}};
      const auto optimizer = make(c.name, c.optax);
      optimizer->allocate(params);
      for (int step = 0; step < 2; ++step) {
        fill_gradients(params, step);
        sums.push_back(optimizer->update(
            params, ranges, {.lr = 0.1F, .numbers = numbers_of(*optimizer, step, {1})}, nullptr));
      }
      data.push_back(params.data().clone());
    }
    CHECK(data[0].equal(data[1]));
    CHECK(data[0].equal(data[2]));
    CHECK(sums[1].equal(sums[3]));
    CHECK(sums[1].equal(sums[5]));
  }
  at::set_num_threads(threads);
}

TEST_CASE("adam equals at::_fused_adamw_") {
  TinyModel model;
  const std::vector<int> groups = {0, 0, 0, 0};
  const FlatParams params(model, groups);
  at::Tensor p = params.data().clone(), g = at::zeros_like(p), m = at::zeros_like(p),
             v = at::zeros_like(p);
  const auto adam = make("scale_by_adam", "{}");
  adam->allocate(params);
  constexpr double kLr = 0.01, kDecay = 0.1;  // LibTorch multiplies it by the learning rate
  const std::vector<UpdateRange> ranges = {{.begin = 0,
                                            .end = params.trainable_size(),
                                            .weight_decay = static_cast<float>(kLr * kDecay)}};
  for (int step = 0; step < 20; ++step) {
    fill_gradients(params, step);
    g.copy_(params.grads());
    adam->update(params, ranges, {.lr = kLr, .numbers = numbers_of(*adam, step, {1})}, nullptr);
    at::_fused_adamw_({p}, {g}, {m}, {v}, {}, {at::tensor(step + 1.0F)}, kLr, 0.9, 0.999, kDecay,
                      1e-8, false, false);
  }
  CHECK((params.data() - p).abs().max().item<float>() < 2e-6);
}

TEST_CASE("bfloat16 momentum decays by the rounded coefficient and keeps a rounded copy") {
  TinyModel model;
  const std::vector<int> groups = {0, 0, 0, 0};
  const FlatParams params(model, groups);
  params.data().zero_();
  const auto momentum = make("momentum_hp", "{}");
  momentum->allocate(params);
  const std::vector<UpdateRange> ranges = {{.begin = 0, .end = params.trainable_size()}};
  const auto step = [&](float gradient, int count) {
    params.grads().mutable_data_ptr<float>()[0] = gradient;
    momentum->update(params, ranges, {.numbers = numbers_of(*momentum, count, {1})}, nullptr);
    return -params.data().const_data_ptr<float>()[0];
  };
  const float first = 1.0F + 0x1p-10F;  // between two bfloat16 values: kept as 1
  CHECK(step(first, 0) == first);
  CHECK(momentum->slots()[0].flat[0].item<float>() == 1.0F);
  CHECK(step(0, 1) == first + 0.8984375F);  // 0.9 as bfloat16
}

TEST_CASE("momentum: null turns adafactor's momentum off, also over an included file") {
  const TempFolder folder;
  folder.write("base.yaml", "optax: {momentum: 0.9}\n");
  const auto slots = [&](const std::string& optax) {
    const std::string file = folder.write("run.yaml", "include: base.yaml\noptax: " + optax + "\n");
    const Config config = load_config(file, {});
    return Optimizer::Registry::make("scale_by_adafactor", config.section("optax"), {})
        ->slots()
        .size();
  };
  CHECK(slots("{}") == 1);
  CHECK(slots("{momentum: null}") == 0);
}

TEST_CASE("momentum with a dtype of null is float32, as in big_vision") {
  const auto dtype = [](const std::string& name, const std::string& optax) {
    return make(name, optax)->slots().at(0).dtype;
  };
  CHECK(dtype("momentum_hp", "{}") == at::kBFloat16);
  CHECK(dtype("momentum_hp", "{dtype: null}") == at::kFloat);
  CHECK(dtype("trace", "{decay: 0.9, accumulator_dtype: null}") == at::kFloat);
  CHECK(dtype("scale_by_adafactor", "{}") == at::kBFloat16);
  CHECK(dtype("scale_by_adafactor", "{dtype_momentum: null}") == at::kFloat);
  CHECK(dtype("scale_by_adam", "{mu_dtype: null}") == at::kFloat);
}

TEST_CASE("bad optimizer keys are refused") {
  CHECK_THROWS_WITH(make("scale_by_adam", "{b1: 1}"),
                    "t.yaml:1:13: error: optax.b1: must be at least 0 and below 1, got 1");
  for (const char* keys : {"{eps: 0}", "{eps: 1e-46}", "{eps: 1e-46, eps_root: 1e-50}"}) {
    CHECK_THROWS_WITH(make("scale_by_adam", keys),
                      "t.yaml:1:14: error: optax.eps: must be positive in float32 (or eps_root): a "
                      "zero gradient would give 0/0");
  }
  CHECK_NOTHROW(make("scale_by_adam", "{eps: 0, eps_root: 1e-30}"));
  CHECK_THROWS_WITH(make("muon", "{eps: 1e-46}"),
                    "t.yaml:1:14: error: optax.eps: must be positive in float32, got 1e-46");
  for (const char* eps : {"0", "1e-46", "-1"}) {
    CHECK_THROWS_WITH(
        make("scale_by_adafactor", fmt::format("{{eps: {}}}", eps)),
        fmt::format("t.yaml:1:14: error: optax.eps: must be positive in float32, got {}", eps));
  }
  CHECK_THROWS_WITH(
      make("scale_by_adam", "{mu_dtype: bf16}"),
      Catch::Contains("optax.mu_dtype: expected one of float32, bfloat16, got 'bf16'"));
  CHECK_THROWS_WITH(make("momentum_hp", "{momentum: -0.1}"),
                    "t.yaml:1:19: error: optax.momentum: must be at least 0 and below 1, got -0.1");
  CHECK_THROWS_WITH(make("identity", "{momentum: 0.9}"),
                    "t.yaml:1:9: error: unknown key 'optax.momentum'; none is known here");
  CHECK_THROWS_WITH(make("muon", "{adam_for: ['(']}"),
                    Catch::Contains("optax.adam_for: the pattern '(' is "));
  CHECK_THROWS_WITH(make("muon", "{ns_steps: 0}"),
                    "t.yaml:1:19: error: optax.ns_steps: must be between 1 and 20, got 0");
  CHECK_THROWS_WITH(make("scale_by_adafactor", "{beta2_cap: 1}"),
                    "t.yaml:1:20: error: optax.beta2_cap: must be between 0 and 1");
  const Config ascending = parse_config("optax: {learning_rate: 0.1}", "t.yaml");
  Optimizer::Registry::make("adam", ascending.section("optax"), {});
  REQUIRE(warnings(ascending).size() == 1);
  CHECK(warnings(ascending)[0].starts_with("t.yaml:1:24: warning: optax.learning_rate: "));
  const Config plain = parse_config("optax: {nesterov: true}", "t.yaml");
  Optimizer::Registry::make("sgd", plain.section("optax"), {});
  CHECK(warnings(plain) ==
        std::vector<std::string>{
            "t.yaml:1:19: warning: optax.nesterov: has no effect without momentum"});
  const Config config = parse_config("{optax_name: adan}", "t.yaml");
  CHECK_THROWS_WITH(
      Optimizer::Registry::make("adan", config.section("optax"), config.place("optax_name")),
      Catch::Contains("t.yaml:1:14: error: unknown optimizer 'adan' (did you mean 'adam'?)"));
}

}  // namespace bv::test
