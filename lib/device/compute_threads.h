// The threads that LibTorch's operations compute with.
#pragma once

namespace bv {

// Throws std::system_error if the system cannot run `count` more threads at the same time. If
// libgomp cannot start a thread, it ends the process with exit code 1.
void try_threads(int count);

// Sets the number of compute threads of the calling thread and starts those that do not run yet.
// Throws Error::bare(Exit::usage) if the system does not allow them.
void start_compute_threads(int threads);

// From now on, LibTorch operations that this thread calls use only this thread. Every thread other
// than the training thread must call this before it uses tensors. Otherwise OpenMP starts compute
// threads for it as well. With more such threads than cores, all of them, including those of
// training, sleep at the end of each parallel loop instead of spinning, which makes steps up to a
// fifth slower.
void stay_single_threaded();

}  // namespace bv
