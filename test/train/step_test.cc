// The training step: its measurements, that it reads nothing back, non-finite values, averaged
// weights, its state, and its keys.
#include "lib/train/step/step.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "lib/config/load_config.h"
#include "lib/train/step/step_cost.h"
#include "test/support/error.h"
#include "test/support/host_reads.h"
#include "test/support/tiny_model.h"

namespace bv::test {
namespace {

const std::string kStepAdam =
    "{optax_name: scale_by_adam, optax: {mu_dtype: bfloat16}, lr: 0.01, wd: 0.001, grad_clip_norm: "
    "1.0, mixup: {p: 0.2}, ema: {decay: 0.9}, schedule: {decay_type: cosine, warmup_steps: 3}}";
const std::string kMomentum =
    "{optax_name: momentum_hp, lr: 0.05, wd: 0.001, ema: {decay: 0.5}, schedule: [['body/bias', "
    "null], ['.*', {}]]}";

void check_equal(const NamedTensors& a, const NamedTensors& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, tensor] : a) {
    INFO(name);
    REQUIRE(b.contains(name));
    CHECK(tensor.equal(b.at(name)));
  }
}

std::map<std::string, double> measured(const TrainStep& step, int64_t at) {
  std::map<std::string, double> all;
  for (const auto& [name, value] : step.measurements(at)) all[name] = value;
  return all;
}

}  // namespace

TEST_CASE("20 steps equal 10, a save, a load into fresh objects, and 10") {
  for (const std::string& yaml : {kStepAdam, kMomentum}) {
    TinyRun whole(yaml, /*dropout=*/0.3), first(yaml, 0.3), second(yaml, 0.3, 20, /*seed=*/9);
    whole.run(1, 20);
    first.run(1, 10);
    const NamedTensors saved = first.step->state();
    first.run(11, 12);  // what was saved is a copy
    second.step->load_state(saved);
    CHECK(second.step->count() == 10);
    check_equal(second.step->state(), saved);
    second.run(11, 20);
    check_equal(second.step->state(), whole.step->state());
    CHECK(second.step->measurements(20) == whole.step->measurements(20));
  }
}

TEST_CASE("the cost of a step counts Adafactor's second moments") {
  const auto state_bytes = [](const std::string& optimizer) {
    const TinyModel model;
    const Config config = parse_config("{lr: 0.1, optax_name: " + optimizer + "}", "t.yaml");
    const RunLength length{.batch_size = 8, .data_size = 160, .total_steps = 20};
    return step_cost(read_step(config, model, length), model, 1).state_bytes;
  };
  for (const char* size : {"12", "1000"}) {
    INFO(size);
    const std::string adafactor = fmt::format(
        "scale_by_adafactor, optax: {{momentum: null, min_dim_size_to_factor: {}}}", size);
    const TinyRun run("{lr: 0.1, optax_name: " + adafactor + "}");
    CHECK(state_bytes(adafactor) - state_bytes("sgd") == run.step->memory().state);
  }
}

TEST_CASE("a replay pairs examples for mixup within the ranks of its run") {
  const std::string keys = "{optax_name: sgd, lr: 0.5, mixup: {p: 0.7, scope: shard}}";
  const auto weights_after = [&](int ranks) {
    TinyRun replay(keys);
    replay.step->repeat_ranks(ranks);
    replay.run(1, 1);
    return replay.step->state();
  };
  TinyRun by_hand("{optax_name: sgd, lr: 0.5}");
  Batch batch = tiny_batch(1);
  const at::Tensor shares = mixup_shares(mixup_coefficient(3, 1, 0.7));  // 3: the step's seed
  REQUIRE(shares[1].item<float>() > 0.01f);
  for (const char* key : {"image", "labels"})
    for (const at::Tensor& half : batch.at(key).chunk(2)) mix(half, shares, key);
  by_hand.step->run(1, batch, true);
  check_equal(weights_after(2), by_hand.step->state());
  CHECK_FALSE(
      weights_after(1).at("params/body/kernel").equal(weights_after(2).at("params/body/kernel")));
}

