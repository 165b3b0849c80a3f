// Stopping by signal. SIGTERM, SIGINT, SIGHUP and SIGUSR1 ask a run to save a checkpoint and to
// stop at the end of its step. The handlers only set a flag; a second SIGINT ends the process at
// once.
#pragma once

#include "lib/util/error.h"

namespace bv {

// Installs the handlers. SIGHUP stays ignored under nohup. SIGPIPE and SIGXFSZ are ignored, so that
// the write that caused them fails instead.
void install_signal_handlers();
// Returns the exit code for the signal received: 143 for SIGTERM and SIGHUP, 130 for SIGINT, 75 for
// SIGUSR1. Exit::ok if there was none.
Exit stop_requested();

// Thrown by poll_signals() where a loop cannot simply finish its step, such as inside an evaluator.
struct Stopped {
  Exit code;
};
// Throws Stopped if a signal was received.
void poll_signals();

}  // namespace bv
