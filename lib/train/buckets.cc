#include "lib/train/buckets.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <vector>

namespace bv {
namespace {

class Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(std::function<void()> call) : call_(std::move(call)) {}
  void operator()(const at::Tensor&) override { call_(); }

 private:
  std::function<void()> call_;
};

}  // namespace

struct GradientBuckets::Impl {
  Impl(const FlatParams& params, dist::Group& group) : params(params), group(group) {}

  struct Bucket {
    int64_t begin = 0, end = 0;  // elements of the gradient buffer
    int parameters = 0, missing = 0;
    bool begun = false;
    std::string name;  // for messages
    dist::Group::Pending pending = {};
  };
  void reduce(Bucket& bucket) {
    bucket.begun = true;
    bucket.pending = group.all_reduce_sum(
        params.grads().narrow(0, bucket.begin, bucket.end - bucket.begin), bucket.name.c_str());
  }

  const FlatParams& params;
  dist::Group& group;
  std::vector<Bucket> buckets;
};

GradientBuckets::GradientBuckets(const FlatParams& params, dist::Group& group, int64_t bytes) {
  if (group.size() == 1) return;
  impl_ = std::make_unique<Impl>(params, group);
  const int64_t least = std::max<int64_t>(bytes / static_cast<int64_t>(sizeof(float)), 1);
  std::vector<size_t> bucket_of;
  for (const FlatParams::Entry& entry : params.entries()) {
    if (entry.group == kFrozen) break;  // frozen ones come last and have no gradient
    auto& buckets = impl_->buckets;
    if (buckets.empty() || entry.offset - buckets.back().begin >= least) {
      if (!buckets.empty()) buckets.back().end = entry.offset;
      buckets.push_back(
          {.begin = entry.offset, .name = fmt::format("gradients {}", buckets.size())});
    }
    ++buckets.back().parameters;
    bucket_of.push_back(buckets.size() - 1);
  }
  if (!impl_->buckets.empty()) impl_->buckets.back().end = params.trainable();
  for (size_t i = 0; i < bucket_of.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(
        params.entries()[i].parameter,
        std::make_unique<Hook>([impl = impl_.get(), bucket = bucket_of[i]] {
          Impl::Bucket& filled = impl->buckets[bucket];
          if (--filled.missing == 0) impl->reduce(filled);
        }));
  }
}

GradientBuckets::~GradientBuckets() {
  if (!impl_) return;
  for (const FlatParams::Entry& entry : impl_->params.entries()) {
    if (entry.group != kFrozen)
      torch::autograd::impl::set_post_acc_grad_hooks(entry.parameter, nullptr);
  }
}

void GradientBuckets::begin() {
  if (!impl_) return;
  for (Impl::Bucket& bucket : impl_->buckets) {
    bucket.missing = bucket.parameters;
    bucket.begun = false;
  }
}

void GradientBuckets::finish() {
  if (!impl_) return;
  for (Impl::Bucket& bucket : impl_->buckets) {
    if (!bucket.begun) impl_->reduce(bucket);
  }
  for (Impl::Bucket& bucket : impl_->buckets) bucket.pending.wait();
}

}  // namespace bv
