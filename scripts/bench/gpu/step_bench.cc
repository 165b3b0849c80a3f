// step_bench --KEY VALUE...: measures one training step without a loader, on a batch in device
// memory, pinned or pageable memory. Prints a line each for
//   step      images per second (median, min and max of some rounds), model FLOPs utilisation
//   twice     whether runs of --twice steps are bit-identical: two without a CUDA graph, one with
//   state()   how long a checkpoint's snapshot stops the training, with --state 1
//   profile   the time of the kernels of --profile steps, or on a CPU of the operators, by name
// With --products 1 it prints the times of products instead (product_times.h). gpu.sh calls it. The
// keys and their defaults are below.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>

#include "lib/config/load_config.h"
#include "lib/device/cuda.h"
#include "lib/device/deterministic.h"
#include "lib/device/device_graph.h"
#include "lib/device/heap.h"
#include "lib/device/large_blocks.h"
#include "lib/distributed/group.h"
#include "lib/params/host_copies.h"
#include "lib/train/step/step.h"
#include "lib/util/error.h"
#include "scripts/bench/gpu/product_times.h"

using namespace bv;

namespace {

std::map<std::string, std::string> g_args = {
    {"device", "cuda"},
    {"name", ""},  // of the line; empty: model and keys
    {"model", "vit"},
    {"keys", "{variant: B/16}"},  // of `model`
    {"size", "224"},
    {"channels", "3"},
    {"classes", "1000"},
    {"batch", "256"},
    {"precision", "bf16"},
    {"loss", "softmax_xent"},
    {"train", "{optax_name: scale_by_adam, lr: 0.001, wd: 0.0001, grad_clip_norm: 1.0}"},
    {"feed", "device"},         // where the batch is: device, pinned or pageable
    {"sdpa", "default"},        // attention: default, flash or cudnn
    {"deterministic", "true"},  // as the key of a config
    {"graph", "auto"},          // the same
    {"seconds", "4"},           // of each round
    {"rounds", "3"},
    {"every", "0"},  // how often a step is measured, as with log_training_steps; 0: never
    {"profile", "0"},
    {"shapes", "0"},  // 1: `profile` on a CPU counts each shape of an operator separately
    {"twice", "0"},
    {"products", "0"},
    {"state", "0"},
    {"tflops", "989"}};  // the device's peak, for the utilisation

const std::string& text(const char* key) { return g_args.at(key); }
int64_t number(const char* key) { return std::stoll(text(key)); }

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Run {
  Run(c10::Device device, bool graph) {
    const Config keys = parse_config(text("keys"), "--keys");
    model = Model::Registry::make(
        text("model"), keys, Place(),
        ModelEnv{number("classes"), number("size"), number("size"), number("channels")});
    throw_problems(keys);
    task = Task::Registry::make("classify", Config(), {}, {.loss_name = text("loss")});
    const Config config = parse_config(text("train"), "--train");
    StepConfig options = read_step(config, *model, {.total_steps = 100'000});
    config.done();
    throw_problems(config);
    const Precision precision = text("precision") == "bf16" ? Precision::bf16 : Precision::float32;
    step = std::make_unique<TrainStep>(*model, *task, std::move(options), 3, precision,
                                       Group::single(), parameter_init(*model, 1, std::nullopt),
                                       device);
    if (!graph || device.is_cpu()) return;
    if (const std::string why = step->use_graph(cuda_graph_recorder(device)); !why.empty())
      std::fprintf(stderr, "warning: no CUDA graph: %s\n", why.c_str());
  }
  void once(const Batch& batch, bool measure = false) {
    step->run(step->count() + 1, batch, measure);
  }
  std::shared_ptr<Model> model;
  std::unique_ptr<Task> task;
  std::unique_ptr<TrainStep> step;
};

Batch make_batch(c10::Device device) {
  const int64_t n = number("batch"), classes = number("classes"), size = number("size");
  const auto generator = at::detail::createCPUGenerator(1);
  Batch batch = {{"image", at::randn({n, size, size, number("channels")}, generator, at::kFloat)},
                 {"labels", at::one_hot(at::arange(n) % classes, classes).to(at::kFloat)}};
  for (auto& [name, value] : batch) {
    if (text("feed") == "device") value = value.to(device);
    if (text("feed") == "pinned") value = value.pin_memory();
  }
  return batch;
}

void wait_for(c10::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

// `run`: null before it has begun. It may have no graph even if one was requested.
void begin_line(const char* what, const Run* run = nullptr) {
  const bool lacks_graph = run != nullptr && text("graph") == "auto" && !run->step->repeats_graph();
  const std::string name = text("name").empty() ? text("model") + " " + text("keys") : text("name");
  std::printf("%-9s %-22s bs %-4s %s feed=%s sdpa=%s deterministic=%s graph=%s: ", what,
              name.c_str(), text("batch").c_str(), text("precision").c_str(), text("feed").c_str(),
              text("sdpa").c_str(), text("deterministic").c_str(),
              lacks_graph ? "none" : text("graph").c_str());
}

// Returns the multiply-accumulates of one image's forward pass.
double macs_of(const Run& run, const Batch& batch, c10::Device device) {
  const c10::NoGradGuard no_grad;
  double macs = 0;
  Pass pass;
  pass.precision = Precision::bf16;
  pass.macs = &macs;
  run.model->forward(batch.at("image").narrow(0, 0, 1).to(device), pass);
  return macs;
}

int compare_two_runs(const Batch& batch, c10::Device device) {
  std::array<std::vector<double>, 3> all;
  bool recorded = false;
  for (size_t i = 0; i < all.size(); ++i) {
    Run run(device, /*graph=*/i == 2);
    for (int64_t k = 0; k < number("twice"); ++k) {
      run.once(batch, true);
      for (const auto& [key, value] : run.step->measurements(run.step->count()))
        all.at(i).push_back(value);
    }
    if (i < 2 || device.is_cpu()) continue;
    recorded = run.step->repeats_graph();
  }
  const bool same = all[0] == all[1], graph = recorded && all[0] == all[2];
  const char* const text_of_graph = !recorded ? "NOT RECORDED"
                                    : graph   ? "same bits"
                                              : "DIFFERENT BITS";
  begin_line("twice");
  std::printf("%s, with a CUDA graph %s\n", same ? "same bits" : "DIFFERENT BITS",
              device.is_cpu() ? "not run" : text_of_graph);
  return same && (graph || device.is_cpu()) ? 0 : 1;
}

void measure_rate(Run& run, const Batch& batch, c10::Device device) {
  const double begun = now();
  run.once(batch);
  wait_for(device);
  const double first_step = now() - begun;
  const double macs = macs_of(run, batch, device);
  for (int i = 0; i < 3 || run.step->graph_is_due(); ++i) run.once(batch);
  wait_for(device);
  const auto images = static_cast<double>(number("batch"));
  const int64_t every = number("every");
  std::vector<double> rates;
  for (int64_t round = 0; round < number("rounds"); ++round) {
    int64_t calls = 0;
    const double begin = now();
    while (now() - begin < static_cast<double>(number("seconds")) || calls < 3) {
      ++calls;
      run.once(batch, every > 0 && calls % every == 0);
    }
    wait_for(device);
    rates.push_back(static_cast<double>(calls) * images / (now() - begin));
  }
  std::sort(rates.begin(), rates.end());
  const double rate = rates[rates.size() / 2];
  begin_line("step", &run);
  // A multiply-accumulate is 2 FLOPs, and forward plus backward take three times those of forward.
  std::printf("%.0f img/s (%.0f..%.0f) %.2f ms/step MFU %.1f%% first %.2f s\n", rate, rates.front(),
              rates.back(), 1e3 * images / rate,
              100 * rate * 6 * macs / (std::stod(text("tflops")) * 1e12), first_step);
}

// Measures how long a checkpoint stops training, which is until the copies within the GPU are done.
// The copy to the host overlaps with the next steps and ends before the next checkpoint.
void measure_state(const Run& run, c10::Device device) {
  HostCopies copies;
  double blocked = 1e9;
  for (int i = 0; i < 4; ++i) {  // the first call allocates
    copies.await();
    wait_for(device);
    const double begin = now();
    const NamedTensors state = run.step->state(nullptr, &copies);
    if (!device.is_cpu()) {
      const c10::impl::VirtualGuardImpl gpu(device.type());
      gpu.synchronizeStream(gpu.getStream(device));  // the training stream
    }
    blocked = std::min(blocked, now() - begin);
  }
  begin_line("state()", &run);
  std::printf("blocks %.1f ms\n", 1e3 * blocked);
}

const char* kind_of(const std::string& name) {
  static const std::vector<std::pair<const char*, std::vector<const char*>>> kKinds = {
      {"attention", {"flash", "fmha", "sdpa", "attention", "Attention"}},
      {"optimizer", {"update_range", "square_blocks", "add_up"}},
      {"norm",
       {"layer_norm", "LayerNorm", "GammaBeta", "group_norm", "GroupNorm", "RowwiseMoments",
        "ComputeInternal", "batch_norm", "bn_"}},
      {"conv", {"fprop", "dgrad", "wgrad", "conv", "Conv", "nchwToNhwc", "nhwcToNchw"}},
      {"gemm", {"gemm", "nvjet", "cutlass", "splitK", "cublas", "gemv"}},
      {"memcpy", {"Memcpy"}},
      {"memset", {"Memset"}},
      {"reduce", {"reduce_kernel"}},
      {"softmax", {"softmax", "SoftMax"}},
      {"cast", {"copy_kernel", "CopyFunctor", "copy_device", "bfloat16_copy", "LoadWithCast"}},
      {"gelu", {"Gelu", "gelu"}},
      {"add", {"CUDAFunctor_add", "CUDAFunctorOnSelf_add", "AddFunctor"}}};
  for (const auto& [kind, parts] : kKinds) {
    for (const char* part : parts)
      if (name.find(part) != std::string::npos) return kind;
  }
  return "other";
}

struct Sum {
  double calls = 0, ms = 0;  // a step
};

void print_longest(const char* what, const std::map<std::string, Sum>& sums, double busy,
                   size_t most) {
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, sum] : sums) order.emplace_back(-sum.ms, name);
  std::sort(order.begin(), order.end());
  if (order.size() > most) order.resize(most);
  for (const auto& [ms, name] : order) {
    std::printf("  %s %5.1f%% %8.3f ms %5.0fx %.110s\n", what, 100 * -ms / busy, -ms,
                sums.at(name).calls, name.c_str());
  }
}

// Returns the name of each GPU kernel with its nanoseconds, or of each CPU operator excluding those
// that it calls, followed by the shapes of its tensors if these were recorded.
std::vector<std::pair<std::string, double>> own_times(
    const torch::autograd::profiler::ProfilerResult& result, c10::DeviceType type) {
  struct Open {
    uint64_t end;
    size_t index;
  };
  std::vector<std::pair<std::string, double>> times;
  std::map<uint64_t, std::vector<Open>> open;  // by thread: the operators around the next one
  std::vector<const torch::autograd::profiler::KinetoEvent*> events;
  for (const auto& event : result.events())
    if (event.deviceType() == type) events.push_back(&event);
  std::stable_sort(events.begin(), events.end(), [](const auto* a, const auto* b) {
    return a->startNs() != b->startNs() ? a->startNs() < b->startNs()
                                        : a->durationNs() > b->durationNs();
  });
  for (const auto* event : events) {
    const auto length = static_cast<double>(event->durationNs());
    if (type == c10::kCPU) {
      std::vector<Open>& around = open[event->startThreadId()];
      while (!around.empty() && around.back().end <= event->startNs()) around.pop_back();
      if (!around.empty()) times[around.back().index].second -= length;
      around.push_back({event->startNs() + event->durationNs(), times.size()});
    }
    times.emplace_back(event->name(), length);
    if (event->hasShapes())
      for (const auto& shape : event->shapes())
        if (!shape.empty()) times.back().first += fmt::format(" {}", fmt::join(shape, "x"));
  }
  return times;
}

void profile(Run& run, const Batch& batch, c10::Device device) {
  namespace kineto = torch::autograd::profiler;
  using namespace torch::profiler::impl;
  const auto steps = static_cast<double>(number("profile"));
  const ProfilerConfig config(ProfilerState::KINETO, /*report_input_shapes=*/number("shapes") > 0);
  const auto type = device.type();
  const std::set<ActivityType> what = {device.is_cpu() ? ActivityType::CPU : ActivityType::CUDA};
  kineto::prepareProfiler(config, what);
  kineto::enableProfiler(config, what);
  const double begin = now();
  for (int64_t i = 0; i < number("profile"); ++i) run.once(batch);
  wait_for(device);
  const double took = now() - begin;
  const auto result = kineto::disableProfiler();
  std::map<std::string, Sum> kinds, kernels;
  double launches = 0, busy = 0;
  for (const auto& [name, nanoseconds] : own_times(*result, type)) {
    const double ms = nanoseconds * 1e-6 / steps;
    for (Sum* sum : {&kinds[kind_of(name)], &kernels[name]}) {
      sum->calls += 1 / steps;
      sum->ms += ms;
    }
    launches += 1 / steps;
    busy += ms;
  }
  begin_line("profile", &run);
  std::printf("%.0f launches/step, busy %.2f of %.2f ms/step\n", launches, busy,
              took * 1e3 / steps);
  print_longest("kind  ", kinds, busy, 20);
  print_longest("kernel", kernels, busy, 16);
}

int bench() {
  c10::Device device = c10::kCPU;
  if (text("device") == "cuda") {
    open_cuda("step_bench");
    count_cuda("step_bench");
    use_cuda(0);
    device = c10::Device(c10::kCUDA, 0);
  }
  set_deterministic(text("deterministic") == "true");
  if (text("sdpa") == "flash") at::globalContext().setSDPUseCuDNN(false);
  if (text("sdpa") == "cudnn") {
    at::globalContext().setSDPUseCuDNN(true);
    at::globalContext().setSDPUseFlash(false);
  }
  if (number("products") > 0) {
    print_product_times(device, number("batch") * 196);
    return 0;
  }
  const Batch batch = make_batch(device);
  if (number("twice") > 0) return compare_two_runs(batch, device);
  Run run(device, text("graph") == "auto");
  measure_rate(run, batch, device);
  if (number("state") > 0) measure_state(run, device);
  if (number("profile") > 0) profile(run, batch, device);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  bv::keep_freed_memory();
  bv::keep_large_tensors();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a crash loses no measured line
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i] + 2;
    if (!g_args.contains(key)) {
      std::fprintf(stderr, "step_bench: no --%s\n", key.c_str());
      return 2;
    }
    g_args[key] = argv[i + 1];
  }
  try {
    return bench();
  } catch (const c10::Error& error) {
    std::printf("FAIL      %s: %s\n", text("name").c_str(), error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::printf("FAIL      %s: %s\n", text("name").c_str(), error.what());
  }
  return 1;
}
