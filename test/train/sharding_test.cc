// Every optimizer gives the same results under every sharding strategy as under `replicate`. Four
// real processes train small models; each is this program again, as a worker.
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>

#include "lib/config/load_config.h"
#include "lib/distributed/group.h"
#include "test/support/process.h"
#include "test/support/sockets.h"
#include "test/support/tiny_model.h"

namespace bv::test {
namespace {

constexpr int kRanks = 4;
constexpr int64_t kSteps = 3;

const char* const kVit = "width: 32, depth: 3, num_heads: 2, mlp_dim: 64, patch_size: [4, 4]";

struct ShardingCase {
  const char* model;
  std::string keys;
  std::string optimizer;
  double tolerance = 1e-3;  // for each tensor, relative to its largest element
  int parts = 1;            // grad_accum_steps of the sharded runs
};

// Returns every optimizer with all its state, and a model for each path through the sharded units.
std::vector<ShardingCase> cases() {
  const std::string vit = kVit;
  std::vector<ShardingCase> all;
  for (const char* optimizer :
       {"optax_name: scale_by_adam", "optax_name: scale_by_adam\noptax: {mu_dtype: bfloat16}",
        "optax_name: adam", "optax_name: adamw\noptax: {weight_decay: 0.1}",
        "optax_name: momentum_hp", "optax_name: trace\noptax: {decay: 0.9, nesterov: true}",
        "optax_name: sgd", "optax_name: identity", "optax_name: scale\noptax: {step_size: 0.5}",
        "optax_name: scale_by_adafactor\noptax: {min_dim_size_to_factor: 8}",
        "optax_name: scale_by_adafactor\noptax: {momentum: null, clipping_threshold: 0.5}",
        "optax_name: muon"}) {
    all.push_back({"vit", vit, optimizer});
  }
  const std::string adam = "optax_name: scale_by_adam";
  all.push_back({"vit", vit + ", scan: true", adam});
  all.push_back({"vit", vit + ", remat_policy: nothing_saveable, dropout: 0.2", adam});
  all.push_back({"vit", vit + ", dtype_mm: bfloat16, pool_type: map", adam,
                 /*tolerance=*/0.1});  // a difference of 1e-7 can round to the next bfloat16
  for (const char* more : {"", ", scan: true", ", remat_policy: nothing_saveable, dropout: 0.2"})
    all.push_back({"vit", vit + more, adam, 1e-3, /*parts=*/2});
  all.push_back({"cnn", "widths: [8, 8], dense: 32", adam});
  const std::string muon = "optax_name: muon";
  all.push_back({"vit", vit + ", scan: true", muon, 1e-3, /*parts=*/2});
  all.push_back({"cnn", "widths: [8, 8], dense: 32", muon});
  all.push_back({"resnet_cifar", "width: 16, norm: group", muon});
  all.push_back({"mlp_mixer",
                 "patch_size: [4, 4], hidden_dim: 32, num_blocks: 2, tokens_mlp_dim: 16, "
                 "channels_mlp_dim: 48",
                 adam});
  all.push_back({"bit", "depth: [1, 1], width: 0.5", adam});
  all.push_back({"bit_paper", "depth: [1, 1], width: 0.5", adam});
  all.push_back({"resnet_cifar", "width: 16, norm: batch", adam});
  return all;
}

const std::vector<std::string> kStrategies = {
    "zero1", "zero2", "[['.*', 'fsdp(axis=\"data\", min_size_to_shard_mb=0.002)']]",
    // Blocks are sharded. Of the rest only the optimizer's state is, but for one replicated kernel.
    "[['.*/head/kernel', replicate], ['.*(encoderblock_|MixerBlock_|block).*', 'fsdp(\"data\", "
    "0)'], "
    "['opt/.*', 'fsdp(\"data\", 0)']]"};

// Two groups with different factors. Frozen are some parameters of the first block, one outside,
// and biases whose gradients are only rounding noise because a norm or a softmax cancels them.
std::string yaml_of(const ShardingCase& c, const std::string& strategy) {
  return c.optimizer + "\nsharding_strategy: " + strategy + R"(
lr: 0.01
wd: 0.001
grad_clip_norm: 0.7
ema: {decay: 0.5}
bucket_mb: 0.005
lr_mults: [['.*/bias', 2.0]]
schedule: [['.*(encoderblock_0|MixerBlock_0|block1/unit1|Conv_0)/.*(bias|kernel)', null], ['.*pos_embedding', null], ['.*(key|token_mixing/Dense_1)/bias', null], ['.*', {decay_type: cosine}]]
)";
}

Batch batch_of(int64_t step, int rank) {
  Rng rng(7, Purpose::synthetic, static_cast<uint64_t>(step * kRanks + rank));
  at::Tensor image = at::zeros({2, 16, 16, 3}), labels = at::zeros({2, 5});
  for (int64_t i = 0; i < image.numel(); ++i)
    image.mutable_data_ptr<float>()[i] = static_cast<float>(rng.uniform(-1, 1));
  for (int64_t i = 0; i < 2; ++i) labels.mutable_data_ptr<float>()[i * 5 + rng.below(5)] = 1;
  return {{"image", image}, {"labels", labels}};
}

struct Run {
  Run(const ShardingCase& c, const std::string& strategy, Group& group, int64_t steps = kSteps)
      : task(softmax_task()) {
    const Config keys = parse_config("model: {" + std::string(c.keys) + "}", "m.yaml");
    model = Model::Registry::make(c.model, keys.section("model"), {}, ModelEnv{5, 16, 16, 3});
    throw_problems(keys);
    const int parts = strategy == "replicate" ? 1 : c.parts;
    const Config config =
        parse_config(yaml_of(c, strategy) + fmt::format("grad_accum_steps: {}\n", parts), "t.yaml");
    const RunLength length{.batch_size = 8, .data_size = 160, .total_steps = 20};
    StepConfig step_config = read_step(config, *model, length, group.size());
    step_config.grad_accum_steps =
        read_grad_accum_steps(config, *model, length.batch_size, {group.size()});
    config.done();
    throw_problems(config);
    step = std::make_unique<TrainStep>(*model, *task, std::move(step_config), 3, Precision::float32,
                                       group, parameter_init(*model, 3, std::nullopt));
    step->broadcast_state();
    for (int64_t i = 1; i <= steps; ++i) {
      step->run(i, batch_of(i, group.rank()), true);
      rows.push_back(step->measurements(i));
    }
    if (steps == 0) return;
    logits = forward(group.rank());
    const auto averaged = step->use_ema();
    ema_logits = forward(group.rank());
  }
  at::Tensor forward(int rank) const {
    const c10::AutoGradMode no_grad(false);
    Pass pass;
    const UnitScope scope(*model, pass);
    return model->forward(batch_of(0, rank).at("image"), pass).clone();
  }
  std::shared_ptr<Model> model;
  std::unique_ptr<Task> task;
  std::unique_ptr<TrainStep> step;
  std::vector<std::vector<std::pair<std::string, double>>> rows;
  at::Tensor logits, ema_logits;
};

// Sums over ranks have another order, which changes them by about 1e-7.
void check_near(const std::string& name, const at::Tensor& a, const at::Tensor& b,
                double tolerance) {
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const double scale = std::max(x.abs().max().item<double>(), 1e-3);
  // bfloat16 state may be rounded to a neighbour.
  if (a.scalar_type() == at::kBFloat16) tolerance = std::max(tolerance, 1e-2);
  const double off = (x - y).abs().max().item<double>() / scale;
  if (!(off < tolerance)) {
    INFO(name);
    CHECK(off < tolerance);
  }
}

// Loss and norms are sums over many elements, so their tolerance is a tenth of that of a tensor.
void check_same(Run& whole, Run& shared, const NamedTensors& expected, int rank, double tolerance) {
  for (size_t i = 0; i < whole.rows.size(); ++i) {
    for (size_t k = 0; k < whole.rows[i].size(); ++k) {
      INFO("step " << i + 1 << " " << whole.rows[i][k].first);
      CHECK(shared.rows[i][k].second ==
            Approx(whole.rows[i][k].second).epsilon(tolerance / 10).margin(1e-6));
    }
  }
  check_near("logits", whole.logits, shared.logits, tolerance);
  check_near("averaged logits", whole.ema_logits, shared.ema_logits, tolerance);
  PiecedTensors pieced;
  const NamedTensors own = shared.step->state(&pieced);
  CHECK(pieced.size() > 3);
  CHECK((rank > 0 ? own.empty() : own.size() + pieced.size() == expected.size()));
  for (const auto& [name, tensor] : own) check_near(name, expected.at(name), tensor, tolerance);
  for (const auto& [name, tensor] : pieced) {
    CHECK(at::IntArrayRef(tensor.shape) == expected.at(name).sizes());
    for (const Piece& piece : tensor.pieces) {
      at::Tensor there = piece.values.clone();
      copy_range(there, piece.first, tensor.strides, expected.at(name));
      check_near(name, there, piece.values, tolerance);
    }
  }
  CHECK(FreeableStorage::bytes_now() == 0);
  // The factored second moments of adafactor are not sharded.
  CHECK(shared.step->memory().state < whole.step->memory().state * 2 / 3);
}

// Weights that rank 0 reads from a file reach the parts of all ranks, and no rank ever holds a
// whole unit.
void check_weights_go_out(Group& group) {
  Run run({"vit", kVit, "optax_name: sgd"}, kStrategies[2], group, /*steps=*/0);
  const std::set<std::string> sharded = run.step->sharded_parameters();
  CHECK(sharded.contains("Transformer/encoderblock_0/MlpBlock_0/Dense_0/kernel"));
  CHECK_FALSE(sharded.contains("head/bias"));  // too small
  std::map<std::string, at::Tensor> values;
  for (const auto& [name, parameter] : named_parameters(*run.model))
    values[name] = at::arange(parameter.numel(), at::kFloat).reshape(parameter.sizes());
  std::set<std::string> names = sharded;
  names.erase("pos_embedding");
  PiecedTensors before, after;
  run.step->state(&before);
  int asked = 0;
  run.step->set_sharded_parameters(names, [&](const std::string& name) {
    ++asked;
    return values.at(name);
  });
  run.step->state(&after);
  CHECK(asked == (group.rank() == 0 ? std::ssize(names) : 0));
  CHECK(FreeableStorage::bytes_most() == 0);
  for (const auto& [name, tensor] : after) {
    if (!name.starts_with("params/")) continue;
    INFO(name);
    for (size_t i = 0; i < tensor.pieces.size(); ++i) {
      at::Tensor wanted = before.at(name).pieces[i].values.clone();
      const std::string own = name.substr(7);
      if (names.contains(own))
        copy_range(wanted, tensor.pieces[i].first, tensor.strides, values.at(own));
      CHECK(tensor.pieces[i].values.equal(wanted));
    }
  }
}

// A measured step computes the digest of its state while the ranks compare their states, and not
// any more.
void check_digests(Group& group) {
  Run run(cases().front(), "replicate", group, /*steps=*/0);
  for (const int64_t step : {1, 2}) {
    if (step == 2) run.step->stop_comparing();
    CHECK(run.step->compares_states() == (step == 1));
    run.step->run(step, batch_of(step, group.rank()), true);
    const int64_t digest = run.step->digest();
    run.step->params().data().view(at::kInt).select(0, 0).bitwise_xor_(1);
    const bool is_of_step = run.step->digest() == digest;
    CHECK(is_of_step == (step == 1));
  }
}

// The running statistics of batch norm are equal on all ranks, and the digest shows if they are not
// any more.
void check_buffers(Group& group) {
  const auto equal = [&](const Run& run) {
    const int64_t digest = run.step->digest();
    const std::vector<int64_t> most = group.all_max(std::array{digest, ~digest}, "digest");
    return most[0] == ~most[1];
  };
  for (const std::string strategy : {"replicate", "zero2"}) {
    Run run(cases().back(), strategy, group, /*steps=*/0);
    for (const int64_t step : {1, 2}) run.step->run(step, batch_of(step, group.rank()), false);
    CHECK(equal(run));
    for (const auto& [name, buffer] : named_buffers(*run.model))
      if (group.rank() == 1 && name == "prep/norm/var") buffer.view(at::kInt)[0].bitwise_xor_(1);
    CHECK_FALSE(equal(run));
  }
}

}  // namespace

