#include "lib/bench/operators.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "lib/util/error.h"

namespace bv {
namespace {

// Returns the calls of the optimizer's update if `update` is true, otherwise all other calls.
std::vector<OperatorCall> part_of(const std::vector<OperatorCall>& calls, bool update) {
  std::vector<OperatorCall> part;
  std::ranges::copy_if(calls, std::back_inserter(part),
                       [&](const OperatorCall& call) { return call.update == update; });
  return part;
}

}  // namespace

std::vector<OperatorCall> operators_of_step(Recipe& recipe) {
  // The loader's threads also call operators, so the loader is destroyed before recording starts.
  const Batch batch = copy_of(Loader(recipe.data, recipe.loader).next());
  recipe.model->fix_largest_step();
  recipe.step->run(1, batch, /*measure=*/false);
  OperatorRecorder recorder(recipe.device.type());
  recipe.step->run(2, batch, /*measure=*/false);
  std::vector<OperatorCall> calls = part_of(recorder.calls(), /*update=*/false);
  std::vector<OperatorCall> update = part_of(recorder.calls(), /*update=*/true);
  std::ranges::sort(update, {}, [](const OperatorCall& call) {
    return std::tuple(call.name, call.flops, call.bytes);
  });
  calls.insert(calls.end(), update.begin(), update.end());
  calls.push_back({"optimizer", 0, recipe.step->update_bytes()});
  return calls;
}

std::vector<OperatorCall> scale_to_batch(const std::vector<OperatorCall>& small,
                                         int64_t small_batch,
                                         const std::vector<OperatorCall>& large,
                                         int64_t large_batch, int64_t batch) {
  std::vector<OperatorCall> scaled = part_of(small, /*update=*/false);
  const std::vector<OperatorCall> more = part_of(large, /*update=*/false);
  const auto same_name = [](const OperatorCall& a, const OperatorCall& b) {
    return a.name == b.name;
  };
  const auto [one, other] =
      std::mismatch(scaled.begin(), scaled.end(), more.begin(), more.end(), same_name);
  if (one != scaled.end() || other != more.end()) {
    const auto name = [](auto at, auto end) {
      return at == end ? std::string("the end") : at->name;
    };
    throw Error(Exit::usage, "bvtrain bench operators",
                fmt::format("steps of {0} and of {1} examples differ: call {2} is {3} in one and "
                            "{4} in the other; with at most {1} examples, one step is enough: "
                            "--set input.batch_size={1}",
                            small_batch, large_batch, one - scaled.begin() + 1,
                            name(one, scaled.end()), name(other, more.end())));
  }
  const double share =
      static_cast<double>(batch - small_batch) / static_cast<double>(large_batch - small_batch);
  for (size_t i = 0; i < scaled.size(); ++i) {
    scaled[i].flops += share * (more[i].flops - scaled[i].flops);
    scaled[i].bytes += share * (more[i].bytes - scaled[i].bytes);
    scaled[i].listed |= more[i].listed;
  }
  const std::vector<OperatorCall> update = part_of(large, /*update=*/true);
  scaled.insert(scaled.end(), update.begin(), update.end());
  return scaled;
}

std::vector<OperatorSum> roofline(const std::vector<OperatorCall>& calls, double flops_per_second,
                                  double bytes_per_second) {
  std::map<std::string, OperatorSum> sums;
  for (const OperatorCall& call : calls) {
    if (!call.listed) continue;
    OperatorSum& sum = sums[call.name];
    sum.name = call.name;
    sum.calls += 1;
    sum.flops += call.flops;
    sum.bytes += call.bytes;
    sum.seconds += std::max(call.flops / flops_per_second, call.bytes / bytes_per_second);
  }
  std::vector<OperatorSum> order;
  for (auto& [name, sum] : sums) order.push_back(std::move(sum));
  std::stable_sort(order.begin(), order.end(), [](const OperatorSum& a, const OperatorSum& b) {
    return a.seconds > b.seconds;
  });
  return order;
}

std::vector<OperatorCall> operators_of_batch(
    const std::function<std::unique_ptr<Recipe>(int64_t)>& recipe_of, int64_t granule,
    int64_t batch) {
  const int64_t small_batch = 2 * granule, large_batch = 4 * granule;
  const auto calls_of = [&](int64_t size) { return operators_of_step(*recipe_of(size)); };
  if (batch <= large_batch) return calls_of(batch);
  return scale_to_batch(calls_of(small_batch), small_batch, calls_of(large_batch), large_batch,
                        batch);
}

}  // namespace bv
