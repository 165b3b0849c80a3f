// The requirements of a graph on forward and backward: they call the same operators with the same
// numbers in each step, and copy nothing between the host and the device. Also the order of runs,
// capture and replays of whole steps, with a recorder for the CPU. Whole steps as graphs of an
// emulated GPU are in test/cuda.
#include "lib/train/step/step_graph.h"

#include <ATen/ops/ones.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <new>
#include <set>

#include "lib/device/plain_kernels.h"
#include "lib/util/text.h"
#include "test/support/host_reads.h"
#include "test/support/operator_trace.h"
#include "test/support/process.h"
#include "test/support/sockets.h"
#include "test/support/tiny_model.h"

namespace bv::test {
namespace {

constexpr int64_t kClasses = 7, kSize = 32;

// Runs forward and backward of a model. The meta device stands for a GPU. There it runs forward
// only, because LibTorch has no backward of layer_norm for that device.
class ModelStep {
 public:
  ModelStep(c10::Device device, const std::string& name, const std::string& keys,
            const std::string& task_keys, Precision precision)
      : precision_(precision) {
    const auto guard = device.is_meta() ? std::make_unique<MetaDevice>() : nullptr;
    model = Model::Registry::make(name, parse_config(keys, "m.yaml"), Place(),
                                  ModelEnv{kClasses, kSize, kSize, 3});
    const bool sigmoid = task_keys.find("pos_weight") != std::string::npos;
    task_ = Task::Registry::make("classify", parse_config(task_keys, "t.yaml"), {},
                                 {.loss_name = sigmoid ? "sigmoid_xent" : "softmax_xent",
                                  .label_smoothing = 0.1,
                                  .num_classes = kClasses});
    init_parameters(*model, 1, std::nullopt);
    const auto there = at::TensorOptions(at::kFloat).device(device);
    batch_ = {{"image", at::ones({4, kSize, kSize, 3}, there)},
              {"labels", at::ones({4, kClasses}, there)}};
  }
  void run(int64_t step) const {
    Pass pass;
    pass.train = true;
    pass.precision = precision_;
    pass.step = step;
    task_->weight(batch_);
    const at::Tensor loss = task_->loss(*model, batch_, pass);
    if (!loss.is_meta()) loss.backward();
  }
  std::shared_ptr<Model> model;

 private:
  const Precision precision_;
  std::unique_ptr<Task> task_;
  Batch batch_;
};

std::vector<std::string> calls_of(const ModelStep& step, int64_t number) {
  const OperatorTrace trace;
  step.run(number);
  return trace.lines();
}

struct GraphCase {
  std::string model, keys, task_keys = "{}";
};

// Replays the work by calling it, as a device would replay its kernels.
class CallingRecorder : public GraphRecorder {
 public:
  struct Counts {
    int runs = 0, records = 0, replays = 0;
  };
  // record() calls `fault`, which throws.
  explicit CallingRecorder(Counts& counts, std::function<void()> fault = {})
      : counts_(counts), fault_(std::move(fault)) {}
  void run(const std::function<void()>& work) override {
    ++counts_.runs;
    work();
  }
  std::unique_ptr<DeviceGraph> record(const std::function<void()>& work) override {
    ++counts_.records;
    if (fault_) fault_();
    return std::make_unique<Graph>(counts_, work);
  }

 private:
  class Graph : public DeviceGraph {
   public:
    Graph(Counts& counts, std::function<void()> work) : counts_(counts), work_(std::move(work)) {}
    void replay() override {
      ++counts_.replays;
      work_();
    }

