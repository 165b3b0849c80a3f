// A crashed process that waits for a debugger instead of ending.
#pragma once

namespace bv {

// From now on, SIGSEGV, SIGABRT, SIGFPE and SIGILL make the process print on stderr how to attach
// gdb, and wait forever. The other ranks of the run detect that it is silent and end after a while.
void wait_for_debugger_on_crash();

}  // namespace bv
