// The environment variables that c10d's NCCL backend and NCCL read when they start.
#pragma once

namespace bv {

// Sets environment variables so that c10d neither ends this process nor waits for dumps. Call it
// before the backend is created. A value that the user has set is kept, except that of a variable
// that torchrun sets itself.
void set_nccl_environment();

}  // namespace bv
