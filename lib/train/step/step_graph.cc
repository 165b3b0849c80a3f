#include "lib/train/step/step_graph.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <exception>

#include "lib/device/out_of_memory.h"
#include "lib/report/log.h"
#include "lib/report/trace.h"
#include "lib/util/error.h"

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
  const trace::Span span("replay");
  graph_->replay();
  group_.count_again(recorded_);
  return result_;
}

void StepGraph::record(int64_t step) {
  const Group::Counts before = group_.counts();
  Failure failure;
  try {
    graph_ = recorder_->record([&] { result_ = work_(inputs_); });
  } catch (const std::exception& error) {
    const std::string what = error.what();
    failure = {std::current_exception(), what.substr(0, what.find('\n')),  // a backtrace may follow
               is_out_of_memory(error)};
  }
  recorded_ = group_.counts() - before;
  group_.count_again({-recorded_.collectives, -recorded_.bytes_sent});  // nothing was sent yet
  if (group_.open()) agree(step, failure);
  if (!failure.error) {
    log::info("step {} was captured as a CUDA graph", step);
    return;
  }
  log::warn("steps run without a CUDA graph, because step {} could not be captured: {}", step,
            failure.why);
  failed_ = true;
  graph_.reset();
  inputs_.clear();
  result_ = {};
}

// Does not return normally if a rank has failed. If all have, and not because memory ran out, the
// step cannot be captured, and the config must change. Otherwise a device or its memory is at
// fault, and a restart may help.
void StepGraph::agree(int64_t step, const Failure& failure) {
  const int64_t n = recorded_.collectives;
  const int64_t failed = failure.of_memory ? 2 : failure.error ? 1 : 0;
  const auto most = group_.all_max(std::array{failed, -failed, n, -n}, "graph");
  if (failure.of_memory) std::rethrow_exception(failure.error);
  const auto cannot = [&](Exit code, const std::string& reason) {
    return Error(
        code, "graph",
        fmt::format("step {} cannot be captured as a CUDA graph: {}; `graph: off` trains without",
                    step, reason));
  };
  const bool everywhere = most[0] == 1 && most[1] == -1;
  if (failure.error) throw cannot(everywhere ? Exit::usage : Exit::internal, failure.why);
  // The rank that failed ends and never joins this. So this process ends with code 7, and with a
  // line that names that rank and its error.
  if (most[0] > 0) group_.barrier("graph");
  if (most[2] != -most[3])
    throw cannot(Exit::usage, fmt::format("processes have started {} to {} collectives in it",
                                          -most[3], most[2]));
}

}  // namespace bv
