// Access to the CUDA plug-in, libbvtrain_cuda.so. The file is next to the executable in a build,
// and in ../lib/bvtrain in an installation. It contains everything that needs CUDA's headers and
// libraries (lib/cuda) and is loaded at run time only when a CUDA device is requested. The
// executable itself links only the CPU part of LibTorch, so a run on CPUs starts in a fifth of a
// second.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace bv {

// Whether this host has NVIDIA's driver. Does not initialize CUDA.
bool has_cuda_driver();

// Returns the path of the plug-in, "" if this installation has none. Does not open it.
std::string cuda_plugin_file();

// Opens the plug-in; does nothing the second time. Must be called before any code asks LibTorch
// whether CUDA is available, because LibTorch caches the answer. Throws Error(Exit::usage, where,
// ...) if the host has no driver, if the plug-in or one of its libraries is missing, or if it was
// built with another version of bvtrain. The code is Exit::peer if bvtrain was replaced while it
// ran.
void open_cuda(const std::string& where);
// Returns the number of visible devices. Throws Error(Exit::usage, where, ...) with the driver's
// reason if there are none.
int count_cuda(const std::string& where);
// Returns the name of a device: "NVIDIA H100 80GB HBM3".
std::string cuda_name(int index);
// Makes device `index` the current one. float32 is then computed in float32 (no TF32), with
// deterministic algorithms, until set_deterministic(false).
void use_cuda(int index);

// Returns the address of a symbol that the plug-in exports. Throws Error(Exit::internal) if the
// symbol does not exist or the plug-in is not open.
void* cuda_symbol(const char* name);
// Returns that symbol as a pointer to a function.
template <class Function>
Function* cuda_function(const char* name) {
  return reinterpret_cast<Function*>(cuda_symbol(name));
}
// Returns the current stream of `device`, a cudaStream_t.
void* cuda_stream(c10::Device device);

}  // namespace bv