// One rank. The test below runs it in separate processes.
TEST_CASE("sharding worker", "[.]") {
  const EnvironmentMap environment = environment_map();
  const auto group = Group::join(find_rank_layout({}, environment), group_options(environment));
  REQUIRE(group->size() == kRanks);
  check_weights_go_out(*group);
  check_digests(*group);
  check_buffers(*group);
  for (const ShardingCase& c : cases()) {
    Run whole(c, "replicate", *group);
    CHECK_FALSE(whole.step->sharded());
    const NamedTensors expected = whole.step->state();
    for (const std::string& strategy : kStrategies) {
      INFO(c.model << " {" << c.keys << "} " << c.optimizer << ", " << strategy);
      Run shared(c, strategy, *group);
      CHECK(shared.step->sharded());
      check_same(whole, shared, expected, group->rank(), c.tolerance);
    }
  }
  group->finish();
}

TEST_CASE("every optimizer and model under every sharding strategy matches replicate") {
  const std::string port = std::to_string(free_port());
  std::vector<Process> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back("/proc/self/exe", std::vector<std::string>{"test_train", "sharding worker"},
                       Environment{{"RANK", std::to_string(rank)},
                                   {"WORLD_SIZE", std::to_string(kRanks)},
                                   {"LOCAL_RANK", std::to_string(rank)},
                                   {"LOCAL_WORLD_SIZE", std::to_string(kRanks)},
                                   {"MASTER_ADDR", "127.0.0.1"},
                                   {"MASTER_PORT", port},
                                   {"OMP_NUM_THREADS", "1"}});
  }
  for (Process& rank : ranks) {
    const Finished finished = rank.wait(900);
    INFO(finished.out << finished.err);
    CHECK(finished.code == 0);
  }
}

}  // namespace bv::test
