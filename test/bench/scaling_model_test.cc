// The work of a step, taken from a real model on the meta device.
#include "lib/bench/scaling_model.h"

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"

namespace bv::test {
namespace {

// A vit of two blocks, 16 tokens of width 32: counted by hand below.
std::string config(const std::string& more = "") {
  return R"(
num_classes: 10
total_steps: 4
input:
  data: {name: synthetic, size: 64, image_size: 16, classes: 10, encoded: none}
  batch_size: 16
  pp: 'value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")'
model_name: vit
model: {width: 32, depth: 2, mlp_dim: 64, num_heads: 4, patch_size: [4, 4], pool_type: gap, posemb: sincos2d}
optax_name: scale_by_adam
lr: 0.001
log_training_steps: 1
)" + more;
}

constexpr double kBlock = 4 * (32 * 32 + 32) + (32 * 64 + 64) + (64 * 32 + 32) + 2 * 2 * 32;
constexpr double kEmbedding = 48 * 32 + 32, kNorm = 2 * 32, kHead = 32 * 10 + 10;
// Multiply-accumulates of an example: projections, attention and MLP of 16 tokens.
constexpr double kBlockMacs = 16 * (4 * 32 * 32 + 2 * 32 * 64) + 2 * 16 * 16 * 32;
constexpr double kMacs = 16 * 48 * 32 + 2 * kBlockMacs + 32 * 10;

double bytes_of(const StepWork& work) {
  double sum = 0;
  for (const auto& each : work.gradients) sum += each.bytes;
  return sum;
}

}  // namespace

TEST_CASE("scaling: units share the time by multiply-accumulates; buckets fill during backward") {
  const Config parsed = parse_config(config("bucket_mb: 0.02\n"), "t.yaml");
  const ScalingModel scaling(parsed, false);
  CHECK(scaling.model_name() == "vit");
  CHECK(scaling.batch_size() == 16);
  CHECK(scaling.parameters() == 2 * kBlock + kEmbedding + kNorm + kHead);
  CHECK(scaling.macs() == kMacs);

  const StepWork work = scaling.work(4, /*examples=*/2, /*compute=*/3, /*update=*/0.5);
  CHECK(work.compute_seconds() == Approx(3.5));
  CHECK(work.forward_seconds() == Approx(1));
  REQUIRE(work.units.size() == 2);
  CHECK(work.units[0].forward == Approx(kBlockMacs / kMacs));
  CHECK(work.before == Approx(16 * 48 * 32 / kMacs));
  CHECK(work.after == Approx(320 / kMacs));
  CHECK(work.units[0].bytes == 0);
  CHECK(work.root_bytes == 0);
  CHECK(work.norm_reduces == 0);
  CHECK(work.parameter_gathers.empty());
  // At least 20 KiB: head, norm and most of the last block come first.
  REQUIRE(work.gradients.size() == 4);
  double last = 0;
  for (const auto& each : work.gradients) {
    CHECK_FALSE(each.sharded);
    CHECK(each.ready > last);
    last = each.ready;
  }
  CHECK(work.gradients[0].bytes >= 0.02 * 0x1p20);
  CHECK(work.gradients[0].ready < 2 * (work.after + work.units[1].forward));
  CHECK(last == Approx(2));  // the embedding's gradients are ready when backward ends
  // Parameters start at multiples of 256 bytes.
  const double parameters = 4 * static_cast<double>(scaling.parameters());
  CHECK(bytes_of(work) >= parameters);
  CHECK(bytes_of(work) < parameters + 256 * 40);
}

TEST_CASE("scaling: sharded parameters are gathered by unit and updated in shards") {
  const std::string sharded =
      "sharding_strategy: [['.*', 'fsdp(axis=\"data\", min_size_to_shard_mb=0.001)']]\n"
      "grad_clip_norm: 1.0\n";
  const Config parsed = parse_config(config(sharded), "t.yaml");
  const ScalingModel scaling(parsed, false);
  const StepWork work = scaling.work(4, 2, 3, 0.5);
  CHECK(work.norm_reduces == 2);
  CHECK(work.update < 0.5 * 0.35);  // small parameters are replicated
  CHECK(work.update > 0.5 * 0.25);
  // Kernels of more than 1 KiB.
  const double kernels = 4 * (4 * 32 * 32 + 2 * 32 * 64);
  for (const auto& unit : work.units) {
    CHECK(unit.bytes >= kernels);
    CHECK(unit.bytes < kernels * 1.1);
  }
  CHECK(work.root_bytes >= 4 * (48 * 32 + 32 * 10));
  double scattered = 0;
  for (const auto& each : work.gradients) scattered += each.sharded ? each.bytes : 0;
  CHECK(scattered == work.units[0].bytes + work.units[1].bytes + work.root_bytes);

  const Config spread = parse_config(config("sharding_strategy: zero1\n"), "t.yaml");
  const StepWork one = ScalingModel(spread, false).work(2, 4, 3, 0.5);
  CHECK(one.update == Approx(0.25).epsilon(0.05));
  REQUIRE(one.parameter_gathers.size() == 1);
  CHECK(one.parameter_gathers[0] == Approx(bytes_of(one)));
  CHECK_FALSE(one.gradients[0].sharded);
  // A single process shards nothing.
  CHECK(scaling.work(1, 8, 3, 0.5).units[0].bytes == 0);
}

TEST_CASE("scaling: a config that does not work with this number of processes is refused") {
  const Config parsed = parse_config(config("mesh: [[data, 2]]\n"), "t.yaml");
  const ScalingModel scaling(parsed, false);
  CHECK_NOTHROW(scaling.work(2, 4, 1, 0));
  CHECK_THROWS_AS(scaling.work(4, 2, 1, 0), Error);
}

}  // namespace bv::test
