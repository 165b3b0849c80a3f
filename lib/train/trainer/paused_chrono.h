// Stops the training clock while the run saves or evaluates.
#pragma once

#include "lib/report/chrono.h"

namespace bv {

// Stops the training clock during its lifetime.
class PausedChrono {
 public:
  explicit PausedChrono(Chrono& chrono) : chrono_(chrono) { chrono_.pause(); }
  ~PausedChrono() { chrono_.resume(); }
  PausedChrono(const PausedChrono&) = delete;

 private:
  Chrono& chrono_;
};

}  // namespace bv
