#include "lib/bench/operators.h"

#include <algorithm>
#include <map>

#include "lib/util/error.h"

namespace bv {

std::vector<OperatorCall> operators_of_step(Recipe& recipe) {
  // The loader's threads also call operators, so the loader is destroyed before recording starts.
  const Batch batch = copy_of(Loader(recipe.data, recipe.loader).next());
  recipe.model->fix_largest_step();
  recipe.step->run(1, batch, /*measure=*/false);
  OperatorRecorder recorder(recipe.device.type());
  recipe.step->run(2, batch, /*measure=*/false);
  std::vector<OperatorCall> calls = recorder.calls();
  calls.push_back({"optimizer", 0, recipe.step->update_bytes()});
  return calls;
}

std::vector<OperatorCall> scale_to_batch(const std::vector<OperatorCall>& small,
                                         int64_t small_batch,
                                         const std::vector<OperatorCall>& large,
                                         int64_t large_batch, int64_t batch) {
  const auto same_name = [](const OperatorCall& a, const OperatorCall& b) {
    return a.name == b.name;
  };
  const auto [one, other] =
      std::mismatch(small.begin(), small.end(), large.begin(), large.end(), same_name);
  if (one != small.end() || other != large.end()) {
    const auto name = [](auto at, auto end) {
      return at == end ? std::string("the end") : at->name;
    };
    throw Error(Exit::usage, "bvtrain bench operators",
                fmt::format("steps of {} and of {} examples differ: call {} is {} in one and {} in "
                            "the other",
                            small_batch, large_batch, one - small.begin() + 1,
                            name(one, small.end()), name(other, large.end())));
  }
  const double share =
      static_cast<double>(batch - small_batch) / static_cast<double>(large_batch - small_batch);
  std::vector<OperatorCall> scaled = small;
  for (size_t i = 0; i < scaled.size(); ++i) {
    scaled[i].flops += share * (large[i].flops - small[i].flops);
    scaled[i].bytes += share * (large[i].bytes - small[i].bytes);
  }
  return scaled;
}

std::vector<OperatorSum> roofline(const std::vector<OperatorCall>& calls, double flops_per_second,
                                  double bytes_per_second) {
  std::map<std::string, OperatorSum> sums;
  for (const OperatorCall& call : calls) {
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
