#pragma once

namespace bv {

// Configures malloc for this process: the heap keeps freed blocks of up to 32 MiB. Each step frees
// and allocates the same blocks. If the heap returned them to the system, each step would take page
// faults for them again. Large tensors are not in the heap (lib/device/large_blocks.h).
//
// Threads have several arenas, which is glibc's default. With a single arena memory use was the
// same, and some models were slower because threads waited for its lock.
void keep_freed_memory();

}  // namespace bv