   private:
    Counts& counts_;
    const std::function<void()> work_;
  };
  Counts& counts_;
  const std::function<void()> fault_;
};

void not_permitted() { throw std::runtime_error("not permitted\nException raised from here"); }

void check_equal_states(TrainStep& a, TrainStep& b) {
  const NamedTensors left = a.state(), right = b.state();
  REQUIRE(left.size() == right.size());
  for (const auto& [name, tensor] : left) {
    INFO(name);
    CHECK(tensor.equal(right.at(name)));
  }
}

const std::string kGraphKeys =
    "{optax_name: scale_by_adam, lr: 0.01, wd: 0.001, grad_clip_norm: 1.0, mixup: {p: 0.2}, "
    "ema: {decay: 0.9}, grad_accum_steps: 2, schedule: {decay_type: cosine, warmup_steps: 3}}";

}  // namespace

TEST_CASE("forward and backward of every model can be repeated as they are") {
  use_plain_kernels();  // what runs on a GPU
  for (const GraphCase& which : std::vector<GraphCase>{
           {"vit", "{variant: mu/8, depth: 2, dropout: 0.1, rep_size: true}"},
           {"vit",
            "{variant: mu/8, depth: 2, pool_type: tok, posemb: sincos2d, dtype_mm: bfloat16}"},
           {"vit",
            "{variant: mu/8, depth: 2, pool_type: map, scan: true, remat_policy: nothing_saveable}",
            "{class_weights: [1, 2, 3, 4, 5, 6, 7]}"},
           {"mlp_mixer",
            "{patch_size: [8, 8], num_blocks: 2, hidden_dim: 16, tokens_mlp_dim: 12, "
            "channels_mlp_dim: 24, stoch_depth: 0.5}"},
           {"bit", "{width: 0.5, depth: [2, 1]}"},
           {"bit_paper", "{width: 0.5, depth: [2, 1]}"},
           {"flexi_vit",
            "{variant: mu, patch_size: [8, 8], posemb_size: [3, 3], seqhw: 5, posemb: sincos2d}"},
           {"cnn", "{dropout: 0.5}"},
           {"cnn", "{}", "{pos_weight: [1, 2, 3, 4, 5, 6, 7]}"},
           {"resnet_cifar", "{width: 16}"},
           {"resnet_cifar",
            "{whitening: 8, widths: [16, 32], blocks: [0, 1], stage_convs: 2, identity_init: "
            "true}"}}) {
    for (const c10::Device device : {c10::kCPU, c10::kMeta}) {
      for (const Precision precision : {Precision::float32, Precision::bf16}) {
        INFO(which.model << " " << which.keys << " " << device.str()
                         << (precision == Precision::bf16 ? " bf16" : ""));
        const ModelStep step(device, which.model, which.keys, which.task_keys, precision);
        CHECK(step.model->varies().empty());
        step.run(1);
        step.run(2);
        const HostReads reads;
        const auto third = calls_of(step, 3), fourth = calls_of(step, 4);
        CHECK(reads.count() == 0);
        CHECK(third.size() > 20);
        const auto [one, other] =
            std::mismatch(third.begin(), third.end(), fourth.begin(), fourth.end());
        INFO("call " << one - third.begin() << ": " << (one == third.end() ? "" : *one) << " and "
                     << (other == fourth.end() ? "" : *other));
        CHECK((one == third.end() && other == fourth.end()));
      }
    }
  }
}

TEST_CASE("a model that draws another patch size in each step says so") {
  const ModelStep step(c10::kMeta, "flexi_vit",
                       "{variant: mu, patch_size: [8, 8], posemb_size: [3, 3], flexi: {seqhw: {v: "
                       "[2, 3, 4, 5]}}}",
                       "{}", Precision::float32);
  CHECK(step.model->varies() == "model.flexi draws another patch size in each step");
  // The test above would detect it.
  std::set<std::vector<std::string>> all;
  for (int64_t i = 1; i <= 12; ++i) all.insert(calls_of(step, i));
  CHECK(all.size() > 1);
}

TEST_CASE("steps that are repeated as a graph train as steps without one") {
  TinyRun plain(kGraphKeys, /*dropout=*/0.3), graph(kGraphKeys, 0.3);
  CallingRecorder::Counts counts;
  CHECK(graph.step->use_graph(std::make_unique<CallingRecorder>(counts)).empty());
  CHECK_FALSE(plain.step->graph_is_due());
  CHECK_FALSE(plain.step->repeats_graph());
  for (int64_t i = 1; i <= 8; ++i) {
    CHECK(graph.step->graph_is_due() == (i <= 3));
    plain.run(i, i);
    graph.run(i, i);
    CHECK(graph.step->measurements(i) == plain.step->measurements(i));
  }
  check_equal_states(*graph.step, *plain.step);
  CHECK(counts.runs == 2);
  CHECK(counts.records == 1);
  CHECK(counts.replays == 6);
  CHECK(graph.step->repeats_graph());
  CHECK(graph.step->example_flops() == plain.step->example_flops());
  // Another size of the batch needs another graph.
  for (int64_t i = 9; i <= 12; ++i)
    for (const TinyRun* run : {&plain, &graph}) run->step->run(i, tiny_batch(i, 4), true);
  check_equal_states(*graph.step, *plain.step);
  CHECK(counts.runs == 4);
  CHECK(counts.records == 2);
  CHECK(counts.replays == 8);
  // Training continues from a loaded checkpoint.
  const NamedTensors saved = plain.step->state();
  plain.run(13, 15);
  graph.run(13, 14);
  graph.step->load_state(saved);
  graph.run(13, 15);
  check_equal_states(*graph.step, *plain.step);
}

TEST_CASE("steps that cannot be recorded go on without a graph") {
  TinyRun plain(kGraphKeys, /*dropout=*/0.3), graph(kGraphKeys, 0.3);
  CallingRecorder::Counts counts;
  graph.step->use_graph(std::make_unique<CallingRecorder>(counts, not_permitted));
  plain.run(1, 6);
  graph.run(1, 6);
  check_equal_states(*graph.step, *plain.step);
  CHECK(counts.records == 1);
  CHECK_FALSE(graph.step->graph_is_due());
  CHECK_FALSE(graph.step->repeats_graph());
}

// One rank. The test below runs it in separate processes. $GRAPH_FAULTS has one word per rank:
// none, error or memory.
TEST_CASE("graph worker", "[.]") {
  const EnvironmentMap environment = environment_map();
  const auto group = Group::join(find_rank_layout({}, environment), group_options(environment));
  const auto rank = static_cast<size_t>(group->rank());
  const std::string fault = split(environment.at("GRAPH_FAULTS"), ' ').at(rank);
  CallingRecorder::Counts counts;
  auto recorder = fault == "none" ? std::make_unique<CallingRecorder>(counts)
                  : fault == "error"
                      ? std::make_unique<CallingRecorder>(counts, not_permitted)
                      : std::make_unique<CallingRecorder>(counts, [] { throw std::bad_alloc(); });
  StepGraph graph(std::move(recorder), *group, [](const Batch&) { return StepResult{}; });
  const auto end = [](Exit code, const std::string& line) {
    std::fprintf(stderr, "%s\n", line.c_str());
    abort_group(code, line);
  };
  try {
    for (int64_t step = 1; step <= 3; ++step) graph.run(step, tiny_batch(step));
  } catch (const Error& error) {
    end(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    end(Exit::memory, "error: out of memory");
  }
  FAIL("no error");
}

TEST_CASE("a rank that cannot record its step ends with its own code, and the others with 7") {
  struct Scene {
    std::string faults;
    int codes[2];
    std::vector<Process> ranks = {};
  };
  std::vector<Scene> scenes;
  scenes.push_back({"none error", {7, 1}});
  scenes.push_back({"none memory", {7, 6}});
  scenes.push_back({"error error", {2, 2}});
  scenes.push_back({"memory error", {6, 1}});
  for (Scene& scene : scenes) {
    const std::string port = std::to_string(free_port());
    for (int rank = 0; rank < 2; ++rank)
      scene.ranks.emplace_back("/proc/self/exe",
                               std::vector<std::string>{"test_train", "graph worker"},
                               Environment{{"RANK", std::to_string(rank)},
                                           {"WORLD_SIZE", "2"},
                                           {"LOCAL_RANK", std::to_string(rank)},
                                           {"LOCAL_WORLD_SIZE", "2"},
                                           {"MASTER_ADDR", "127.0.0.1"},
                                           {"MASTER_PORT", port},
                                           {"GRAPH_FAULTS", scene.faults},
                                           {"BVTRAIN_HEARTBEAT", "0.2"},
                                           {"OMP_NUM_THREADS", "1"}});
  }
  for (Scene& scene : scenes) {
    const Finished first = scene.ranks[0].wait(60), second = scene.ranks[1].wait(60);
    INFO(scene.faults << ": " << first.err << second.err);
    CHECK(first.code == scene.codes[0]);
    CHECK(second.code == scene.codes[1]);
    const std::string own =
        "graph: error: step 3 cannot be captured as a CUDA graph: not permitted";
    CHECK((second.err.find(own) != std::string::npos) == scene.faults.ends_with("error"));
    if (first.code == 7)
      CHECK_THAT(first.err,
                 Catch::Contains(fmt::format(") ended with exit code {}: ", scene.codes[1])));
  }
}

}  // namespace bv::test
