#include "lib/train/buckets.h"

#include <fmt/format.h>

#include <vector>

#include "lib/train/hook.h"

namespace bv {
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
  std::vector<at::Tensor> hooked;
};

GradientBuckets::GradientBuckets(const FlatParams& params, dist::Group& group, int64_t bytes) {
  if (group.size() == 1) return;
  impl_ = std::make_unique<Impl>(params, group);
  const int64_t least = std::max<int64_t>(bytes / static_cast<int64_t>(sizeof(float)), 1);
  std::vector<size_t> bucket_of;
  const auto places = params.stretches(FlatParams::Space::grads);
  for (const FlatParams::Stretch& place : places) {
    if (!place.whole) break;  // whole ones come first
    auto& buckets = impl_->buckets;
    if (buckets.empty() || place.at - buckets.back().begin >= least) {
      if (!buckets.empty()) buckets.back().end = place.at;
      buckets.push_back({.begin = place.at, .name = fmt::format("gradients {}", buckets.size())});
    }
    ++buckets.back().parameters;
    bucket_of.push_back(buckets.size() - 1);
  }
  if (!impl_->buckets.empty()) impl_->buckets.back().end = params.whole_grads();
  for (size_t i = 0; i < bucket_of.size(); ++i) {
    const at::Tensor& parameter = places[i].entry->parameter;
    impl_->hooked.push_back(parameter);
    GradientHook::set(parameter, [impl = impl_.get(), bucket = bucket_of[i]] {
      Impl::Bucket& filled = impl->buckets[bucket];
      if (--filled.missing == 0) impl->reduce(filled);
    });
  }
}

GradientBuckets::~GradientBuckets() {
  if (!impl_) return;
  for (const at::Tensor& parameter : impl_->hooked) GradientHook::remove(parameter);
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
