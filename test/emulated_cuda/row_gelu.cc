// The kernels of GELU over rows, for the emulated GPU.
#include "lib/cuda/row_gelu.cu"
