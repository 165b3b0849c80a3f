// Writes metric rows, at most one per step, to metrics.jsonl, TensorBoard event files and
// report.html of the workdir. A separate thread does the writing, in the order of the rows.
//
//   {"step": 12, "training_loss": 0.25, ...}        names in the order they were measured
//
// Numbers are written by json_number(). A failed write is tried again (storage_retries.h), and then
// once more with the next rows, row_barrier() or flush(). After that second failure end_row(),
// flush() and close() throw its Error(Exit::storage); flush() and close() also throw after the
// first. All calls must come from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/report/eval_details.h"
#include "lib/report/metric_summary.h"
#include "lib/report/page/facts.h"
#include "lib/report/page/report.h"
#include "lib/report/picture.h"
#include "lib/report/row.h"
#include "lib/report/skipped_examples.h"
#include "lib/util/error.h"

namespace bv {

// The file of the rows cannot be synced: it is unknown how much of it is on disk.
struct UnsyncedRows : Error {
  explicit UnsyncedRows(const Error& failure) : Error(failure) {}
};

class MetricWriter {
 public:
  struct Options {
    std::string metrics_file;  // empty: nothing is written
    std::string tensorboard_dir;
    std::string report_file;
    std::string curve_file;  // the learning curve alone, as an SVG file
    // Called before report_file and curve_file are replaced and before metrics_file is synced, by
    // any thread. Throws Error(Exit::storage) if their folder is no longer the run's folder. Null:
    // not called.
    std::function<void()> check_folder;
    std::string title;
    std::string config_yaml;     // the resolved config, for the report
    Facts facts;                 // where the run comes from, for the report
    double steps_per_epoch = 0;  // for the chart of the loss per epoch; 0 if unknown
    EarlierTime earlier;         // for the wall time in the report
    // Rows after this step, which a killed run has left, are dropped when the file is opened, and
    // so are their points in TensorBoard's files. 0 drops all rows: the run starts from the
    // beginning and writes its own row for step 0.
    int64_t first_step = 0;
    // Whether measure() adds to the log file of this process. Ranks measure nearly the same.
    bool logged = true;
    MeasuredAnew measured_anew;  // metrics whose best values come from rows after a change
  };
  // Opens the files. Drops from metrics_file the rows after first_step, an incomplete last line and
  // (with a warning) lines that are not rows or not in order; reads the rest into the history.
  // Throws Error(Exit::storage).
  explicit MetricWriter(Options options);
  ~MetricWriter();  // closes; errors are logged

  void begin_row(int64_t step);  // discards a row that was not ended
  // Adds a value to the current row and, with Options::logged, to the log file. A second value of
  // the same name replaces the first one, in its place.
  void measure(std::string_view name, double value);
  const Row& row() const { return row_; }  // what the current row holds so far
  // Returns the last and best values in all rows that were ended, those of metrics_file included.
  const MetricSummary& summary() const { return summary_; }
  // Hands the row to the writer thread, unless it is empty. Throws Error(Exit::internal) if no row
  // was begun or if its step is not greater than that of the last row.
  void end_row();

  // Returns the step of the last row, also of those in metrics_file; -1 if there is none.
  int64_t last_row() const { return last_step_; }
  // Whether metrics_file already had a row for `step` when it was opened.
  bool had_row(int64_t step) const;
  // Replaces the details of that evaluator in the report and has the report rewritten.
  void details(EvalDetails details);
  // Adds a line to the facts about the run in the report, or replaces it; an empty text removes it.
  // For facts that are not known when the run starts. The next report shows them.
  void note(const std::string& label, const std::string& text);
  // Writes images of the current step to TensorBoard. The next report shows them in place of
  // earlier ones. All images must have the same size.
  void images(std::vector<Picture> images);
  // Replaces what the report shows about skipped examples, from the next report on.
  void skipped(std::vector<SkippedSummary> summaries);
  // Has the report rewritten, atomically, by the writer thread: at once, or at the end of the
  // current row, so that it includes that row.
  void write_report();
  void flush();  // waits until all ended rows are on disk
  // Returns a function that waits until the rows that have ended so far are on disk in
  // metrics_file. It throws the Error(Exit::storage) of the writer thread if these rows were not
  // written, but not if only the report or the TensorBoard file has failed; and UnsyncedRows, then
  // and at each later call, if the file cannot be synced. Any thread may call the function, even
  // after close().
  std::function<void()> row_barrier() const;
  // Writes a report that still waits for the end of its row (without that row), then flushes.
  void close();

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;         // shared with the functions of row_barrier()
  int64_t step_ = 0, last_step_ = -1;  // of the current row; of the last row that was ended
  Row row_;
  std::unordered_map<std::string, size_t> places_;  // by name: the index in row_
  MetricSummary summary_;
  bool logged_, in_row_ = false, report_due_ = false;
};

}  // namespace bv
