// SIGTERM, SIGINT, SIGHUP and SIGUSR1 ask a run to stop at the end of the step, after saving. The
// handlers only set a flag; a second SIGINT stops at once.
#pragma once

#include "lib/util/error.h"

namespace bv {

void install_signal_handlers();
// The exit code of the signal seen (143 SIGTERM and SIGHUP, 130 SIGINT, 75 SIGUSR1); Exit::ok if
// none.
Exit stop_requested();

// Thrown by poll_signals() where a loop can't just end its step (inside an evaluator).
struct Stopped {
  Exit code;
};
void poll_signals();

}  // namespace bv
