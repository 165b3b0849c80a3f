// Chrono (reference section 3): throughput, core hours, ETA, with pauses taken out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/report/metrics.h"

namespace bv {

class Chrono {
 public:
  // What checkpoints carry under chrono/.
  struct State {
    double accum_program_time = 0, accum_train_time = 0, accum_pause_time = 0;
    int64_t accum_examples_seen = 0;
    double accum_device_time = 0;  // training time by the devices it was spent on (ours)
  };
  struct Setup {
    int64_t first_step = 0, total_steps = 0, batch_size = 0;
    double steps_per_epoch = 0;  // data_size / batch_size, a real number
    int num_devices = 1;
    std::string device_kind;  // for core_hours_<kind>, e.g. "cpu"
    State state;              // restored
  };

  // `now` gives monotonic seconds (tests pass their own); `program_start` on the same clock.
  explicit Chrono(Measure measure, std::function<double()> now = nullptr,
                  double program_start = -1);

  void inform(const Setup& setup);
  // Measures what is known at `step`; a second tick at the same step does nothing. The first two
  // ticks after the start only warm up.
  void tick(int64_t step);
  void pause();  // twice is an error
  void resume();
  // Measures `name` as the seconds `timed` took.
  void time(const std::string& name, const std::function<void()>& timed);
  void time_average(const std::string& name, double seconds);  // averaged at the next tick

  const std::string& note() const { return note_; }
  const State& state() const { return state_; }
  bool warming_up() const { return warmup_ > 0; }
  double images_per_second() const { return rate_; }  // of the last tick interval; 0 = not yet
  double eta_seconds() const { return eta_; }         // 0 = not yet
  double now() const { return now_(); }

 private:
  void measure_speed(double now, int64_t examples);
  void measure_memory();
  void write_progress();
  void write_note(double now);

  Measure measure_;
  std::function<double()> now_;
  Setup setup_;
  State state_;
  double program_start_ = 0, train_start_ = 0, previous_time_ = 0, pause_start_ = 0, paused_ = 0;
  int64_t train_start_step_ = 0, previous_step_ = 0;
  int warmup_ = 2;
  bool is_paused_ = false;
  double rate_ = 0, eta_ = 0;
  std::string note_ = "Chrono n/a";
  std::map<std::string, std::vector<double>> averages_;
};

// When the kernel started this process (from /proc/self/stat), on the clock that `Chrono` uses by
// default; now, where that is not known.
double process_start();
double monotonic_seconds();

}  // namespace bv
