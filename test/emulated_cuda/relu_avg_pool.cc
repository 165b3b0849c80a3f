// The kernels of ReLU and average pool, for the emulated GPU.
#include "lib/cuda/relu_avg_pool.cu"
