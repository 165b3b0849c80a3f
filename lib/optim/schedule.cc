#include "lib/optim/schedule.h"

#include <algorithm>

#include "lib/optim/not_negative.h"

namespace bv {
namespace {

const KeyTable schedule_keys(
    "schedule",
    {"How the learning rate and the weight decay change during the run: every update is multiplied "
     "by the value of the schedule, which rises from 0 during the warm-up, then decays, and may "
     "fall to 0 in a cool-down at the end.",
     "decay_type: cosine\nwarmup_steps: 1000", "utils.py create_learning_rate_schedule"},
    {{"decay_type", "string", "stair",
      "How the value falls between the warm-up and the end: `cosine`, `linear`, `polynomial`, "
      "`rsqrt` or `stair`. The default, `stair` without further keys, is constant.",
      "cosine"},
     {"mult", "float >= 0", "1",
      "Value of the schedule at the end of the warm-up. It multiplies `lr` and `wd`, so values "
      "other than 1 are useful mainly in schedules for part of the weights.",
      "0.1"},
     {"scale_with_batchsize", "bool", "false",
      "Whether to multiply `mult` by input.batch_size / 256. `lr` is then the rate for a batch of "
      "256 images. It scales with the batch size, and the weight decay scales with it. The `end` "
      "of a decay does not scale."},
     {"warmup_{steps,examples,epochs,percent}", "float >= 0", "none",
      "Length of the warm-up at the start, in which the value rises linearly from 0; it must be "
      "shorter than the run. Give it in one unit; `percent` is a fraction of the run, from 0 to 1. "
      "Transformers need one, often 10000 steps or a twentieth of the run.",
      "1000"},
     {"cooldown_{steps,examples,epochs,percent}", "float >= 0", "none",
      "Length of the cool-down at the end, in which the value is multiplied by a factor that falls "
      "linearly to 0. Give it in one unit; `percent` is a fraction of the run, from 0 to 1. It "
      "suits `rsqrt`, which does not reach 0 by itself.",
      "5000"}});

}  // namespace

std::optional<double> schedule_duration(const Config& config, const std::string& name,
                                        const RunLength& length) {
  for (const char* unit : {"_steps", "_examples", "_epochs", "_percent"}) {
    const auto value = config.has(name + unit) ? config.maybe<double>(name + unit) : std::nullopt;
    if (value && *value < 0) check_not_negative(config, name + unit, *value);
  }
  return duration_real(config, name, length);
}

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
  attempt(config, [&] { warmup_ = schedule_duration(config, "warmup", length).value_or(0); });
  attempt(config, [&] { cooldown_ = schedule_duration(config, "cooldown", length).value_or(0); });
  if (!length.made_up && length.total_steps > 1 && warmup_ >= total_) {
    config.problem({}, fmt::format("the warm-up of {} steps must be shorter than the {} steps of "
                                   "the run",
                                   warmup_, length.total_steps));
  }
  if (!length.made_up && length.total_steps > 0 && cooldown_ > total_) {
    config.warn({}, fmt::format("the cool-down of {} steps is longer than the {} steps of the run, "
                                "so the value begins at {:.3g} of `mult`",
                                cooldown_, length.total_steps, total_ / cooldown_));
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
