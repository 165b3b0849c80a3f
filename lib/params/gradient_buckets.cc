#include "lib/params/gradient_buckets.h"

#include <fmt/format.h>

#include <vector>

#include "lib/params/bucket_ranges.h"
#include "lib/params/gradient_hook.h"

namespace bv {

struct GradientBuckets::Impl {
  Impl(const FlatParams& params, Group& group) : params(params), group(group) {}

  struct Bucket {
    int64_t begin = 0, end = 0;  // elements of the gradient buffer
    int64_t parameters = 0;
    int64_t missing = 0;   // gradients that have not arrived yet, over all backward passes
    bool started = false;  // the all-reduce
    std::string name;      // for messages
    Group::Pending pending = {};
  };
  void reduce(Bucket& bucket) {
    bucket.started = true;
    bucket.pending = group.all_reduce_sum(
        params.grads().narrow(0, bucket.begin, bucket.end - bucket.begin), bucket.name.c_str());
  }

  const FlatParams& params;
  Group& group;
  std::vector<Bucket> buckets;
  std::vector<at::Tensor> hooked;
};

GradientBuckets::GradientBuckets(const FlatParams& params, Group& group, int64_t bytes) {
  if (!group.open()) return;
  impl_ = std::make_unique<Impl>(params, group);
  const std::vector<BucketRange> ranges = bucket_ranges(params, bytes);
  for (size_t i = 0; i < ranges.size(); ++i) {
    impl_->buckets.push_back({.begin = ranges[i].begin,
                              .end = ranges[i].end,
                              .parameters = std::ssize(ranges[i].entries),
                              .name = fmt::format("gradients {}", i)});
    for (const FlatParams::Entry* entry : ranges[i].entries) {
      impl_->hooked.push_back(entry->parameter);
      GradientHook::set(entry->parameter, [impl = impl_.get(), i] {
        Impl::Bucket& filled = impl->buckets[i];
        if (--filled.missing == 0) impl->reduce(filled);
      });
    }
  }
}

GradientBuckets::~GradientBuckets() {
  if (!impl_) return;
  for (const at::Tensor& parameter : impl_->hooked) GradientHook::remove(parameter);
}

void GradientBuckets::begin(int64_t backward_passes) {
  if (!impl_) return;
  for (Impl::Bucket& bucket : impl_->buckets) {
    bucket.missing = backward_passes * bucket.parameters;
    bucket.started = false;
  }
}

void GradientBuckets::finish() {
  if (!impl_) return;
  for (Impl::Bucket& bucket : impl_->buckets) {
    if (!bucket.started) impl_->reduce(bucket);
  }
  for (Impl::Bucket& bucket : impl_->buckets) bucket.pending.wait();
}

}  // namespace bv