TEST_CASE("the state's names: no optimizer state for frozen parameters") {
  TinyRun run(kMomentum);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : run.step->state()) names.push_back(name);
  CHECK(names == std::vector<std::string>{
                     "buffers/mean", "ema/body/kernel", "ema/head/bias", "ema/head/kernel",
                     "ema/mean", "opt/count", "opt/trace/body/kernel", "opt/trace/head/bias",
                     "opt/trace/head/kernel", "params/body/bias", "params/body/kernel",
                     "params/head/bias", "params/head/kernel"});
  CHECK(run.step->state().at("opt/trace/head/bias").scalar_type() == at::kBFloat16);
}

TEST_CASE("a state of another optimizer is refused, with the names") {
  TinyRun adam(kStepAdam), momentum(kMomentum);
  CHECK_THROWS_WITH(momentum.step->load_state(adam.step->state(), "run/ckpt/step-5"),
                    Catch::StartsWith("run/ckpt/step-5: error: does not fit this config: missing "
                                      "opt/trace/body/kernel, opt/trace/head/bias") &&
                        Catch::Contains("unexpected ema/body/bias, opt/mu/body/bias"));
}

// resnet_cifar has the buffers of its batch norms; with `ema` there are averages of them.
TEST_CASE("a step on the meta device checks whether a state fits, also its buffers") {
  const auto task = softmax_task();
  const auto step_of = [&](Model& model) {
    const Config config =
        parse_config("{optax_name: scale_by_adam, lr: 0.01, ema: {decay: 0.9}}", "t.yaml");
    const RunLength length{.batch_size = 8, .data_size = 160, .total_steps = 20};
    return std::make_unique<TrainStep>(model, *task, read_step(config, model, length), 3,
                                       Precision::float32);
  };
  const auto model_of = [](const std::string& keys) {
    return Model::Registry::make("resnet_cifar", parse_config(keys, "m"), Place(),
                                 ModelEnv{5, 8, 8, 3});
  };
  const auto model = model_of("{norm: batch, width: 8}");
  init_parameters(*model, 1, std::nullopt);
  const NamedTensors saved = step_of(*model)->state();
  const MetaDevice meta;
  const auto shapes = model_of("{norm: batch, width: 8}"), wide = model_of("{width: 16}");
  step_of(*shapes)->load_state(saved, "w/ckpt/step-5");
  CHECK_THROWS_WITH(step_of(*wide)->load_state(saved, "w/ckpt/step-5"),
                    Catch::StartsWith("w/ckpt/step-5: error: does not fit this config: "));
}

TEST_CASE("measurements: names in order, and their values") {
  TinyRun run(
      "{optax_name: sgd, lr: 0.5, schedule: [['body/.*', {mult: 2}], ['head/bias', null], "
      "['.*', {decay_type: linear}]]}");
  const NamedTensors before = run.step->state();
  run.step->run(1, tiny_batch(1), true);
  const NamedTensors after = run.step->state();
  std::vector<std::string> names;
  for (const auto& [name, value] : run.step->measurements(1)) names.push_back(name);
  CHECK(names == std::vector<std::string>{"global_schedule", "global_schedule1", "l2_grads",
                                          "l2_params", "l2_updates", "training_loss"});
  double params = 0, updates = 0, grads = 0;
  for (const auto& [name, tensor] : after) {
    if (!name.starts_with("params/")) continue;
    const at::Tensor difference = tensor - before.at(name);
    params += tensor.square().sum().item<double>();
    updates += difference.square().sum().item<double>();
    const double factor = name.starts_with("params/body") ? 0.5 * 2 : 0.5;
    grads += (difference / factor).square().sum().item<double>();
    if (name == "params/head/bias") CHECK(difference.abs().max().item<float>() == 0);
  }
  const auto values = measured(*run.step, 2);
  CHECK(values.at("l2_params") == Approx(std::sqrt(params)).epsilon(1e-6));
  CHECK(values.at("l2_updates") == Approx(std::sqrt(updates)).epsilon(1e-5));
  CHECK(values.at("l2_grads") == Approx(std::sqrt(grads)).epsilon(1e-5));
  CHECK(values.at("global_schedule") == 2.0);
  CHECK(values.at("global_schedule1") == Approx(0.95));  // at count 1 of 20
}

