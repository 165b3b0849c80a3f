// What a run prints on the terminal while it trains: pure functions of numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/report/metric_summary.h"
#include "lib/report/pace.h"
#include "lib/report/row.h"

namespace bv {

// The numbers of the live line. Absent numbers are left out.
struct LiveNumbers {
  int64_t step = 0, total_steps = 0;
  std::optional<double> loss;
  std::string metric;  // the main metric; empty: none was measured
  std::optional<double> value, best;
  std::optional<double> images_per_second, data_wait, eta_seconds;
  std::optional<double> memory;     // bytes
  const char* memory_name = "mem";  // "host mem" if the model is elsewhere
  std::string evaluator;            // the evaluator that runs now; empty: none

  void take(const MetricSummary& metrics);
  void take(const Pace& pace);
};

// Returns "step 1,234/5,000 24.6%  loss 0.1234  val/prec@1 0.981 (best 0.983)  12,345 img/s
// data 3%  mem 1.2 GiB  ETA 3m12s" on one line.
std::string live_line(const LiveNumbers& numbers);

// Returns "12,345", "2.46" or "0.0125": below 100 three digits count, so a slow run never has "0".
std::string speed_number(double images_per_second);
// Returns speed_number() with its unit, "12,345 img/s".
std::string speed_text(double images_per_second);
// Returns "0.035s", "2.1s", "1m12s".
std::string short_duration(double seconds);

// Returns the line of an evaluation: "[500] val/prec@1=0.9712 (best 0.983 at step 400)
// val/loss=0.11  2.1s". The remark follows the main metric of the evaluation; `before` holds the
// values of earlier steps.
std::string evaluation_line(int64_t step, const std::string& evaluator, const Row& values,
                            double seconds, const MetricSummary& before);

}  // namespace bv
