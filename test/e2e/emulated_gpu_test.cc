// Runs with --devices cuda on emulated GPUs (test/emulated_cuda): the real binary, with a plug-in
// whose devices are parts of the host's memory.
#include <ATen/ops/arange.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/npz.h"
#include "test/support/compare.h"
#include "test/support/digits_run.h"
#include "test/support/sockets.h"

namespace bv::test {
namespace {

using Values = std::vector<std::string>;  // of --set

// Images are copied as bytes and mixed by a kernel; dropout, clipping and averages follow.
const Values kCnn = {"model={widths: [8, 16], dense: 32, dropout: 0.3}",
                     "mixup={p: 0.3}",
                     "wd=0.001",
                     "grad_clip_norm=1.0",
                     "schedule={decay_type: cosine, warmup_steps: 4}",
                     "ema={decay: 0.9}",
                     "evals.test.ema=true"};
// Sharded weights, micro-batches, and an optimizer that works on whole parameters.
const Values kVit = {
    "model_name=vit",
    "model={variant: mu/4, depth: 2}",
    "optax_name=scale_by_adafactor",
    "optax={clipping_threshold: 1.0}",
    "sharding_strategy=[['.*', 'fsdp(axis=\"data\", min_size_to_shard_mb=0.001)']]",
    "grad_accum_steps=2"};
// Batch norm over the ranks; steps are checked before their update, which is not part of the graph.
const Values kResnet = {"model_name=resnet_cifar", "model={width: 16}", "nan=skip", "nan_limit=2",
                        "optax_name=momentum_hp"};

struct GpuRun : DigitsRun {
  GpuRun()
      : DigitsRun(
            digits_config("lr: 0.003\nevals:\n" + digits_evaluator("test", {"log_steps: 4"}))) {}

