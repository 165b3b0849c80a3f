#include "lib/report/chrono.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "lib/config/duration.h"
#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/host.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Initialized with the program's static objects, before main().
const double kProgramStart = monotonic_seconds();

std::optional<std::string> read_proc(const std::string& file) {
  try {
    return read_file(file, 1 << 20);
  } catch (const Error&) {
    return std::nullopt;  // some sandboxes have no complete /proc
  }
}

// Returns a value of /proc/meminfo ("MemTotal:  16303360 kB") in bytes.
std::optional<double> meminfo(const std::string& content, std::string_view name) {
  for (const std::string& line : split(content, '\n')) {
    if (line.rfind(name, 0) != 0 || line.size() <= name.size() || line[name.size()] != ':')
      continue;
    return 1024 * std::strtod(line.c_str() + name.size() + 1, nullptr);
  }
  return std::nullopt;
}

}  // namespace

double monotonic_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double program_start() { return kProgramStart; }

std::string program_start_utc() {
  static const std::string text =
      utc_text(std::time(nullptr) - std::llround(monotonic_seconds() - program_start()));
  return text;
}

Chrono::Chrono(Measure measure, std::function<double()> now, double start)
    : measure_(std::move(measure)), now_(now ? std::move(now) : monotonic_seconds) {
  program_start_ = start >= 0 ? start : now_();
}

void Chrono::inform(const Setup& setup) {
  setup_ = setup;
  state_ = setup.state;
  previous_step_ = setup.first_step;
  write_progress();
}

void Chrono::settle(int64_t step) {
  if (step != previous_step_)
    advance(step);
  else if (!warming_up())
    add_time(now_());  // the time since that tick, such as a pause that a signal ended
  // During warm-up, no tick has counted the time since the start yet. As in a resumed run, this
  // time does not count as training time.
  if (warming_up()) state_.accum_program_time += now_() - program_start_;
}

void Chrono::tick(int64_t step) {
  if (step == previous_step_) return;
  const double now = now_();
  measure_("uptime", now - program_start_);
  const bool warm = !warming_up();
  advance(step, now);
  measure_("examples_seen", static_cast<double>(state_.accum_examples_seen));
  measure_("progress", static_cast<double>(step) / static_cast<double>(setup_.total_steps));
  if (setup_.steps_per_epoch > 0) {
    const double shift =
        static_cast<double>(setup_.examples_before) / static_cast<double>(setup_.batch_size);
    measure_("epoch", (static_cast<double>(step) + shift) / setup_.steps_per_epoch);
  }
  if (!warm) return;
  measure_speed(now);
  measure_memory();
}

void Chrono::advance(int64_t step) {
  if (step != previous_step_) advance(step, now_());
}

void Chrono::advance(int64_t step, double now) {
  state_.accum_examples_seen += (step - previous_step_) * setup_.batch_size;
  previous_step_ = step;
  // The first steps are slow, since they fill caches and memory pools. Training time starts at the
  // second tick.
  if (warmup_ > 0) {
    if (--warmup_ == 0) {
      train_start_ = previous_time_ = now;
      train_start_step_ = step;
      last_tick_ = {step, now, all_paused_};
      state_.accum_program_time += now - program_start_;
      paused_ = 0;
    }
    if (setup_.logged) log::write_detail(note_);
    return;
  }
  add_time(now);
  write_note(now);
}

// Adds the time since the last call to the accumulated times.
void Chrono::add_time(double now) {
  // Greater than 0: a coarse clock may not have advanced.
  const double dt = std::max(now - previous_time_ - paused_, 1e-9);
  state_.accum_train_time += dt;
  state_.accum_device_time += dt * setup_.num_devices;
  state_.accum_pause_time += paused_;
  state_.accum_program_time += dt + paused_;
  previous_time_ = now;
  paused_ = 0;
}