TEST_CASE("the FLOPs of an example are not known if the model's steps differ") {
  const auto task = softmax_task();
  const auto flops_of = [&](const std::string& flexi) {
    const std::string keys =
        "{width: 8, depth: 1, mlp_dim: 8, num_heads: 1, patch_size: [2, 2]" + flexi + "}";
    const auto model =
        Model::Registry::make("flexi_vit", parse_config(keys, "m"), Place(), ModelEnv{5, 8, 8, 3});
    init_parameters(*model, 1, std::nullopt);
    const Config config = parse_config("{optax_name: sgd, lr: 0.01}", "t.yaml");
    const RunLength length{.batch_size = 4, .data_size = 160, .total_steps = 20};
    TrainStep step(*model, *task, read_step(config, *model, length), 3, Precision::float32);
    Batch batch = tiny_batch(1, 4);
    batch["image"] = at::ones({4, 8, 8, 3});
    step.run(1, batch, true);
    return step.example_flops();
  };
  CHECK(flops_of("") > 0);
  CHECK(flops_of(", flexi: {seqhw: {v: [2, 4]}}") == 0);
}

TEST_CASE("clipping: no change below the norm, exactly the norm above") {
  TinyRun plain("{optax_name: sgd, lr: 1}"), loose("{optax_name: sgd, lr: 1, grad_clip_norm: 1e6}"),
      tight("{optax_name: sgd, lr: 1, grad_clip_norm: 0.01}");
  for (TinyRun* run : {&plain, &loose, &tight}) run->step->run(1, tiny_batch(1), true);
  check_equal(plain.step->state(), loose.step->state());
  const auto values = measured(*tight.step, 1);
  CHECK(values.at("l2_updates") == Approx(0.01).epsilon(1e-5));
  CHECK(values.at("l2_grads") == measured(*plain.step, 1).at("l2_grads"));  // before clipping
}

// The meta device replaces the GPU. Its tensors have no values, so copies from it throw, but only
// after the counter has seen them.
TEST_CASE("the counter of the next test sees reads of values and copies between devices") {
  const at::Tensor host = at::ones({3}), device = at::empty({3}, at::kMeta);
  const auto reads_of = [](const auto& call) {
    const HostReads reads;
    try {
      call();
    } catch (const std::exception&) {
    }
    return reads.count();
  };
  CHECK(reads_of([&] { host[0].item<float>(); }) > 0);
  CHECK(reads_of([&] { at::all(host).is_nonzero(); }) > 0);
  CHECK(reads_of([&] { device.cpu(); }) == 1);
  CHECK(reads_of([&] { device.to(at::kCPU, /*non_blocking=*/true); }) == 1);
  CHECK(reads_of([&] { at::empty({3}).copy_(device); }) == 1);
  // From pageable memory, although the host need not wait for pinned memory.
  CHECK(reads_of([&] { host.to(at::kMeta, /*non_blocking=*/true); }) == 1);
  CHECK(reads_of([&] { at::empty_like(device).copy_(host, /*non_blocking=*/true); }) == 1);
  // Nothing to wait for.
  CHECK(reads_of([&] { host.cpu(), host.to(at::kDouble), at::empty({3}).copy_(host); }) == 0);
  CHECK(reads_of([&] { device.to(at::kDouble), device.clone(); }) == 0);
}

TEST_CASE("a step that is not measured reads nothing back to the host, and trains the same") {
  TinyRun run(kStepAdam, 0.2), other(kStepAdam, 0.2);
  run.run(1, 2);
  {
    const HostReads reads;
    for (int64_t i = 3; i <= 6; ++i) run.step->run(i, tiny_batch(i), false);
    CHECK(reads.count() == 0);
  }
  other.run(1, 6);
  check_equal(run.step->state(), other.step->state());
}

