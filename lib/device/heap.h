#pragma once

namespace bv {

// Configures malloc for this process. Each step frees and allocates the same large blocks. If the
// heap returned them to the system, every step would take page faults for them again: a sixth of
// the time of a convolutional model. So the heap keeps them. Threads have arenas of their own, as
// is glibc's default: one arena for all saves no memory, and its lock makes some models slower.
void keep_freed_memory();

}  // namespace bv
