// The kernels of layer normalisation, for the emulated GPU.
#include "lib/cuda/layer_norm.cu"
