#include "lib/optim/schedule.h"

#include <algorithm>

#include "lib/optim/not_negative.h"

namespace bv {
namespace {

// Reads the duration `name` in steps; 0 if it is not given. Elsewhere a negative duration counts as
// not given, but a schedule with one is more likely a mistake.
double read_part(const Config& config, const std::string& name, const RunLength& length) {
  for (const char* unit : {"_steps", "_examples", "_epochs", "_percent"}) {
    const auto value = config.has(name + unit) ? config.maybe<double>(name + unit) : std::nullopt;
    if (value && *value < 0) check_not_negative(config, name + unit, *value);
  }
  return duration_real(config, name, length).value_or(0);
}

}  // namespace

Schedule::Schedule(const Config& config, const RunLength& length)
    : total_(static_cast<double>(length.total_steps)) {
  for (const std::string& key : config.keys()) {
    if (key == "base") config.fail(key, "'base' is not a key of a schedule; use 'mult'");
  }
  base_ = config.get<double>("mult", 1.0);
  check_not_negative(config, "mult", base_);
  if (config.get<bool>("scale_with_batchsize", false)) {
    base_ *= static_cast<double>(length.batch_size) / 256.0;
  }
  attempt(config, [&] { warmup_ = read_part(config, "warmup", length); });
  attempt(config, [&] { cooldown_ = read_part(config, "cooldown", length); });
  if (!length.made_up && length.total_steps > 1 && warmup_ >= total_) {
    config.problem({}, fmt::format("the warm-up of {} steps must be shorter than the {} steps of "
                                   "the run",
                                   warmup_, length.total_steps));
  }
  const std::string type = config.get("decay_type", "stair");
  decay_ = Decay::Registry::make(type, config, config.place("decay_type"),
                                 ScheduleEnv{.length = length, .warmup = warmup_});
}

float Schedule::operator()(int64_t step) const {
  const auto s = static_cast<double>(step);
  // A run of one step may be all warm-up: then there is nothing to decay over.
  const double progress =
      total_ > warmup_ ? std::clamp((s - warmup_) / (total_ - warmup_), 0.0, 1.0) : 0.0;
  double value = decay_->value(base_, s, progress);
  if (warmup_ > 0) value *= std::min(1.0, s / warmup_);
  if (cooldown_ > 0) value *= std::min(1.0, (total_ - s) / cooldown_);
  return static_cast<float>(value);
}

}  // namespace bv
