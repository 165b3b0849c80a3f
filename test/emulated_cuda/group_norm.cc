// The kernels of group normalisation for the emulated GPU.
#include "lib/cuda/group_norm.cu"
