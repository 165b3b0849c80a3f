// The kernels of weight standardisation for the emulated GPU.
#include "lib/cuda/standardize.cu"