  static Process start(std::vector<std::string> arguments, Environment environment = {}) {
    const std::string binary = std::getenv("BVTRAIN");
    const std::string folder = binary.substr(0, binary.rfind('/')) + "/emulated_cuda";
    arguments.insert(arguments.begin(), folder + "/bvtrain");
    environment.insert(environment.end(),
                       {{"LD_LIBRARY_PATH", folder}, {"BVTRAIN_EMULATED_GPUS", "2"}});
    return {arguments[0], arguments, environment};
  }
  std::vector<std::string> on(const std::string& devices, const Values& values) const {
    std::vector<std::string> flags = {"--devices", devices};
    for (const std::string& value : values) flags.insert(flags.end(), {"--set", value});
    return args(flags);
  }
  Finished train_on(const std::string& devices, const Values& values) const {
    Finished finished = start(on(devices, values)).wait();
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return finished;
  }
};

Values operator+(Values values, const std::string& one) {
  values.push_back(one);
  return values;
}

void check_same_runs(const GpuRun& a, const GpuRun& b) {
  CHECK(repeatable_rows(a.workdir) == repeatable_rows(b.workdir));
  CHECK(same_bits(Checkpointer::load(a.workdir).tensors, Checkpointer::load(b.workdir).tensors));
}

}  // namespace

TEST_CASE("steps that a GPU repeats as a graph have the bits of steps without one") {
  for (const Values& values : {kCnn, kVit, kResnet}) {
    for (const std::string devices : {"cuda:0", "cuda:all"}) {
      if (devices == "cuda:0" && values == kVit) continue;  // one GPU shards nothing
      INFO(values[0] << " on " << devices);
      const GpuRun graph, plain;
      CHECK_THAT(graph.train_on(devices, values + "total_steps=6").err,
                 Catch::Contains("step 3 was captured as a CUDA graph"));
      CHECK_THAT(plain.train_on(devices, values + "total_steps=6" + "graph=off").err,
                 Catch::Contains("Steps run without a CUDA graph: graph: off"));
      check_same_runs(graph, plain);
      CHECK(exists(graph.step(6) + "/state-00001-of-00002.safetensors") == (values == kVit));
    }
  }
}

TEST_CASE("a run on GPUs that was killed goes on with the same bits") {
  const GpuRun whole, killed;
  const Values values = kCnn + "total_steps=40";
  whole.train_on("cuda:all", values);
  {
    const Process first =
        GpuRun::start(killed.on("cuda:all", values), {{"BVTRAIN_SLEEP_AT", "step.rank0:12:60"}});
    REQUIRE(wait_for_file(killed.step(10)));
    first.kill(SIGKILL);
  }
  CHECK_THAT(killed.train_on("cuda:all", values).err,
             Catch::Contains("Resuming training from checkpoint " + killed.workdir));
  check_same_runs(whole, killed);
}

TEST_CASE("a run on a GPU has the numbers of one on the CPU, and so have its other commands") {
  const GpuRun gpu, cpu;
  const Values values = kCnn + "precision=float32" + "total_steps=10" + "optax={eps: 0.01}";
  gpu.train_on("cuda:0", values);
  cpu.train_on("cpu", values);
  const std::vector<TextRow> a = metric_rows(gpu.workdir), b = metric_rows(cpu.workdir);
  CHECK(std::stod(a.back().at("memory_gb/sec")) > 0);
  CHECK_FALSE(b.back().contains("memory_gb/sec"));
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    for (const std::string name : {"training_loss", "l2_params", "l2_updates", "test/loss"}) {
      INFO(name << " of row " << i);
      REQUIRE(a[i].contains(name) == b[i].contains(name));
      if (a[i].contains(name))
        CHECK(std::stod(a[i].at(name)) == Approx(std::stod(b[i].at(name))).epsilon(1e-3));
    }
  }
  const auto command = [&](std::vector<std::string> arguments) {
    const Finished finished = GpuRun::start(std::move(arguments)).wait();
    INFO(finished.err);
    CHECK(finished.code == 0);
    return finished;
  };
  command({"eval", "--workdir", gpu.workdir, "--devices", "cuda:1"});
  CHECK(repeatable_rows(gpu.workdir + "/eval").back().at("test/loss") == a.back().at("test/loss"));
  write_npz(gpu.dir / "images.npz",
            {{"image", at::arange(5 * 64).mul(5).remainder(256).to(at::kByte).view({5, 8, 8, 1})}});
  for (const std::string device : {"cuda:0", "cpu"})
    command({"predict", "--workdir", gpu.workdir, "--input", gpu.dir / "images.npz", "--output",
             gpu.dir / (device.substr(0, 3) + ".npz"), "--devices", device});
  CHECK(close(read_npz(gpu.dir / "cud.npz").at("logits"),
              read_npz(gpu.dir / "cpu.npz").at("logits"), 1e-4, 1e-4));
  CHECK_THAT(command({"bench", "operators", "--config", gpu.config, "--devices", "cuda:0"}).out,
             Catch::Contains("aten::addmm") && Catch::Contains("optimizer"));
  CHECK_THAT(command({"bench", "memory", "--config", gpu.config, "--devices", "cuda:0"}).out,
             Catch::Contains("available on cuda:0") && Catch::Contains("largest batch:"));
}

TEST_CASE("a GPU that fails while a collective is in flight ends the run with its own error") {
  const GpuRun run;
  // The third all-gather fetches the weights of the second block while the first one computes.
  const Values values = {"model_name=vit",
                         "model={variant: mu/4, depth: 2}",
                         "sharding_strategy=[['.*', 'fsdp(axis=\"data\", "
                         "min_size_to_shard_mb=0.001)']]",
                         "total_steps=2",
                         "graph=off",
                         "evals=null"};
  const Finished finished =
      GpuRun::start(run.on("cuda:all", values), {{"BVTRAIN_EMULATED_FAULT", "0:3"}}).wait();
  INFO(finished.err);
  CHECK(finished.code == 1);
  CHECK_THAT(finished.err,
             Catch::Contains("\nerror: CUDA error: an illegal memory access was encountered\n"));
}

