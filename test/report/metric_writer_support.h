// A MetricWriter in a temporary folder, for tests.
#pragma once

#include <functional>

#include "lib/report/metric_writer.h"
#include "lib/util/error.h"
#include "test/support/folder.h"

namespace bv::test {

inline MetricWriter::Options options_in(const TempFolder& scratch, int64_t first_step = 0) {
  MetricWriter::Options options;
  options.metrics_file = scratch / "metrics.jsonl";
  options.tensorboard_dir = scratch / "tb";
  options.report_file = scratch / "report.html";
  options.title = "run";
  options.first_step = first_step;
  return options;
}

inline void add_row(MetricWriter& writer, int64_t step, double value) {
  writer.begin_row(step);
  writer.measure("training_loss", value);
  writer.end_row();
}

// Returns the exit code of the Error that `call` throws, Exit::ok if it throws none.
inline Exit code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return Exit::ok;
}

}  // namespace bv::test
