// Compares new models with one draw of the reference's initialisers (golden
// models/init_stats.json).
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/config/load_config.h"
#include "lib/model/model.h"
#include "test/support/golden.h"

namespace bv::test {
namespace {

// The settings of the file, as the shapes in it show.
struct Setting {
  const char* prefix;  // of the keys in the file
  const char* model;
  const char* yaml;
};
constexpr Setting kSettings[] = {
    {"vit/", "vit",
     "{variant: S, patch_size: [16, 16], depth: 1, pool_type: map, rep_size: true, head_zeroinit: "
     "false}"},
    {"mixer/", "mlp_mixer", "{variant: S/16, num_blocks: 1}"},
    {"bit/", "bit", "{depth: [1, 1]}"},
    {"bit_paper/", "bit_paper", "{depth: [1, 1], head_zeroinit: false}"},
};

TEST_CASE("every parameter starts as big_vision's does") {
  const Setting setting = GENERATE(from_range(std::begin(kSettings), std::end(kSettings)));
  const std::string prefix = setting.prefix;
  const std::string name = golden_file("models/init_stats.json");
  if (name.empty()) return;
  std::ifstream file(name);
  const nlohmann::json golden = nlohmann::json::parse(file);
  const auto model = Model::Registry::make(setting.model, parse_config(setting.yaml, setting.model),
                                           Place(), ModelEnv{100, 64, 64, 3});
  init_parameters(*model, 5, std::nullopt);
  size_t seen = 0;
  for (const auto& [path, parameter] : named_parameters(*model)) {
    INFO(prefix << path);
    REQUIRE(golden.contains(prefix + path));
    const nlohmann::json& leaf = golden[prefix + path];
    REQUIRE(parameter.sizes().vec() == leaf["shape"].get<std::vector<int64_t>>());
    const double stddev = leaf["std"], low = leaf["min"], high = leaf["max"];
    const auto n = static_cast<double>(parameter.numel());
    const at::Tensor values = parameter.detach().to(at::kDouble);
    ++seen;
    if (stddev == 0) {
      CHECK(values.equal(at::full_like(values, leaf["mean"].get<double>())));
      continue;
    }
    // Both are random draws: the standard error of their difference is sqrt(2) times that of one.
    const double std_error = stddev / std::sqrt(2 * n), mean_error = stddev / std::sqrt(n);
    CHECK(std::abs(values.std().item<double>() - stddev) / std_error <= 3 * std::sqrt(2.0));
    CHECK(std::abs(values.mean().item<double>() - leaf["mean"].get<double>()) / mean_error <= 6);
    // Bounded distributions come close to their bounds in a large draw; a normal one may differ
    // more.
    const double slack = path == "pos_embedding" || path.ends_with("bias") ? 1.6 : 1.01;
    CHECK(values.min().item<double>() >= slack * low);
    CHECK(values.max().item<double>() <= slack * high);
  }
  size_t known = 0;
  for (const auto& [key, leaf] : golden.items()) known += key.starts_with(prefix);
  CHECK(seen == known);
}

}  // namespace
}  // namespace bv::test
