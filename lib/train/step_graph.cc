#include "lib/train/step_graph.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
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

StepResult StepGraph::run(int64_t step, const Batch& batch) {
  if (failed_) return work_(batch);
  if (!fits(batch)) {
    graph_.reset();
    result_ = {};
    runs_ = 0;
    inputs_.clear();
    for (const auto& [name, value] : batch)
      inputs_[name] = at::empty_like(value, at::MemoryFormat::Contiguous);
  }
  for (const auto& [name, value] : batch) inputs_.at(name).copy_(value);
  if (!graph_ && runs_ < kRunsBefore) {
    ++runs_;
    StepResult result;
    recorder_->run([&] { result = work_(inputs_); });
    return result;
  }
  if (!graph_) record(step);
  if (failed_) return work_(batch);
  graph_->replay();
  group_.count_again(recorded_);
  return result_;
}

void StepGraph::record(int64_t step) {
  const Group::Counts before = group_.counts();
  std::string why;
  try {
    graph_ = recorder_->record([&] { result_ = work_(inputs_); });
  } catch (const std::exception& error) {
    why = error.what();
    why = why.substr(0, why.find('\n'));  // a backtrace may follow
  }
  recorded_ = group_.counts() - before;
  const int64_t begun = recorded_.collectives;
  // The largest and the smallest number of collectives, and whether a rank failed.
  const auto most =
      group_.all_max(std::array{begun, -begun, int64_t{why.empty() ? 0 : 1}}, "graph");
  check(most[0] == -most[1],
        "step {} was recorded with {} collectives here and with {} to {} by other ranks{}{}; "
        "graph: off records none",
        step, begun, -most[1], most[0], why.empty() ? "" : ": ", why);
  if (most[2] == 0) {
    log::info("step {} was recorded as a CUDA graph", step);
    return;
  }
  failed_ = true;
  log::warn("steps run without a CUDA graph, because step {} could not be recorded: {}", step,
            why.empty() ? "another rank failed to record it" : why);
  graph_.reset();
  inputs_.clear();
  result_ = {};
}

}  // namespace bv
