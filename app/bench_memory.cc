// bvtrain bench memory: prints what lib/bench/memory.h measures.
#include "lib/bench/memory.h"

#include <cstdio>

#include "app/bench.h"
#include "app/json_output.h"
#include "lib/config/load_config.h"
#include "lib/device/devices.h"
#include "lib/report/log.h"
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
          {"other_bytes", needs.other},
          {"example_bytes", needs.example},
          {"available_bytes", needs.available},
          {"largest_batch", needs.largest},
          {"tried", needs.tried},
          {"peaks", peaks}};
}

}  // namespace

Exit bench_memory(const Arguments& arguments) {
  if (arguments.config.empty())
    throw Error(Exit::usage, "bvtrain bench memory", "no --config given; give --config FILE");
  const c10::Device device = use_one_device(arguments.devices, "bench memory");
  const Config given = load_config(arguments.config, arguments.overrides);
  const Recipe shapes(given, arguments.synthetic, /*meta=*/true, Group::single(), device);
  for (const std::string& text : warnings(given)) log::warn("{}", text);
  const auto recipe_of = [&](int64_t batch) {
    std::vector<Override> overrides = arguments.overrides;
    overrides.push_back({"input.batch_size", std::to_string(batch), "bench memory"});
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
    log::info("The data set has no more than {} examples; --synthetic has more",
              human_count(examples));
  return Exit::ok;
}

}  // namespace bv