TEST_CASE("the digest of a state shows a flip of any bit") {
  // params, mu, nu and ema of four parameters, and a buffer with its average; v_row and v_col of
  // body/kernel, and v of the others, in place of nu
  const auto [keys, arrays] = GENERATE(table<std::string, int>(
      {{kStepAdam, 18},
       {"{optax_name: scale_by_adafactor, optax: {min_dim_size_to_factor: 12}, lr: 0.01, ema: "
        "{decay: 0.9}}",
        19}}));
  TinyRun run(keys), other(keys);
  run.run(1, 3);
  other.run(1, 3);
  CHECK(run.step->digest() == other.step->digest());
  int flips = 0;
  for (const auto& [name, tensor] : run.step->state()) {
    if (name == "opt/count") continue;  // not in the digest
    for (const int bit : {0, 7, 14}) {
      INFO(name << ", bit " << bit);
      const NamedTensors state = run.step->state();
      const bool is_float = tensor.scalar_type() == at::kFloat;
      at::Tensor one = state.at(name).view(is_float ? at::kInt : at::kShort);
      while (one.dim() > 0) one = one.select(0, 0);
      one.bitwise_xor_(1 << (is_float ? 2 * bit : bit));
      other.step->load_state(state);
      CHECK(run.step->digest() != other.step->digest());
      ++flips;
    }
  }
  CHECK(flips == 3 * arrays);
}

TEST_CASE("non-finite values are noticed in any step, and stay noticed") {
  TinyRun run("{optax_name: sgd, lr: 1.0e+15}");
  run.step->run(1, tiny_batch(1), false);
  CHECK(run.step->non_finite().empty());
  run.step->run(2, tiny_batch(2), false);
  CHECK_FALSE(run.step->non_finite().empty());
  const std::string first = run.step->non_finite();
  run.step->run(3, tiny_batch(3), true);
  CHECK(run.step->non_finite() == first);

  TinyRun bad_data("{optax_name: sgd, lr: 0.1}");
  Batch batch = tiny_batch(1);
  batch.at("image").fill_(std::nanf(""));
  bad_data.step->run(1, batch, false);
  CHECK(bad_data.step->non_finite() == "training_loss");
}

TEST_CASE("averaged weights: decay min(d, (1+t)/(10+t)), buffers included, swapped in and out") {
  TinyRun run(
      "{optax_name: sgd, lr: 0.3, ema: {decay: 0.25}, schedule: [['head/bias', null], "
      "['.*', {}]]}");
  NamedTensors state = run.step->state();
  std::map<std::string, at::Tensor> expected;
  for (const auto& [name, tensor] : state) {
    if (name.starts_with("ema/")) expected[name] = tensor;
  }
  CHECK(expected.at("ema/body/kernel").equal(state.at("params/body/kernel")));
  for (int64_t i = 1; i <= 6; ++i) {
    run.step->run(i, tiny_batch(i), false);
    state = run.step->state();
    const double t = static_cast<double>(i - 1), decay = std::min(0.25, (1 + t) / (10 + t));
    for (auto& [name, average] : expected) {
      const std::string own = (name == "ema/mean" ? "buffers/" : "params/") + name.substr(4);
      average = decay * average + (1 - decay) * state.at(own);
      CHECK(average.allclose(state.at(name), 1e-5, 1e-7));
    }
  }
  const at::Tensor parameter = named_parameters(run.model)[0].second;
  REQUIRE(named_parameters(run.model)[0].first == "body/kernel");
  {
    const auto scope = run.step->use_ema();
    CHECK(parameter.equal(state.at("ema/body/kernel")));
    CHECK(named_buffers(run.model)[0].second.equal(state.at("ema/mean")));
    CHECK(named_parameters(run.model)[3].second.equal(state.at("params/head/bias")));
  }
  check_equal(run.step->state(), state);
}