TEST_CASE("a GPU that computes a kernel wrongly while another one does not ends the run") {
  const GpuRun run;
  const Values values =
      kVit + "sharding_strategy=replicate" + "precision=bf16" + "total_steps=4" + "evals=null";
  const std::string port = std::to_string(free_port());
  std::vector<Process> ranks;
  for (const std::string rank : {"0", "1"}) {
    Environment environment = {{"RANK", rank},
                               {"WORLD_SIZE", "2"},
                               {"LOCAL_RANK", rank},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", port}};
    if (rank == "1") environment.emplace_back("BVTRAIN_EMULATED_WRONG_EPILOGUES", "1");
    ranks.push_back(GpuRun::start(run.on("cuda", values), environment));
  }
  for (const int rank : {0, 1}) {
    const Finished finished = ranks[static_cast<size_t>(rank)].wait();
    INFO(finished.err);
    CHECK(finished.code == (rank == 1 ? 1 : 7));
    CHECK_THAT(finished.err,
               Catch::Contains("[train] the fused kernel for dense layers is wrong on rank 1 (") &&
                   Catch::Contains(
                       ", emulated GPU) but right on other GPUs of the same kind: a faulty GPU"));
  }
}

TEST_CASE("GPUs that all hang while the host launches a step end the run after the step time-out") {
  const GpuRun run;
  const Values values = kCnn + "graph=off" + "evals=null" + "total_steps=100000";
  // The start has about ten collectives on the devices, and each step about two.
  const Environment hang = {{"BVTRAIN_EMULATED_HANG", "60"},
                            {"BVTRAIN_STEP_TIMEOUT", "4"},
                            {"BVTRAIN_HEARTBEAT", "0.2"},
                            {"BVTRAIN_SILENCE", "15"}};
  const Finished finished = GpuRun::start(run.on("cuda:all", values), hang).wait();
  INFO(finished.err);
  CHECK(finished.code == 7);
  CHECK_THAT(finished.err,
             Catch::Contains("[distributed] no rank has made progress for") &&
                 Catch::Contains(
                     "and this one waits for its device: does a device or a collective hang?"));
}

TEST_CASE("a run finds out that a fused kernel is wrong, says so, and trains without it") {
  const Values values =
      kVit + "sharding_strategy=replicate" + "precision=bf16" + "total_steps=4" + "evals=null";
  const GpuRun wrong, right;
  // The product that should add a bias omits it.
  const Environment broken = {{"BVTRAIN_EMULATED_WRONG_EPILOGUES", "1"}};
  const Finished finished = GpuRun::start(wrong.on("cuda:0", values), broken).wait();
  CHECK(finished.code == 0);
  CHECK_THAT(finished.err,
             Catch::Contains("warning: the fused kernel for dense layers differs from LibTorch's "
                             "operators on cuda:0, so LibTorch's are used"));
  CHECK(right.train_on("cuda:0", values).err.find("fused kernel") == std::string::npos);
  const std::vector<TextRow> a = metric_rows(wrong.workdir), b = metric_rows(right.workdir);
  CHECK(std::stod(a.back().at("training_loss")) ==
        Approx(std::stod(b.back().at("training_loss"))).epsilon(1e-2));
}

TEST_CASE("bench memory finds the largest batch of a GPU, and a larger one ends with exit code 6") {
  const GpuRun run;
  const Environment small = {{"BVTRAIN_EMULATED_GPU_MIB", "4"}};
  const Finished memory =
      GpuRun::start({"bench", "memory", "--config", run.config, "--devices", "cuda:0", "--json"},
                    small)
          .wait();
  INFO(memory.err);
  REQUIRE(memory.code == 0);
  const auto largest = nlohmann::json::parse(memory.out).at("largest_batch").get<int64_t>();
  REQUIRE(largest > 64);
  REQUIRE(largest < 550);
  const auto train = [&](int64_t batch) {
    const Values values = {fmt::format("input.batch_size={}", batch), "total_steps=4",
                           "evals=null"};
    return GpuRun::start(GpuRun().on("cuda:0", values), small).wait();
  };
  const Finished fits = train(largest), too_large = train(largest * 5 / 2);
  INFO(fits.err << too_large.err);
  CHECK(fits.code == 0);
  CHECK(too_large.code == 6);
  CHECK_THAT(too_large.err, Catch::Contains("out of memory"));
}

}  // namespace bv::test
