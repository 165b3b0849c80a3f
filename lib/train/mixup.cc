#include "lib/train/mixup.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/device/float_lanes.h"
#include "lib/input/image/device_images.h"
#include "lib/optim/not_negative.h"
#include "lib/report/trace.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

const KeyTable mixup_top_keys(
    "", {},
    {{"mixup", "map", "none",
      "Mixes pairs of images and their labels, which makes the model less confident and often "
      "better. It needs float labels, such as those of `onehot`.",
      "{p: 0.2}"}});

const KeyTable mixup_keys(
    "mixup",
    {"Replaces each image by a * image + (1 - a) * the image before it in the batch, and its "
     "labels in the same way. The number a, between 0.5 and 1, is drawn for each step.",
     "p: 0.2", "utils.py get_mixup"},
    {{"p", "float >= 0", "0",
      "How strongly images are mixed: a is max(b, 1 - b) with b drawn from Beta(p, p). 0 mixes "
      "nothing, 0.2 mixes most batches only a little, and 1 makes all mixtures equally likely.",
      "0.2"},
     {"scope", "'global' | 'shard'", "global",
      "Which images are paired if there are several processes. `global` pairs all images of the "
      "batch, so results do not depend on the number of processes. `shard` pairs only those of one "
      "process, as big_vision does within each device.",
      "", "-"},
     {"fold_in", "any", "none",
      "Has no effect and gives a warning. The random numbers of each step depend only on `seed` "
      "and the step."}});

constexpr int64_t kWidth = 64;  // elements; GCC vectorizes loops with a constant trip count

// row = a row + b previous, over n elements.
[[gnu::always_inline]] inline void mix_row(float* row, const float* previous, float a, float b,
                                           int64_t n) {
  int64_t at = 0;
  for (; at + kWidth <= n; at += kWidth) {
    alignas(64) std::array<float, kWidth> mixed;
    for (int64_t i = 0; i < kWidth; ++i) mixed[i] = a * row[at + i] + b * previous[at + i];
    for (int64_t i = 0; i < kWidth; ++i) row[at + i] = mixed[i];
  }
  for (; at < n; ++at) row[at] = a * row[at] + b * previous[at];
}

// Returns the example before this rank's first one: the previous rank's last one, (1, ...).
at::Tensor example_before(const at::Tensor& examples, Group& group) {
  at::Tensor last = examples.narrow(0, examples.size(0) - 1, 1).clone();
  if (group.size() == 1) return last;
  at::Tensor before = at::empty_like(last);
  group.send_to_next(before, last, "mixup").wait();
  return before;
}

}  // namespace

MixupConfig read_mixup(const Config& config, int ranks, int64_t batch_size) {
  const Config mixup = config.section("mixup");
  MixupConfig read;
  read.p = mixup.get<double>("p", 0.0);
  check_not_negative(mixup, "p", read.p);
  read.by_rank = mixup.word("scope", "global", {"global", "shard"}) == "shard";
  mixup.superseded("fold_in", "the coefficient is drawn from (seed, step)");
  mixup.done();
  if (ranks > 1 && read.p > 0 && !read.by_rank) {
    config.warn("mixup",
                "pairs examples over the whole batch, for any number of processes; big_vision "
                "pairs within a device's part: mixup.scope: shard");
  }
  const bool alone = batch_size == (read.by_rank ? ranks : 1);
  if (alone && read.p > 0) {
    config.warn("mixup", batch_size == 1
                             ? "has no effect: the only image of a batch is paired with itself"
                             : "has no effect: the only image of each process is paired with "
                               "itself; scope: global pairs those of all processes");
  }
  return read;
}

void prepare_batch(const MixupConfig& config, const std::optional<Normalization>& normalization,
                   const at::Tensor& shares, Batch& batch, Group& group) {
  const auto image = batch.find("image");
  const bool as_bytes = image != batch.end() && image->second.scalar_type() == at::kByte;
  check(!as_bytes || normalization, "images are bytes, and nothing says how to normalize them");
  if (config.p == 0) {
    if (as_bytes) image->second = device_images(image->second, *normalization);
    return;
  }
  const trace::Span span("mixup");
  if (config.by_rank && config.ranks_here > 1) {
    if (as_bytes) image->second = device_images(image->second, *normalization);
    for (const char* key : {"image", "labels"})
      for (const at::Tensor& part : batch.at(key).chunk(config.ranks_here)) mix(part, shares, key);
    return;
  }
  Group& scope = config.by_rank ? Group::single() : group;
  if (as_bytes && !image->second.is_cpu()) {
    const at::Tensor& bytes = image->second;
    image->second = device_images(bytes, *normalization, shares, example_before(bytes, scope));
  } else {
    if (as_bytes) image->second = device_images(image->second, *normalization);
    mix(batch.at("image"), shares, "image", scope);
  }
  mix(batch.at("labels"), shares, "labels", scope);
}

double mixup_coefficient(uint64_t seed, int64_t step, double p) {
  if (p == 0) return 1;
  const double a = Rng(seed, Purpose::mixup, static_cast<uint64_t>(step)).beta(p, p);
  return std::max(a, 1.0 - a);
}

at::Tensor mixup_shares(double a) {
  return at::tensor({static_cast<float>(a), static_cast<float>(1 - a)});
}

void mix(const at::Tensor& examples, const at::Tensor& shares, const char* key, Group& group) {
  if (examples.scalar_type() != at::kFloat) {
    throw Error::in(
        "train", Exit::usage,
        fmt::format("mixup needs float32 '{}', got {}; {}", key, dtype_name(examples.scalar_type()),
                    std::string_view(key) == "image" ? "add value_range(-1, 1) to input.pp"
                                                     : "add onehot(...) to input.pp"));
  }
  check(examples.is_contiguous() && examples.dim() > 0, "mixup of a strided batch");
  const int64_t n = examples.size(0);
  if (n == 0) return;
  const int64_t width = examples.numel() / n;
  const at::Tensor before = example_before(examples, group);
  if (!examples.is_cpu()) {
    const at::Tensor previous = at::cat({before, examples.narrow(0, 0, n - 1)});
    examples.mul_(shares[0]).addcmul_(previous, shares[1]);
    return;
  }
  const float* wrapped = before.const_data_ptr<float>();
  float* data = examples.mutable_data_ptr<float>();
  const float keep = shares.const_data_ptr<float>()[0], other = shares.const_data_ptr<float>()[1];
  // The columns of the (n, width) matrix are independent. Each thread takes some of them and goes
  // from the last example to the first, so that it reads each example before it overwrites it.
  constexpr int64_t kColumns = 1024;
  at::parallel_for(0, (width + kColumns - 1) / kColumns, 1, [&](int64_t first, int64_t last) {
    const int64_t begin = first * kColumns;
    const int64_t columns = std::min(last * kColumns, width) - begin;
    if (columns <= 0) return;
    float* rows = data + begin;
    simd::dispatch([&]() __attribute__((always_inline)) {
      for (int64_t i = n - 1; i > 0; --i) {
        mix_row(rows + i * width, rows + (i - 1) * width, keep, other, columns);
      }
      mix_row(rows, wrapped + begin, keep, other, columns);
    });
  });
}

}  // namespace bv