TEST_CASE("averages start at the weights that the first step finds") {
  TinyRun run(kMomentum);
  {
    const c10::AutoGradMode no_grad(false);
    for (auto& [name, parameter] : named_parameters(run.model)) parameter.fill_(0.5);  // model_init
  }
  CHECK(run.step->state().at("ema/head/kernel").equal(run.step->state().at("params/head/kernel")));
  run.run(1, 1);
  const NamedTensors state = run.step->state();
  const double decay = 0.1;  // min(0.5, (1 + t) / (10 + t)) at t = 0
  const at::Tensor expected = decay * 0.5 + (1 - decay) * state.at("params/head/kernel");
  CHECK(state.at("ema/head/kernel").allclose(expected, 1e-5, 1e-7));
}

TEST_CASE("mixup and dropout draw anew in each step, and the same in each run") {
  TinyRun a(kStepAdam, 0.5), b(kStepAdam, 0.5);
  a.run(1, 3);
  b.run(1, 3);
  check_equal(a.step->state(), b.step->state());

  // The losses of one batch with weights that do not change: only the draws differ.
  const auto losses = [](const std::string& keys, double dropout) {
    TinyRun run("{optax_name: sgd, lr: 0.0" + keys + "}", dropout);
    std::vector<double> all;
    for (int64_t step = 1; step <= 3; ++step) {
      run.step->run(step, tiny_batch(1), true);
      all.push_back(measured(*run.step, step).at("training_loss"));
    }
    return all;
  };
  const std::vector<double> plain = losses("", 0);
  CHECK(std::set<double>(plain.begin(), plain.end()).size() == 1);
  for (const auto& drawn : {losses(", mixup: {p: 1}", 0), losses("", 0.5)}) {
    std::set<double> different(drawn.begin(), drawn.end());
    different.insert(plain[0]);
    CHECK(different.size() == 4);
  }
}

TEST_CASE("the step's keys") {
  const TinyModel model;
  const auto problems = [&](const std::string& yaml) -> std::string {
    const Config config = parse_config(yaml, "t.yaml");
    attempt(config, [&] { read_step(config, model, {.batch_size = 8, .total_steps = 9}); });
    config.done();
    return error_of([&] { throw_problems(config); });
  };
  CHECK(problems("{optax_name: sgd, lr: 1}").empty());
  CHECK(problems("{optax_name: sgd, lr: 1, grad_clip_norm: -1}") ==
        "t.yaml:1:42: error: grad_clip_norm: must not be negative, got -1");
  CHECK(problems("{optax_name: sgd, lr: 1, grad_clip_per_example: false}") == "");
  CHECK(problems("{optax_name: sgd, lr: 1, grad_clip_per_example: true}") ==
        "t.yaml:1:49: error: grad_clip_per_example: is not supported: no task computes gradients "
        "per example; use grad_clip_norm");
  CHECK(problems("{optax_name: sgd, lr: 1, grad_clip_per_example: 1}") ==
        "t.yaml:1:49: error: grad_clip_per_example: is not supported: no task computes "
        "gradients per example; use grad_clip_norm");
  CHECK(problems("{optax_name: sgd, lr: 1, ema: {decay: 1}}") ==
        "t.yaml:1:39: error: ema.decay: must be at least 0 and below 1, got 1");
  CHECK(problems("{optax_name: sgd, lr: 1, ema: {}}") ==
        "t.yaml:1:31: error: ema.decay: missing: a number is required");
  const std::string unknown =
      unknown_name_message("optimizer", "sgdd", Optimizer::Registry::names());
  CHECK(problems("{optax_name: sgdd, lr: 1}") == "t.yaml:1:14: error: " + unknown);
  // All problems together.
  CHECK(problems("{optax_name: sgdd, grad_clip_norm: -1, mixup: {p: -1}}") ==
        "t.yaml: error: lr: missing: a number is required\n"
        "t.yaml:1:14: error: " +
            unknown +
            "\n"
            "t.yaml:1:36: error: grad_clip_norm: must not be negative, got -1\n"
            "t.yaml:1:51: error: mixup.p: must not be negative, got -1");
}

}  // namespace bv::test
