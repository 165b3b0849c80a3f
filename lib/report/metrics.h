// Metric rows: one a step at most, written off the training thread, in order, to metrics.jsonl,
// TensorBoard events and report.html of the workdir.
//
//   {"step": 12, "training_loss": 0.25, ...}        names in the order they were measured
//
// Numbers are the shortest text that reads back to the same double; NaN and infinities are written
// as the strings "nan", "inf", "-inf" (JSON has none). A failure in the writer thread surfaces as
// Error(Exit::storage) at the next call of end_row(), flush() or close().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bv {

// What is measured: anything that takes (name, value).
using Measure = std::function<void(std::string_view name, double value)>;

using Row = std::vector<std::pair<std::string, double>>;

using Points = std::vector<std::pair<int64_t, double>>;  // (step, value) in step order

// All rows of a run, for the report. A series that grows past kMostPoints is thinned evenly: every
// second, fourth, ... point stays, and always the last.
struct History {
  static constexpr size_t kMostPoints = 4096;
  // What thinning must not lose. NaN counts for none of the extremes.
  struct Summary {
    int64_t count = 0;                           // points seen
    int64_t stride = 1;                          // of them, every stride-th is in the series
    std::pair<int64_t, double> least, greatest;  // valid if has_extremes; the first of equals
    bool has_extremes = false;
  };
  std::map<std::string, Points> series;
  std::map<std::string, Summary> summaries;  // of the same names

  void add(int64_t step, const Row& row);
};

// What an evaluator hands to the report beyond numbers.
struct EvalDetails {
  struct Wrong {
    int64_t index = 0;  // position in the evaluation split
    int64_t truth = 0, guess = 0;
    double confidence = 0;  // probability of the guess
    int64_t height = 0, width = 0, channels = 0;
    std::vector<uint8_t> pixels;  // HWC
  };
  // Examples by the confidence of the guess: bin b of B holds (b / B, (b + 1) / B].
  struct Bin {
    double examples = 0;                  // their number (their labels' weight)
    double confidence = 0, accuracy = 0;  // means over them
  };
  std::string evaluator;  // its name in the config
  int64_t step = 0;
  std::vector<std::string> class_names;         // one per class
  std::vector<std::vector<int64_t>> confusion;  // [truth][guess]
  std::vector<Wrong> wrong;
  std::vector<Bin> calibration;
};

class MetricWriter {
 public:
  struct Options {
    std::string metrics_file;  // empty: nothing is written
    std::string tensorboard_dir;
    std::string report_file;
    std::string curve_file;  // the learning curve alone, an SVG
    std::string title;
    std::string config_yaml;      // the resolved config, for the report
    int64_t steps_per_epoch = 0;  // 0 = unknown; the report shows loss per epoch where known
    // Rows after this step, left by a killed run, are dropped first. 0: a run from the beginning,
    // which writes its own step-0 row, so all are dropped.
    int64_t first_step = 0;
  };
  // Opens the files; drops from metrics_file the rows after first_step, a torn last line and (with
  // a warning) lines that are no rows or not in order, and reads the rest into the history. Throws
  // Error(Exit::storage).
  explicit MetricWriter(Options options);
  ~MetricWriter();  // closes; errors are logged

  void begin_row(int64_t step);  // forgets what was measured and not ended
  // A later measure of the same name in a row overwrites the value, in place. Each is also written
  // to the log file.
  void measure(std::string_view name, double value);
  const Row& row() const { return row_; }  // what was measured so far
  // Rows without metrics are not written. Steps must increase, and each row is ended once: all else
  // is Error(Exit::internal).
  void end_row();

  // Whether metrics_file already had a row of `step` when it was opened.
  bool had_row(int64_t step) const;
  // Replaces the details of that evaluator and has report.html rewritten (atomically, off thread).
  // Within a row, the report is written when the row ends, and so has its numbers.
  void details(EvalDetails details);
  void write_report();
  void flush();  // returns when all rows so far are in the files (fsync)
  void close();  // flushes, with what was asked for in a row that never ended, but not that row

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  int64_t step_ = 0, last_step_ = -1;  // of the row begun, of the last one written
  Row row_;
  bool in_row_ = false, report_due_ = false;
};

// The shortest text that reads back to `value` exactly; "nan", "inf", "-inf" with quotes.
std::string json_number(double value);

}  // namespace bv
