// Handling of SIGTERM, SIGINT, SIGHUP and SIGUSR1. They make a training run save a checkpoint and
// stop at the end of its step; a second SIGINT ends the process at once. Any other command has
// nothing to save and ends at once.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <string>

#include "lib/util/error.h"

namespace bv {

// The four signals.
sigset_t stop_signals();
// Whether this process ignores SIGHUP, as under nohup.
bool ignores_hangup();

// Installs handlers that record the signal (a second SIGINT ends the process), and unblocks the
// signals. SIGHUP stays ignored under nohup. SIGPIPE and SIGXFSZ are ignored: the write that
// caused them fails instead. Sets SIGCHLD back to its default, because waitpid() returns no exit
// codes if the parent of this process has left it ignored.
void install_signal_handlers();
// From now on a signal ends the process with stop_requested()'s code, wherever it is: in a long
// computation, or waiting for standard input. So does a signal that it has already received.
void end_on_signals();
// Returns the exit code for the signal received: 143 for SIGTERM and SIGHUP, 130 for SIGINT, 75 for
// SIGUSR1. It is also 75 if the time of stop_at() has passed. Returns Exit::ok if there was
// neither.
Exit stop_requested();
// Makes stop_requested() return 75 once CLOCK_MONOTONIC has reached `time`, in seconds, unless a
// signal came before.
void stop_at(double time);
// Returns whether the time of stop_at(), and not a signal, stops the run, here or on another rank.
bool stopped_by_time();

// Thrown where the current step cannot be finished first: by poll_signals(), for example in an
// evaluator, and if the reader of standard output has closed the pipe (app/standard_output.h).
struct Stopped {
  Exit code;
};
// Throws Stopped if a signal was received.
void poll_signals();

// Deletes the files of DeletedOnSignal and ends the process. For signal handlers: it uses only
// system calls and atomic variables.
[[noreturn]] void end_in_handler(int code);

// While it exists, a signal that ends the process immediately first deletes the file `path`.
class DeletedOnSignal {
 public:
  explicit DeletedOnSignal(std::string path);
  ~DeletedOnSignal();
  DeletedOnSignal(const DeletedOnSignal&) = delete;

 private:
  const std::string path_;
  std::atomic<const char*>* slot_ = nullptr;  // null: all slots are taken, the file stays
};

}  // namespace bv
