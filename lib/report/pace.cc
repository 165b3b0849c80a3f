#include "lib/report/pace.h"

#include <algorithm>

namespace bv {
namespace {

constexpr int64_t kWarmUpSteps = 2;
constexpr int64_t kLeastSteps = 2;
constexpr double kLeastSeconds = 0.5;

}  // namespace

double Pace::Span::data_wait() const {
  // Divided by more than 0: a coarse clock may not have advanced.
  return std::clamp((to.waited - from.waited) / std::max(trained(), 1e-9), 0.0, 1.0);
}

bool Pace::Span::long_enough() const {
  return steps() >= kLeastSteps && trained() >= kLeastSeconds;
}

void Pace::start(const Reading& reading) { start_ = last_ = reading; }

void Pace::add(const Reading& reading, bool logged) {
  last_ = reading;
  if (!warm_) {
    if (reading.step - start_.step >= kWarmUpSteps) warm_ = mark_ = reading;
    return;
  }
  const Span span{mark_, reading};
  if (!logged || !span.long_enough()) return;
  finished_ = span;
  mark_ = reading;
}

std::optional<Pace::Span> Pace::interval() const {
  if (finished_ || !warm_) return finished_;
  const Span span{mark_, last_};
  return span.long_enough() ? std::optional(span) : std::nullopt;
}

std::optional<double> Pace::images_per_second() const {
  const auto span = interval();
  if (!span) return std::nullopt;
  return static_cast<double>(span->steps() * batch_size_) / span->trained();
}

std::optional<double> Pace::data_wait() const {
  const auto span = interval();
  if (!span) return std::nullopt;
  return span->data_wait();
}

std::optional<double> Pace::eta_seconds() const {
  if (!warm_) return std::nullopt;
  const Span all{*warm_, last_};
  const int64_t left = total_steps_ - last_.step;
  if (!all.long_enough() || left <= 0) return std::nullopt;
  return (all.to.now - all.from.now) / static_cast<double>(all.steps()) * static_cast<double>(left);
}

std::optional<double> Pace::mean_images_per_second() const {
  if (!warm_) return std::nullopt;
  const Span all{*warm_, last_};
  if (all.steps() < kLeastSteps || all.trained() <= 0) return std::nullopt;
  return static_cast<double>(all.steps() * batch_size_) / all.trained();
}

double Pace::training_seconds() const { return Span{start_, last_}.trained(); }

}  // namespace bv
