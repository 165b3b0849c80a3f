#include "lib/train/step_graph.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <exception>

#include "lib/report/log.h"

namespace bv {

bool StepGraph::fits(const Batch& batch) const {
  const auto same = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.sizes() == b.second.sizes() &&
           a.second.dtype() == b.second.dtype();
  };
  return std::equal(batch.begin(), batch.end(), inputs_.begin(), inputs_.end(), same);
}

at::Tensor StepGraph::run(int64_t step, const Batch& batch) {
  if (failed_) return work_(batch, {});
  if (!fits(batch)) {
    graph_.reset();
    loss_.reset();
    runs_ = 0;
    inputs_.clear();
    for (const auto& [name, value] : batch)
      inputs_[name] = at::empty_like(value, at::MemoryFormat::Contiguous);
    step_ = at::empty({}, batch.at("image").options().dtype(at::kLong));
  }
  for (const auto& [name, value] : batch) inputs_.at(name).copy_(value);
  step_.fill_(step);
  if (!graph_ && runs_ < kRunsBefore) {
    ++runs_;
    at::Tensor loss;
    recorder_->run([&] { loss = work_(inputs_, step_); });
    return loss;
  }
  if (!graph_) {
    try {
      graph_ = recorder_->record([&] { loss_ = work_(inputs_, step_); });
      log::info("step {} was recorded as a CUDA graph", step);
    } catch (const std::exception& error) {
      const std::string why = error.what();  // a backtrace may follow
      failed_ = true;
      log::warn("steps run without a CUDA graph, because step {} could not be recorded: {}", step,
                why.substr(0, why.find('\n')));
      inputs_.clear();
      loss_.reset();
      return work_(batch, {});
    }
  }
  graph_->replay();
  return loss_;
}

}  // namespace bv
