// The measurement behind `bvtrain bench memory`: what takes up a device's memory, and the largest
// batch that fits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lib/train/recipe.h"

namespace bv {

// In bytes of the device's memory; on a CPU the loader's batches are counted too.
struct MemoryNeeds {
  TrainStep::Memory state;  // parameters, gradients, optimizer state and averages
  // Copies of the state for checkpoints, of which a run may need two: one is written while the next
  // one is made. 0 on a GPU, because they are in the host's memory.
  double checkpoints = 0;
  double example = 0;    // what one more example in the batch takes: its activations and input
  double other = 0;      // what any batch takes besides: libraries, buffers, constants
  double available = 0;  // what this process may use in all
  int64_t largest = 0;   // batch; 0: not even one example fits
  bool tried = false;    // a step of that batch has run; otherwise it is extrapolated
  std::vector<std::pair<int64_t, double>> peaks;  // batches that have run, and their peak memory
};

// Doubles the batch size and trains two steps at each size, until the peak memory clearly grows
// with the batch. Extrapolates from that to the largest batch that fits, at most `most`. On a GPU
// it then trains with that batch, and tries smaller ones if memory runs out; on a CPU this would
// only show whether the system swaps. If the model's steps differ, it trains the largest one
// (Model::fix_largest_step()). `recipe_of` builds the run for a batch size, which is a multiple of
// `granule` (grad_accum_steps). The device must have been chosen (use_cuda()).
MemoryNeeds measure_memory(const std::function<std::unique_ptr<Recipe>(int64_t)>& recipe_of,
                           c10::Device device, int64_t granule, int64_t most);

}  // namespace bv
