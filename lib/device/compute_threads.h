// The threads that LibTorch's operations compute with.
#pragma once

namespace bv {

// Sets their number and starts them. Throws Error::bare(Exit::usage) if the system allows fewer:
// libgomp itself would end the process with exit code 1, and not before the first large operation.
void start_compute_threads(int threads);

}  // namespace bv
