// Differences between two checkpoints, and the mean of several.
#include "lib/ckpt/command/checkpoint_diff.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/command/checkpoint_average.h"
#include "test/ckpt/support.h"
#include "test/support/compare.h"

namespace bv::test {
namespace {

using Names = std::vector<std::string>;

at::Tensor floats(std::vector<double> values, at::ScalarType type = at::kFloat) {
  return at::tensor(values, at::kDouble).to(type);
}

Restored checkpoint(NamedTensors tensors, const std::string& config = "{}") {
  Restored made;
  made.folder = "c";
  made.tensors = std::move(tensors);
  made.meta = {{"config", config}};
  return made;
}

// Saves a checkpoint and returns its folder.
std::string save_tensors(const Workdir& workdir, int64_t step, NamedTensors tensors) {
  Checkpointer checkpointer(workdir, {}, /*newest_kept=*/9);
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.tensors = std::move(tensors);
  snapshot.meta = {{"config", "{}"}, {"class_names", {std::to_string(step)}}};
  checkpointer.save(std::move(snapshot), false);
  checkpointer.wait();
  return workdir.ckpt().step(step);
}

// The state of a regression whose targets have this scale.
NamedTensors regression(double w, double mean, double std) {
  const NamedTensors scale = {{"targets/mean", floats({mean, 1})}, {"targets/std", floats({std})}};
  NamedTensors state = {{"params/head/bias", floats({w})}, {"ema/head/bias", floats({-w})}};
  for (const auto& [name, value] : scale) state["buffers/" + name] = state["ema/" + name] = value;
  return state;
}

}  // namespace

TEST_CASE("diff: equal checkpoints are equal, whatever their layout and NaNs") {
  const at::Tensor values = at::arange(12, at::kFloat).reshape({3, 4});
  const NamedTensors a = {{"params/w", values}, {"params/n", floats({NAN, 1})}};
  NamedTensors b = a;
  b["params/w"] = values.t().contiguous().t();
  const CheckpointDiff diff = diff_checkpoints(checkpoint(a), checkpoint(b));
  CHECK(diff.differing() == 0);
  CHECK(diff.tensors == 2);
  CHECK(diff.config.empty());
}

TEST_CASE("diff: a single changed bit is found") {
  const at::Tensor before = at::ones({1000}, at::kFloat);
  at::Tensor after = before.clone();
  after.data_ptr<float>()[777] = std::nextafter(1.0F, 2.0F);
  const CheckpointDiff diff = diff_checkpoints(checkpoint({{"params/w", before}, {"n", before}}),
                                               checkpoint({{"params/w", after}, {"n", before}}));
  CHECK(diff.differing() == 1);
  REQUIRE(diff.changed.size() == 1);
  CHECK(diff.changed[0].name == "params/w");
  CHECK(diff.changed[0].max_abs == std::ldexp(1.0, -23));
  CHECK(diff.changed[0].relative == Approx(std::ldexp(1.0, -23) / std::sqrt(1000)));
}

TEST_CASE("diff: the largest relative differences come first") {
  const Restored a = checkpoint({{"nan", floats({1})},
                                 {"none", floats({0, 0})},
                                 {"sign", floats({0.0})},
                                 {"small", floats({3, 4})},
                                 {"step", at::full({}, 10, at::kLong)}});
  const Restored b = checkpoint({{"nan", floats({NAN})},
                                 {"none", floats({0, 1})},
                                 {"sign", floats({-0.0})},
                                 {"small", floats({3, 4.5})},
                                 {"step", at::full({}, 15, at::kLong)}});
  const CheckpointDiff diff = diff_checkpoints(a, b);
  Names names;
  for (const TensorDifference& each : diff.changed) names.push_back(each.name);
  CHECK(names == Names{"nan", "none", "step", "small", "sign"});
  CHECK(std::isnan(diff.changed[0].relative));
  CHECK(std::isinf(diff.changed[1].relative));
  CHECK(diff.changed[2].relative == 0.5);
  CHECK(diff.changed[2].max_abs == 5);
  CHECK(diff.changed[3].relative == 0.1);
  CHECK(diff.changed[3].max_abs == 0.5);
  CHECK(diff.changed[4].relative == 0);
}

TEST_CASE("diff: missing tensors, other shapes and dtypes, and the config") {
  const Restored a = checkpoint({{"a", floats({1})}, {"s", floats({1, 2})}, {"t", floats({1})}},
                                "{lr: 0.1, seed: 1}");
  const Restored b =
      checkpoint({{"b", floats({1})}, {"s", floats({1})}, {"t", floats({1}, at::kHalf)}},
                 "{lr: 0.2, seed: 1}");
  const CheckpointDiff diff = diff_checkpoints(a, b);
  CHECK(diff.only_a == Names{"a"});
  CHECK(diff.only_b == Names{"b"});
  REQUIRE(diff.other_form.size() == 2);
  CHECK(diff.other_form[0].name == "s");
  CHECK(diff.other_form[0].a == "float32 (2)");
  CHECK(diff.other_form[0].b == "float32 (1)");
  CHECK(diff.other_form[1].b == "float16 (1)");
  CHECK(diff.tensors == 4);
  CHECK(diff.differing() == 4);
  REQUIRE(diff.config.size() == 1);
  CHECK(diff.config[0].text() == "lr: 0.1 -> 0.2");
}

TEST_CASE("diff: a null in a config is a value") {
  const NamedTensors none;
  const auto lines = [&](const std::string& a, const std::string& b) {
    Names changed;
    for (const ConfigChange& change :
         diff_checkpoints(checkpoint(none, a), checkpoint(none, b)).config)
      changed.push_back(change.text());
    return changed;
  };
  const std::string null = R"({"optax": {"momentum": null}})";
  CHECK(lines(null, "{}") == Names{"optax.momentum: null -> not set"});
  CHECK(lines("{}", null) == Names{"optax.momentum: not set -> null"});
  CHECK(lines(null, R"({"optax": {"momentum": 0.9}})") == Names{"optax.momentum: null -> 0.9"});
  CHECK(lines(null, null) == Names{});
}

TEST_CASE("average: means in float64, in the dtype of the tensor, integers of the last one") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  const auto state = [](double w, double mean, int64_t count, double ema) {
    return NamedTensors{
        {"params/w", floats({w, 1})},     {"params/half", floats({w}, at::kBFloat16)},
        {"buffers/mean", floats({mean})}, {"buffers/count", at::full({}, count, at::kLong)},
        {"ema/w", floats({ema, 0})},      {"opt/mu/w", floats({w, w})}};
  };
  // In float32 the sum of 2^24 and 1 is 2^24.
  const std::vector<std::string> folders = {save_tensors(workdir, 10, state(16777216, 2, 7, 1)),
                                            save_tensors(workdir, 20, state(1, 4, 8, 2)),
                                            save_tensors(workdir, 30, state(1, 9, 9, 6))};
  const Restored mean = average_checkpoints(folders, /*ema=*/false);
  CHECK(mean.step == 30);
  CHECK(mean.meta.at("class_names") == nlohmann::json{"30"});
  CHECK(same_bits(mean.tensors, {{"params/w", floats({5592406, 1})},
                                 {"params/half", floats({5592406}, at::kBFloat16)},
                                 {"buffers/mean", floats({5})},
                                 {"buffers/count", at::full({}, 9, at::kLong)}}));
  CHECK(same_bits(average_checkpoints(folders, /*ema=*/true).tensors.at("ema/w"), floats({3, 0})));
  CHECK(same_bits(average_checkpoints({folders[0]}, false).tensors.at("params/w"),
                  floats({16777216, 1})));
}