void Chrono::measure_speed(double now) {
  const double dt = std::max(now - last_tick_.time - (all_paused_ - last_tick_.paused), 1e-9);
  const auto steps = static_cast<double>(previous_step_ - last_tick_.step);
  last_tick_ = {previous_step_, now, all_paused_};
  const double rate = steps * static_cast<double>(setup_.batch_size) / dt / setup_.num_devices;
  measure_("img/sec/core", rate);
  if (const double flops = setup_.peak_flops > 0 ? setup_.example_flops() : 0; flops > 0)
    measure_("mfu", rate * flops / setup_.peak_flops);
  if (const double bytes = setup_.step_bytes ? setup_.step_bytes() : 0; bytes > 0)
    measure_("memory_gb/sec", 1e-9 * bytes * steps / dt);
  // big_vision multiplies all training time by the current number of devices. That would be wrong
  // after a restart with another number.
  const double core_hours = state_.accum_device_time / 3600;
  measure_("core_hours_" + setup_.device_kind, core_hours);
  measure_("core_hours", core_hours);
  measure_("steps_per_sec", steps / dt);  // JAXline's name
}

void Chrono::write_progress() {
  // A run of zero steps is complete from the start.
  const double percent = setup_.total_steps > 0 ? 100.0 * static_cast<double>(previous_step_) /
                                                      static_cast<double>(setup_.total_steps)
                                                : 100.0;
  note_ = fmt::format("Steps:{}/{} [{:.1f}%]", previous_step_, setup_.total_steps, percent);
}

void Chrono::write_note(double now) {
  const double seconds_per_step =
      (now - train_start_) / static_cast<double>(previous_step_ - train_start_step_);
  const double eta = seconds_per_step * static_cast<double>(setup_.total_steps - previous_step_);
  write_progress();
  note_ += fmt::format("\nWalltime:{} ({} eval)\nETA:{}\nTotal train time:{}",
                       duration_text(state_.accum_program_time),
                       duration_text(state_.accum_pause_time), duration_text(eta),
                       duration_text(seconds_per_step * static_cast<double>(setup_.total_steps)));
  if (setup_.logged) log::write_detail(note_);
}

void Chrono::measure_memory() {
  const std::string content = read_proc("/proc/meminfo").value_or("");
  const auto total = meminfo(content, "MemTotal"), available = meminfo(content, "MemAvailable");
  if (total && available) {
    measure_("y/hostmem/total", *total);
    measure_("y/hostmem/available", *available);
    measure_("y/hostmem/used", *total - *available);
  }
  if (const auto resident = resident_bytes()) measure_("y/hostmem/rss", *resident);
}

void Chrono::pause() {
  check(!is_paused_, "chrono is already paused");
  is_paused_ = true;
  pause_start_ = now_();
}

void Chrono::resume() {
  check(is_paused_, "chrono is not paused");
  is_paused_ = false;
  const double seconds = now_() - pause_start_;
  paused_ += seconds;
  all_paused_ += seconds;
}

void Chrono::time(const std::string& name, const std::function<void()>& timed) {
  const double start = now_();
  timed();
  const double seconds = now_() - start;
  measure_(name, seconds);
  if (setup_.logged) log::write_detail(fmt::format("TIMING[{}]: {}", name, seconds));
}

void to_json(nlohmann::json& json, const Chrono::State& state) {
  json = {{"accum_program_time", state.accum_program_time},
          {"accum_train_time", state.accum_train_time},
          {"accum_pause_time", state.accum_pause_time},
          {"accum_device_time", state.accum_device_time},
          {"accum_examples_seen", state.accum_examples_seen}};
}

void from_json(const nlohmann::json& json, Chrono::State& state) {
  state.accum_program_time = json.at("accum_program_time");
  state.accum_train_time = json.at("accum_train_time");
  state.accum_pause_time = json.at("accum_pause_time");
  state.accum_device_time = json.value("accum_device_time", 0.0);
  state.accum_examples_seen = json.at("accum_examples_seen");
}

}  // namespace bv
