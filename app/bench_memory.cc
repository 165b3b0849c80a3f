// bvtrain bench memory: prints what lib/bench/memory.h measures.
#include "lib/bench/memory.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/bench.h"
#include "app/json_output.h"
#include "lib/config/load_config.h"
#include "lib/device/devices.h"
#include "lib/report/log.h"
#include "lib/report/log_warnings.h"
#include "lib/util/text.h"

namespace bv {
namespace {

void print_memory(const MemoryNeeds& needs, const std::string& device) {
  const auto line = [](const char* what, double bytes) {
    std::printf("%-28s %12s\n", what, human_bytes(bytes).c_str());
  };
  line("parameters", static_cast<double>(needs.state.parameters));
  line("gradients", static_cast<double>(needs.state.gradients));
  line("optimizer state, averages", static_cast<double>(needs.state.state));
  if (needs.checkpoints > 0) line("copies for checkpoints", needs.checkpoints);
  line("other", needs.other);
  line("each example", needs.example);
  line(("available on " + device).c_str(), needs.available);
  std::printf("largest batch: %ld%s\n", static_cast<long>(needs.largest),
              needs.tried ? "" : ", extrapolated from smaller ones");
}

nlohmann::ordered_json memory_json(const MemoryNeeds& needs) {
  nlohmann::ordered_json peaks = nlohmann::ordered_json::array();
  for (const auto& [batch, bytes] : needs.peaks)
    peaks.push_back({{"batch", batch}, {"bytes", bytes}});
  return {{"parameter_bytes", needs.state.parameters},
          {"gradient_bytes", needs.state.gradients},
          {"state_bytes", needs.state.state},
          {"checkpoint_bytes", needs.checkpoints},
          {"other_bytes", needs.other},
          {"example_bytes", needs.example},
          {"available_bytes", needs.available},
          {"largest_batch", needs.largest},
          {"tried", needs.tried},
          {"peaks", peaks}};
}

// Returns how many steps a run with this batch has, so that a warm-up, a profile and the like,
// which need not be measured, are as much within the run as they are in that of `length`: as many
// examples, but not fewer steps.
int64_t steps_of(const RunLength& length, int64_t batch) {
  const double longer = static_cast<double>(length.batch_size) / static_cast<double>(batch);
  const double steps = static_cast<double>(length.total_steps) * std::max(longer, 1.0);
  return std::max(length.total_steps, static_cast<int64_t>(std::ceil(std::min(steps, 0x1p53))));
}

}  // namespace

Exit bench_memory(const Arguments& arguments) {
  if (arguments.config.empty())
    throw Error(Exit::usage, "bvtrain bench memory", "no --config given; give --config FILE");
  const c10::Device device = use_one_device(arguments.devices, "bench memory");
  const Config given = load_config(arguments.config, arguments.overrides);
  const Recipe shapes(given, arguments.synthetic, /*meta=*/true, Group::single(), device);
  log_warnings(given);
  const auto recipe_of = [&](int64_t batch) {
    std::vector<Override> overrides = arguments.overrides;
    const auto set = [&](const char* key, const std::string& value) {
      overrides.push_back({key, value, "bench memory"});
    };
    set("input.batch_size", std::to_string(batch));
    set("total_epochs", "null");
    set("total_examples", "null");
    set("total_steps", std::to_string(steps_of(shapes.length, batch)));
    return std::make_unique<Recipe>(load_config(arguments.config, overrides), arguments.synthetic,
                                    /*meta=*/false, Group::single(), device);
  };
  const int64_t examples = shapes.length.data_size;
  const MemoryNeeds needs = measure_memory(recipe_of, device, shapes.grad_accum_steps, examples);
  if (arguments.json)
    print_json(memory_json(needs));
  else
    print_memory(needs, device.str());
  if (needs.largest + shapes.grad_accum_steps > examples)
    log::info("The data set has only {} examples, which limits the batch; --synthetic has more",
              human_count(examples));
  return Exit::ok;
}

}  // namespace bv