TEST_CASE("average: checkpoints that do not fit each other are refused") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  const std::string first =
      save_tensors(workdir, 10, {{"params/w", floats({1})}, {"opt/n", floats({1})}});
  const std::string shape = save_tensors(workdir, 20, {{"params/w", floats({1, 2})}});
  const std::string more =
      save_tensors(workdir, 30, {{"params/v", floats({1})}, {"params/w", floats({1})}});
  const auto refused = [&](const std::string& other) {
    return error_of([&] { average_checkpoints({first, other}, false); });
  };
  CHECK(refused(shape) == fmt::format("{}: error: does not fit {}: 'params/w' is float32 (2) here, "
                                      "and float32 (1) there",
                                      shape, first));
  CHECK(refused(more) ==
        fmt::format("{}: error: does not fit {}: 'params/v' is float32 (1) here, and missing there",
                    more, first));
}

TEST_CASE("average: the scale of a regression's targets is that of all checkpoints") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  const std::vector<std::string> folders = {save_tensors(workdir, 10, regression(1, 0.1, 0.3)),
                                            save_tensors(workdir, 20, regression(2, 0.1, 0.3)),
                                            save_tensors(workdir, 30, regression(6, 0.1, 0.3))};
  CHECK(same_bits(average_checkpoints(folders, /*ema=*/true).tensors, regression(3, 0.1, 0.3)));

  const std::string mean = save_tensors(workdir, 40, regression(1, 0.2, 0.3));
  const std::string std = save_tensors(workdir, 50, regression(1, 0.1, 0.4));
  const auto refused = [&](const std::string& other) {
    return error_of([&] { average_checkpoints({folders[0], folders[1], other}, false); });
  };
  const std::string why =
      "has other values, so the last layers predict in different units and cannot be averaged";
  CHECK(refused(mean) == fmt::format("{}: error: does not fit {}: 'buffers/targets/mean' {}", mean,
                                     folders[0], why));
  CHECK(refused(std) ==
        fmt::format("{}: error: does not fit {}: 'buffers/targets/std' {}", std, folders[0], why));
}

}  // namespace bv::test
