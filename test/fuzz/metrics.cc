// A metrics.jsonl.
#include "lib/compare/metric_scan.h"
#include "lib/report/metric_file.h"
#include "lib/report/skipped_examples.h"
#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(metrics) {
  const std::string file = scratch_file("metrics.jsonl", input);
  errors_only([&] { scan_metrics(file, /*with_curves=*/true); });
  errors_only([&] { last_row_step(file); });
  errors_only([&] { for_each_row(file, [](int64_t, const Row&) {}); });
  SkippedExamples skipped;
  skipped.adopt(input);
}

}  // namespace bv::test
