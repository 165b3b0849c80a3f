#include "lib/input/loader/compute_example.h"

#include <algorithm>

namespace bv {

Example compute_example(const Dataset& data, const Pipeline& pp, uint64_t seed, int64_t position,
                        int64_t index, int64_t pass) {
  Example example = data.read(index);
  Rng rng(seed, Purpose::augment, static_cast<uint64_t>(position), {index, pass});
  pp.apply(example, rng);
  return example;
}

void keep_features(Example& example, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::erase_if(example, [&](const auto& feature) {
    return std::find(names.begin(), names.end(), feature.first) == names.end();
  });
}

}  // namespace bv
