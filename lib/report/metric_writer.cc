#include "lib/report/metric_writer.h"

#include <algorithm>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "lib/report/append.h"
#include "lib/report/event_files.h"
#include "lib/report/event_writer.h"
#include "lib/report/log.h"
#include "lib/report/metric_file.h"
#include "lib/report/page/report_charts.h"
#include "lib/report/storage_retries.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/host.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// If this many rows wait for a slow disk, training also waits.
constexpr size_t kMostWaiting = 1024;

}  // namespace

// The files and the thread that writes them.
class MetricWriter::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {
    report_.title = options_.title;
    report_.config_yaml = options_.config_yaml;
    report_.facts = options_.facts;
    report_.steps_per_epoch = options_.steps_per_epoch;
    report_.earlier = options_.earlier;
    report_.history = &history_;
    open();
    thread_ = std::thread([this] { work(); });
  }
  ~Impl() { stop(); }

  // Before the first row only: later the history belongs to the writer thread.
  const History& history() const { return history_; }
  bool had_row(int64_t step) const { return std::binary_search(had_.begin(), had_.end(), step); }
  int64_t last_step() const { return had_.empty() ? -1 : had_.back(); }

  void add_row(int64_t step, Row row) {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return rows_.size() < kMostWaiting || error_; });
    throw_error();
    rows_.push_back({step, std::move(row)});
    ++ended_;
    wake_.notify_one();
  }
  void add_details(EvalDetails details) {
    const std::lock_guard lock(mutex_);
    std::string name = details.evaluator;
    new_details_.insert_or_assign(std::move(name), std::move(details));
  }
  void add_note(const std::string& label, const std::string& text) {
    const std::lock_guard lock(mutex_);
    set_fact(notes_, label, text);
  }

  void add_skipped(std::vector<SkippedSummary> summaries) {
    const std::lock_guard lock(mutex_);
    new_skipped_ = std::move(summaries);
  }
  void add_images(LoggedImages images) {
    const std::lock_guard lock(mutex_);
    new_images_.push_back(std::move(images));
    wake_.notify_one();
  }
  void add_report() {
    const std::lock_guard lock(mutex_);
    report_wanted_ = true;
    wake_.notify_one();
  }

  void flush() {
    std::unique_lock lock(mutex_);
    again_ = failure_ != nullptr;
    wake_.notify_one();
    idle_.wait(lock, [&] { return (!has_work() && !busy_) || error_; });
    throw_error();
    if (failure_) {
      thrown_ = true;
      std::rethrow_exception(failure_);
    }
    lock.unlock();
    sync_files();
  }

  int64_t ended_rows() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  // Waits until the first `rows` rows are on disk in the metrics file. Does not throw if only
  // another file could not be written, because the other files only repeat the rows.
  void sync(int64_t rows) {
    std::unique_lock lock(mutex_);
    if (unsynced_) throw UnsyncedRows(*unsynced_);
    if (written_ < rows && failure_ && !has_work() && !busy_) {  // no retry is in progress
      again_ = true;
      wake_.notify_one();
    }
    idle_.wait(lock,
               [&] { return written_ >= rows || error_ || (failure_ && !has_work() && !busy_); });
    if (written_ < rows) {
      throw_error();
      std::rethrow_exception(failure_);
    }
    lock.unlock();
    // This error is not turned into UnsyncedRows: if the folder comes back, its file has the rows,
    // and the next checkpoint can sync the file.
    if (options_.check_folder) options_.check_folder();
    try {
      fsync_path(options_.metrics_file);
    } catch (const Error& error) {
      lock.lock();
      unsynced_ = error;
      throw UnsyncedRows(error);
    }
  }

  bool failure_was_thrown() {
    const std::lock_guard lock(mutex_);
    return thrown_;
  }

 private:
  struct WaitingRow {
    int64_t step = 0;
    Row row;
  };

  void open() {
    const int64_t first = options_.first_step;
    RestoredRows restored = restore_rows(options_.metrics_file, first > 0 ? first : -1);
    had_ = std::move(restored.steps);
    history_ = std::move(restored.history);
    if (!options_.measured_anew.empty()) take_extremes_anew();
    rows_file_.reopen();  // the file may have been replaced
    if (options_.tensorboard_dir.empty()) return;
    const int64_t forgotten = first > 0 && had_row(first) ? first + 1 : first;
    drop_events(options_.tensorboard_dir, forgotten);
    events_.emplace(options_.tensorboard_dir, forgotten);
  }

  // After a restart that changed what a metric measures, its extremes come from later rows only.
  void take_extremes_anew() {
    const auto last_before = [&](const std::string& name) {
      return last_step_before_change(options_.measured_anew, name);
    };
    for (auto& [name, summary] : history_.summaries) {
      if (last_before(name) >= 0) summary.has_extremes = false;
    }
    for_each_row(options_.metrics_file, [&](int64_t step, const Row& row) {
      for (const auto& [name, value] : row) {
        const int64_t before = last_before(name);
        if (before >= 0 && step > before) history_.summaries[name].note_extremes(step, value);
      }
    });
  }

  void sync_files() const {
    fsync_path(options_.metrics_file);
    if (events_) fsync_path(events_->file());
  }

  void throw_error() {
    if (!error_) return;
    thrown_ = true;
    std::rethrow_exception(error_);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      wake_.notify_one();
    }
    retries_.cancel();
    if (thread_.joinable()) thread_.join();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || has_work(); });
      if (!has_work()) return;
      again_ = false;
      const std::deque<WaitingRow> rows = std::exchange(rows_, {});
      report_due_ |= std::exchange(report_wanted_, false);
      for (auto& [name, details] : new_details_) report_.details[name] = std::move(details);
      new_details_.clear();
      report_.notes = notes_;
      const std::vector<LoggedImages> images = std::exchange(new_images_, {});
      if (!images.empty()) report_.images = images.back();
      if (new_skipped_) report_.skipped = *std::exchange(new_skipped_, std::nullopt);
      busy_ = true;
      lock.unlock();
      std::exception_ptr failure;
      try {
        add(rows, images);
        retries_([&] { write(); });
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      busy_ = false;
      record(failure);
      idle_.notify_all();
      if (error_) return;
    }
  }

  // Decides whether a write attempt that failed with `failure` ends the run. The caller holds the
  // mutex.
  void record(const std::exception_ptr& failure) {
    const bool second = failure_ != nullptr;
    failure_ = failure;
    if (!failure || error_) return;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      if (error.code() == Exit::storage && !second) {
        log::warn(
            "{}; this ends the run if it fails again with the next rows or the next checkpoint",
            error.what());
        return;
      }
    } catch (...) {
      // Not a disk error: the run ends.
    }
    error_ = failure;
  }

  // Queues rows and images for the files.
  void add(const std::deque<WaitingRow>& rows, const std::vector<LoggedImages>& images) {
    constexpr int64_t kColumns = 4;
    for (const auto& [step, pictures] : images) {
      if (events_) events_->image(step, "training_images", tiled(pictures, kColumns));
    }
    for (const auto& [step, row] : rows) {
      rows_file_.add(row_text(step, row));
      history_.add(step, row);
      ++added_;
      if (!events_) continue;
      for (const auto& [name, value] : row) events_->scalar(step, name, value);
    }
  }

  // Writes what is not in the files yet.
  void write() {
    rows_file_.flush();
    {
      const std::lock_guard lock(mutex_);
      written_ = added_;
      idle_.notify_all();
    }
    if (events_) events_->flush();
    if (report_due_) write_report();
    report_due_ = false;
  }

  // Returns whether the writer thread has something to do. The caller holds the mutex.
  bool has_work() const {
    return !rows_.empty() || report_wanted_ || !new_images_.empty() || again_;
  }

  void write_report() {
    if (options_.report_file.empty()) return;
    if (options_.check_folder) options_.check_folder();
    set_fact(report_.facts, "Written", utc_text(std::time(nullptr)));
    if (const auto peak = peak_resident_bytes()) {
      set_fact(report_.facts, "Memory", human_bytes(*peak) + ", peak of this process");
    }
    write_file_atomically(options_.report_file, render_report(report_), /*sync=*/false);
    if (options_.curve_file.empty()) return;
    write_file_atomically(options_.curve_file, render_learning_curve(*report_.history), false);
  }

  const Options options_;
  std::vector<int64_t> had_;  // steps of the rows that the file already had

  // Used only by the writer thread, except for the event file's name.
  AppendFile rows_file_{options_.metrics_file};
  std::optional<EventWriter> events_;
  bool report_due_ = false;
  int64_t added_ = 0;  // rows passed to rows_file_
  History history_;
  Report report_;

  std::mutex mutex_;  // guards all members down to error_
  std::condition_variable wake_, idle_;
  std::deque<WaitingRow> rows_;
  int64_t ended_ = 0, written_ = 0;  // rows that were handed over, and that are in metrics_file
  std::map<std::string, EvalDetails> new_details_;
  Facts notes_;
  std::optional<std::vector<SkippedSummary>> new_skipped_;
  std::vector<LoggedImages> new_images_;
  bool report_wanted_ = false, busy_ = false, stopping_ = false, thrown_ = false;
  bool again_ = false;          // retry what could not be written
  std::exception_ptr failure_;  // of the last attempt to write; null if it succeeded
  std::exception_ptr error_;    // what ends the run
  std::optional<Error> unsynced_;

  StorageRetries retries_;
  std::thread thread_;
};

