// The CUDA plug-in, libbvtrain_cuda.so beside the executable: all that needs CUDA's headers and
// libraries (lib/cuda). The executable itself links the CPU half of LibTorch only, so that a run on
// CPUs starts in a fifth of a second.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace bv {

// Whether this host has NVIDIA's driver. Asks CUDA nothing.
bool has_cuda_driver();

// Opens the plug-in, once: before anything else asks LibTorch about CUDA, since it remembers the
// answer. Throws Error(Exit::usage, where, ...) where there is no driver, where the plug-in or one
// of its libraries is missing, or where it was built with another bvtrain.
void open_cuda(const std::string& where);
// Visible devices. Throws Error(Exit::usage, where, ...) with the driver's reason if there is none.
int count_cuda(const std::string& where);
std::string cuda_name(int index);  // "NVIDIA H100 80GB HBM3"
// Makes device `index` this process's: current, with float32 in float32 (no TF32), and algorithms
// whose results repeat.
void use_cuda(int index);

// A name that the plug-in exports; Error(internal) where it does not, or is not open.
void* cuda_symbol(const char* name);
// The device's current stream: a cudaStream_t.
void* cuda_stream(c10::Device device);

}  // namespace bv
