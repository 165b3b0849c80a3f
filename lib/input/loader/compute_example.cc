#include "lib/input/loader/compute_example.h"

namespace bv {

Example compute_example(const Dataset& data, const Pipeline& pp, uint64_t seed, int64_t position,
                        int64_t index) {
  Example example = data.read(index);
  Rng rng(seed, Purpose::augment, static_cast<uint64_t>(position));
  pp.apply(example, rng);
  return example;
}

}  // namespace bv