MetricWriter::MetricWriter(Options options) : logged_(options.logged) {
  if (options.metrics_file.empty()) return;
  impl_ = std::make_shared<Impl>(std::move(options));
  last_step_ = impl_->last_step();
  summary_.add(impl_->history());
}

MetricWriter::~MetricWriter() {
  try {
    if (impl_ && !impl_->failure_was_thrown()) close();
  } catch (const std::exception& error) {
    log::warn("{}", error.what());
  }
}

void MetricWriter::begin_row(int64_t step) {
  step_ = step;
  row_.clear();
  places_.clear();
  in_row_ = true;
}

void MetricWriter::measure(std::string_view name, double value) {
  check(in_row_, "{} was measured outside a metric row", name);
  if (logged_) log::write_detail(fmt::format("[{}] {} = {}", step_, name, value));
  const auto [found, is_new] = places_.try_emplace(std::string(name), row_.size());
  if (is_new)
    row_.emplace_back(name, value);
  else
    row_[found->second].second = value;
}

void MetricWriter::end_row() {
  check(in_row_, "the metric row for step {} has already ended", step_);
  in_row_ = false;
  if (!row_.empty()) {
    check(step_ > last_step_, "a metric row for step {} came after that for step {}", step_,
          last_step_);
    last_step_ = step_;
    summary_.add(step_, row_);
    if (impl_) impl_->add_row(step_, std::exchange(row_, {}));
    row_.clear();
  }
  if (std::exchange(report_due_, false) && impl_) impl_->add_report();
}

