// The threads that LibTorch's operations compute with.
#pragma once

namespace bv {

// Sets the number of compute threads of the calling thread and starts those that do not run yet.
// Throws Error::bare(Exit::usage) if the system does not allow them: libgomp itself would end the
// process with exit code 1, and not before the first large operation.
void start_compute_threads(int threads);

}  // namespace bv
