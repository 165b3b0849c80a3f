#include "lib/device/cuda.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>

#include "lib/device/deterministic.h"
#include "lib/util/error.h"

namespace bv {
namespace {

constexpr const char* kFile = "libbvtrain_cuda.so";

void*& plugin() {
  static void* handle = nullptr;
  return handle;
}

// Ends in " (deleted)" if the file has been deleted or replaced since the program started.
std::string path_of_executable() {
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof(path));
  return {path, size > 0 ? static_cast<size_t>(size) : 0};
}

}  // namespace

bool has_cuda_driver() {
  static const bool found = ::access("/dev/nvidiactl", F_OK) == 0 ||
                            ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr;
  return found;
}

std::string cuda_plugin_file() {
  const std::string executable = path_of_executable();
  const std::string folder = executable.substr(0, executable.rfind('/'));
  for (const char* there : {"/", "/../lib/bvtrain/"}) {
    const std::string file = folder + there + kFile;
    if (::access(file.c_str(), F_OK) == 0) return file;
  }
  return "";
}

void open_cuda(const std::string& where) {
  if (plugin()) return;
  if (!has_cuda_driver()) throw Error(Exit::usage, where, "this host has no NVIDIA driver");
  const std::string file = cuda_plugin_file();
  if (file.empty())
    throw Error(Exit::usage, where,
                fmt::format("this build has no {}: install the wheel, or build it on a host that "
                            "has nvcc (docs/gpu.md)",
                            kFile));
  // Its libraries are found through LibTorch's run paths.
  plugin() = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!plugin()) {
    const char* why = ::dlerror();
    throw Error(Exit::usage, where,
                fmt::format("cannot open {}: {}; CUDA's libraries are missing or do not fit "
                            "(docs/gpu.md)",
                            kFile, why ? why : "unknown reason"));
  }
  const std::string version = cuda_function<const char*()>("bvtrain_cuda_version")();
  if (version == BV_CUDA_VERSION) return;
  const bool replaced = path_of_executable().ends_with(" (deleted)");
  throw Error(
      replaced ? Exit::peer : Exit::usage, where,
      fmt::format("{} was built with bvtrain {}, but this is {}: {}", kFile, version,
                  BV_CUDA_VERSION,
                  replaced ? "bvtrain was replaced while it ran; start it again" : "rebuild both"));
}

int count_cuda(const std::string& where) {
  char why[500] = "";
  const int count = cuda_function<int(char*, int)>("bvtrain_cuda_count")(why, sizeof(why));
  if (count > 0) return count;
  throw Error(Exit::usage, where, fmt::format("no CUDA device can be used: {}", why));
}

std::string cuda_name(int index) {
  char name[200] = "";
  cuda_function<void(int, char*, int)>("bvtrain_cuda_name")(index, name, sizeof(name));
  return name;
}

void use_cuda(int index) {
  cuda_function<void(int)>("bvtrain_cuda_use")(index);
  set_deterministic(true);
}

void* cuda_symbol(const char* name) {
  check(plugin() != nullptr, "{} before the CUDA plug-in is open", name);
  void* symbol = ::dlsym(plugin(), name);
  check(symbol != nullptr, "the CUDA plug-in has no {}", name);
  return symbol;
}

void* cuda_stream(c10::Device device) {
  static auto* const stream = cuda_function<void*(int)>("bvtrain_cuda_stream");
  return stream(device.index());
}

}  // namespace bv
