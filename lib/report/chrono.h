// The clock of a training run: throughput, core hours and remaining time, without pauses. The
// formulas are those of big_vision's `Chrono` (utils.py).
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/report/row.h"

namespace bv {

class Chrono {
 public:
  // What the metadata of a checkpoint holds as `chrono`. Times are in seconds.
  struct State {
    double accum_program_time = 0, accum_train_time = 0, accum_pause_time = 0;
    int64_t accum_examples_seen = 0;
    // Training time multiplied by the number of devices at the time; big_vision has no such value.
    double accum_device_time = 0;
  };
  struct Setup {
    int64_t first_step = 0, total_steps = 0, batch_size = 0;
    double steps_per_epoch = 0;  // data_size / batch_size, not rounded; 0 if unknown
    // Examples that were seen in addition to step * batch_size, because earlier steps had another
    // batch size. Examples that a rollback has left out do not count.
    int64_t examples_before = 0;
    int num_devices = 1;
    std::string device_kind;  // for core_hours_<kind>, e.g. "cpu"
    // For `mfu`, model FLOPs utilization (Chowdhery et al. 2022, PaLM, appendix B): the FLOPs of
    // forward and backward of one example, without rematerialization, as a fraction of the peak
    // FLOPs of a device. Not measured if either is 0.
    std::function<double()> example_flops;
    double peak_flops = 0;  // of a device, per second
    // For `memory_gb/sec`: the bytes that a device reads and writes in a step; 0: not known.
    std::function<double()> step_bytes;
    State state;         // from the checkpoint that the run continues
    bool logged = true;  // whether notes and timings go to the log file of this process
  };

  // `now` returns monotonic seconds; tests pass their own clock. `start` is when the program
  // started, on the same clock; by default that is now.
  explicit Chrono(Measure measure, std::function<double()> now = nullptr, double start = -1);

  void inform(const Setup& setup);
  // Measures what is known at `step`. Speeds are those since the last tick. A second tick at the
  // same step does nothing. The first two ticks after the start are warm-up: speed and training
  // time are measured only after them.
  void tick(int64_t step);
  // Brings state() up to date at `step`, and measures nothing. Counts as a tick for the warm-up,
  // but not for the speeds: the next tick measures them over the steps before `step` too.
  void advance(int64_t step);
  // Brings state() up to date before the run ends at `step`, and measures nothing. The step need
  // not be one that is logged, and may be that of the last tick: a run may be stopped in the
  // evaluators of a step. Call it last: time that passes afterwards is not recorded in any state.
  void settle(int64_t step);
  // Stops and continues the training time. Pausing twice throws Error(Exit::internal).
  void pause();
  void resume();
  // Runs `timed` and measures how many seconds it took as `name`.
  void time(const std::string& name, const std::function<void()>& timed);

  // Describes the progress: steps, wall time, remaining time.
  const std::string& note() const { return note_; }
  const State& state() const { return state_; }
  bool warming_up() const { return warmup_ > 0; }
  double paused_seconds() const { return all_paused_; }  // in all pauses that have ended
  double now() const { return now_(); }

 private:
  // Where the speeds of the next tick begin.
  struct Mark {
    int64_t step = 0;
    double time = 0, paused = 0;  // paused: all_paused_ at that time
  };

  void advance(int64_t step, double now);
  void add_time(double now);
  void measure_speed(double now);
  void measure_memory();
  void write_progress();
  void write_note(double now);

  Measure measure_;
  std::function<double()> now_;
  Setup setup_;
  State state_;
  double program_start_ = 0, train_start_ = 0, previous_time_ = 0, pause_start_ = 0, paused_ = 0;
  int64_t train_start_step_ = 0, previous_step_ = 0;
  Mark last_tick_;
  int warmup_ = 2;
  bool is_paused_ = false;
  double all_paused_ = 0;
  std::string note_ = "Chrono n/a";
};

// Older checkpoints lack accum_device_time: from_json() then sets it to 0.
void to_json(nlohmann::json& json, const Chrono::State& state);
void from_json(const nlohmann::json& json, Chrono::State& state);

// Seconds of a monotonic clock: the default clock of Chrono.
double monotonic_seconds();

// Returns when this program began, just before main(), on that clock. The process may be older: a
// shell script that ends with `exec bvtrain` is the same process.
double program_start();
// Returns the same time in UTC: "2025-11-21T09:30:01Z". All calls return the same text, also if the
// system's time of day is set between them.
std::string program_start_utc();

}  // namespace bv
