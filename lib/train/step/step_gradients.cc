// The gradients of a batch: forward and backward passes over grad_accum_steps equal micro-batches,
// one after the other. The ranks sum complete gradients while backward computes the others.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <limits>

#include "lib/config/key_table.h"
#include "lib/report/trace.h"
#include "lib/train/odd_ranks.h"
#include "lib/train/step/step.h"

namespace bv {
namespace {

const KeyTable accumulation_keys(
    "", {},
    {{"grad_accum_steps", "int >= 1", "1",
      "Number of micro-batches into which each process splits its images of a step. A step then "
      "needs less memory and gives the same result, except with batch norm, which normalizes each "
      "micro-batch separately. The number must divide the images of each process.",
      "4", "-"}});

// Returns the smallest divisor of n that is at least `least`, where least <= n.
int64_t divisor_from(int64_t least, int64_t n) {
  while (n % least != 0) ++least;
  return least;
}

// Returns the examples of the index-th of `count` equal micro-batches, as views.
Batch micro_batch_of(const Batch& batch, int64_t index, int64_t count) {
  if (count == 1) return batch;
  Batch some;
  for (const auto& [name, value] : batch) {
    const int64_t n = value.size(0) / count;
    some[name] = value.narrow(0, index * n, n);
  }
  return some;
}

// Returns the mean example weight of the whole batch, () float64 on their device. It is undefined
// if the task does not weight examples. It is infinite if every weight is 0: then the loss and the
// gradients are 0, even with label_smoothing.
at::Tensor mean_weight(const Task& task, const Batch& batch, int64_t own_examples, Group& group) {
  const at::Tensor own = task.weight(batch);
  if (!own.defined()) return own;
  const at::Tensor sum = own.to(at::kDouble);
  group.all_reduce_sum(sum, "weights of examples").wait();
  sum.div_(static_cast<double>(own_examples * group.size()));
  return sum.masked_fill_(sum <= 0, std::numeric_limits<double>::infinity());
}

}  // namespace

int64_t read_grad_accum_steps(const Config& config, const Model& model, int64_t batch_size,
                              const Ranks& ranks) {
  constexpr const char* kKey = "grad_accum_steps";
  const auto asked = config.get<int64_t>(kKey, 1);
  if (asked < 1) config.fail(kKey, fmt::format("must be at least 1, got {}", asked));
  // `asked` applies to the number of ranks that the run began with.
  const bool elastic = ranks.at_start > 0 && batch_size % ranks.at_start == 0;
  const int first = elastic ? ranks.at_start : ranks.count;
  const int64_t own = batch_size / ranks.count, before = batch_size / first;
  if (before % asked != 0) {
    config.fail(kKey, fmt::format("must divide the {} examples of each process (batch_size {} over "
                                  "{}), got {}",
                                  before, batch_size, first, asked));
  }
  const bool batch_norm = model.has_batch_statistics();
  const int64_t at_once = before / asked;
  const int64_t micro_batches =
      divisor_from(batch_norm ? std::min(asked, own) : (own + at_once - 1) / at_once, own);
  if (batch_norm && micro_batches > 1) {
    config.warn(kKey,
                fmt::format("batch norm takes its statistics from {} examples at a time, not "
                            "from the {} of the batch{}",
                            batch_size / micro_batches, batch_size,
                            micro_batches == asked ? ""
                                                   : fmt::format("; with {} processes it took them "
                                                                 "from {}",
                                                                 first, batch_size / asked)));
  }
  if (batch_norm && own / micro_batches > at_once) {
    config.warn(kKey, fmt::format("each process computes {} examples at once, not {} as with {} "
                                  "processes, to keep the statistics of batch norm",
                                  own / micro_batches, at_once, first));
  }
  return micro_batches;
}

// Returns the mean loss of a micro-batch, () float32, with a gradient function.
at::Tensor TrainStep::forward(Pass& pass, const Batch& micro_batch) const {
  const trace::Span span("forward");
  at::Tensor loss = task_.loss(model_, micro_batch, pass);
  check(loss.device() == device_ && loss.scalar_type() == at::kFloat,
        "the loss must be float32 on the device of the parameters");
  return loss;
}

// Runs forward and backward for each micro-batch, and sums the results over the ranks. Leaves the
// gradients of the whole batch in params_ and, on the CPU, the sum of all ranks' words in word_.
// Returns the loss of the whole batch, () float64 on the device. `batch` must already be mixed.
// Accumulation as in big_vision's utils.py, `accumulate_gradient`.
at::Tensor TrainStep::compute_gradients(const Batch& batch) {
  Pass pass;
  pass.train = true;
  pass.precision = precision_;
  pass.seed = seed_;
  if (graph_)
    pass.device_step = numbers_.step();
  else
    pass.step = count() + 1;
  pass.group = &group_;
  const int64_t micro_batches = config_.grad_accum_steps;
  const int64_t own_examples = batch.at("image").size(0), n = own_examples / micro_batches;
  check(n * micro_batches == own_examples, "{} examples do not divide into {} micro-batches",
        own_examples, micro_batches);
  double macs = 0;
  const bool counts = macs_ == 0 && model_.varies().empty();
  if (counts) pass.macs = &macs;  // the same in each step
  pass.first_example = group_.rank() * own_examples;
  // The mean over the batch is the mean over all micro-batches, because they have the same size.
  const double share = 1.0 / static_cast<double>(micro_batches * group_.size());
  const at::Tensor weight = mean_weight(task_, batch, own_examples, group_);
  at::Tensor whole;
  gradients_.begin();
  if (buckets_) buckets_->begin(micro_batches);
  const UnitScope scope(model_, pass);
  const GradientMemory::Scope memory(gradients_);
  for (int64_t i = 0; i < micro_batches; ++i) {
    if (i > 0) pass.next_micro_batch(n);
    const at::Tensor loss = forward(pass, micro_batch_of(batch, i, micro_batches));
    if (runs_ == 1 && i == 0 && group_.open() && !device_.is_cpu())
      compare_kernels(group_, device_);
    const at::Tensor own = loss.detach().to(at::kDouble).mul_(share);
    const at::Tensor seed = at::full({}, share, loss.options());
    if (weight.defined()) {
      own.div_(weight);
      seed.div_(weight);
    }
    whole = i == 0 ? own : whole.add_(own);
    // The word is reduced together with the loss, which is on the host.
    if (group_.open() && device_.is_cpu() && i + 1 == micro_batches) word_.begin(group_, whole);
    if (units_) units_->begin_gradients(/*accumulate=*/i > 0);
    trace::Span span("backward");
    loss.backward(seed);
    span.end();
    if (units_) units_->finish_gradients();
  }
  if (counts) macs_ = macs / static_cast<double>(own_examples);
  gradients_.finish();
  if (!group_.open()) return whole;
  buckets_->finish();
  if (device_.is_cpu())
    word_.finish(whole);
  else
    group_.all_reduce_sum(whole, "loss").wait();
  return whole;
}

}  // namespace bv
