// The speed of a run as the terminal shows it. Each number is a mean over an interval of several
// steps, and is absent until it is known. Chrono measures what metrics.jsonl holds.
#pragma once

#include <cstdint>
#include <optional>

namespace bv {

class Pace {
 public:
  // The clocks at the end of a step, in seconds.
  struct Reading {
    int64_t step = 0;
    double now = 0;     // a monotonic clock
    double paused = 0;  // in which the run did not train: evaluations, copying for checkpoints
    double waited = 0;  // in which training waited for data
  };
  // Two readings with the steps between them.
  struct Span {
    Reading from, to;
    int64_t steps() const { return to.step - from.step; }
    // Seconds without pauses.
    double trained() const { return (to.now - from.now) - (to.paused - from.paused); }
    // The share of trained() in which training waited for data, within 0 to 1.
    double data_wait() const;
    bool long_enough() const;
  };

  Pace(int64_t total_steps, int64_t batch_size)
      : total_steps_(total_steps), batch_size_(batch_size) {}

  // Begins with the reading before the first step of this process.
  void start(const Reading& reading);
  // Takes the reading of each further step. `logged`: an interval ends here if it is long enough.
  void add(const Reading& reading, bool logged);

  // Over the last interval, or over the current one while it is the first. An interval has at least
  // two steps and half a second of training. The first two steps of a process belong to none: they
  // are slow.
  std::optional<double> images_per_second() const;
  std::optional<double> data_wait() const;  // as a share of the time of training
  // The remaining time of the run, evaluations included, at the mean speed of this process. Absent
  // at the end of the run too.
  std::optional<double> eta_seconds() const;

  // Of this process without its first two steps.
  std::optional<double> mean_images_per_second() const;
  // Of this process, all steps, without pauses.
  double training_seconds() const;

 private:
  // Returns the interval to show; nullopt if there is none yet.
  std::optional<Span> interval() const;

  int64_t total_steps_, batch_size_;
  Reading start_, last_;
  std::optional<Reading> warm_;   // the end of the slow first steps
  std::optional<Span> finished_;  // the last finished interval
  Reading mark_;                  // where the current interval began; valid after warm_
};

}  // namespace bv
