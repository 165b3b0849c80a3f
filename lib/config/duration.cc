#include "lib/config/duration.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace bv {
namespace {

constexpr double kMostSteps = 0x1p53;
constexpr std::string_view kUnits[] = {"_steps", "_examples", "_epochs", "_percent"};

struct DurationUnit {
  std::string key;
  double value;
  std::optional<double> steps;  // nullopt if RunLength lacks a number for the conversion
};

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

double in_range(const Config& config, const std::string& key, double steps) {
  if (!(steps <= kMostSteps)) {
    config.fail(key, fmt::format("too long: {} steps", steps));
  }
  return steps;
}

// Returns the unit in which `name` is given; nullopt if there is none.
std::optional<DurationUnit> given_unit(const Config& config, std::string_view name,
                                       const RunLength& length, std::source_location where) {
  std::optional<DurationUnit> given;
  for (const std::string_view unit : kUnits) {
    const std::string key = fmt::format("{}{}", name, unit);
    const std::optional<double> value = config.maybe<double>(key, where);
    if (!value || *value < 0) continue;
    if (given) config.fail(key, fmt::format("give only one of {} and {}", given->key, key));
    given = DurationUnit{key, *value, std::nullopt};
    if (unit == "_steps") given->steps = in_range(config, key, *value);
    if (unit == "_examples" && length.batch_size > 0) {
      given->steps = *value / static_cast<double>(length.batch_size);
    }
    if (unit == "_epochs" && length.batch_size > 0 && length.data_size > 0) {
      given->steps = *value * ratio(length.data_size, length.batch_size);
    }
    if (unit == "_percent") {
      if (*value > 1) {
        config.fail(key, fmt::format("must be in [0, 1], got {} (a fraction, not 0..100)", *value));
      }
      if (length.total_steps > 0 || length.no_training)
        given->steps = *value * static_cast<double>(length.total_steps);
    }
    if (given->steps && unit != "_steps") {
      given->steps = static_cast<double>(round_steps(in_range(config, key, *given->steps)));
    }
  }
  return given;
}

}  // namespace

int64_t round_steps(double x) {
  // nearbyint rounds half to even in the default rounding mode.
  return x == 0 ? 0 : std::max<int64_t>(1, static_cast<int64_t>(std::nearbyint(x)));
}

std::optional<double> duration_real(const Config& config, std::string_view name,
                                    const RunLength& length, std::source_location where) {
  const auto unit = given_unit(config, name, length, where);
  if (!unit) return std::nullopt;
  if (!unit->steps) {
    const char* unknown = unit->key.ends_with("_percent") ? "the total number of steps"
                          : length.batch_size == 0        ? "the batch size"
                                                          : "the size of the data";
    config.fail(unit->key,
                fmt::format("cannot be used here: {} is not known (give {}_steps)", unknown, name));
  }
  return unit->steps;
}

std::optional<int64_t> duration_steps(const Config& config, std::string_view name,
                                      const RunLength& length, std::source_location where) {
  const auto steps = duration_real(config, name, length, where);
  if (!steps) return std::nullopt;
  if (*steps != std::floor(*steps)) {
    config.fail(std::string(name) + "_steps",
                fmt::format("must be a whole number of steps, got {}", *steps));
  }
  return static_cast<int64_t>(*steps);
}

void missing_duration(const Config& config, std::string_view name, std::string_view why,
                      bool in_seconds) {
  std::vector<std::string_view> units(std::begin(kUnits), std::end(kUnits));
  if (in_seconds) units.emplace_back("_seconds");
  for (const std::string_view unit : units) {
    const std::string key = fmt::format("{}{}", name, unit);
    if (!config.has(key)) continue;
    const auto value = config.maybe<double>(key);
    if (value && *value < 0)
      config.problem(key, fmt::format("must not be negative, got {}", *value));
    return;
  }
  config.none_given(fmt::format("{}_", name), why);
}

std::optional<Every> duration_every(const Config& config, std::string_view name,
                                    const RunLength& length, std::source_location where) {
  const std::string key = std::string(name) + "_seconds";
  const double seconds = config.maybe<double>(key, where).value_or(-1);
  const auto unit = given_unit(config, name, length, where);
  if (seconds >= 0 && unit) {
    config.fail(key, fmt::format("give only one of {} and {}", unit->key, key));
  }
  if (seconds >= 0) return Every{0, seconds};
  const auto steps = duration_steps(config, name, length, where);
  if (!steps) return std::nullopt;
  return Every{*steps, 0};
}

bool itstime(int64_t step, int64_t every, int64_t total, bool last, bool first,
             double drop_close_to_last) {
  if (every <= 0) return false;
  const bool close_to_last =
      static_cast<double>(std::abs(step - total)) < drop_close_to_last * static_cast<double>(every);
  return (step % every == 0 && !close_to_last) || (last && step == total) || (first && step == 1);
}

Due::Due(Every every, int64_t total_steps, bool last, bool first)
    : every_(every), total_(total_steps), last_(last), first_(first) {}

bool Due::operator()(int64_t step, double now) {
  if (!every_) return false;
  if (every_.steps > 0) return itstime(step, every_.steps, total_, last_, first_);
  if (previous_ < 0) previous_ = now;
  const bool due =
      now - previous_ >= every_.seconds || (last_ && step == total_) || (first_ && step == 1);
  if (due) previous_ = now;
  return due;
}

std::string hms(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f}s", seconds);
  const double minutes = std::floor(seconds / 60);
  if (minutes < 60) return fmt::format("{:.0f}m{:.0f}s", minutes, seconds - 60 * minutes);
  const double hours = std::floor(minutes / 60);
  const double rest = minutes - 60 * hours;
  if (hours < 25) return fmt::format("{:.0f}h{:.0f}m", hours, rest);
  const double days = std::floor(hours / 24);
  return fmt::format("{:.0f}d{:.0f}h{:.0f}m", days, hours - 24 * days, rest);
}

std::string duration_text(double seconds) { return hms(std::nearbyint(seconds)); }

bool is_growth_step(int64_t step, const std::vector<double>& ratios) {
  if (step < 1) return false;
  int64_t power = 1;
  while (power <= step / 10) power *= 10;
  return std::any_of(ratios.begin(), ratios.end(), [&](double ratio) {
    return std::nearbyint(ratio * static_cast<double>(power)) == static_cast<double>(step);
  });
}

}  // namespace bv