bool MetricWriter::had_row(int64_t step) const { return impl_ && impl_->had_row(step); }

void MetricWriter::details(EvalDetails details) {
  if (impl_) impl_->add_details(std::move(details));
  write_report();
}

void MetricWriter::note(const std::string& label, const std::string& text) {
  if (impl_) impl_->add_note(label, text);
}

void MetricWriter::skipped(std::vector<SkippedSummary> summaries) {
  if (impl_) impl_->add_skipped(std::move(summaries));
}

void MetricWriter::images(std::vector<Picture> images) {
  if (impl_ && !images.empty()) impl_->add_images({step_, std::move(images)});
}

void MetricWriter::write_report() {
  if (in_row_) {
    report_due_ = true;
  } else if (impl_) {
    impl_->add_report();
  }
}

void MetricWriter::flush() {
  if (impl_) impl_->flush();
}

std::function<void()> MetricWriter::row_barrier() const {
  if (!impl_) return [] {};
  return [impl = impl_, rows = impl_->ended_rows()] { impl->sync(rows); };
}

void MetricWriter::close() {
  if (!impl_) return;
  if (std::exchange(report_due_, false)) impl_->add_report();
  const std::shared_ptr<Impl> impl = std::move(impl_);
  impl->flush();
}

}  // namespace bv
