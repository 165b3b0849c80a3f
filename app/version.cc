#include "app/version.h"

#include <ATen/Version.h>
#include <torch/version.h>

#include <cstdio>
#include <string>

#include "lib/device/cuda.h"
#include "lib/util/printable.h"

namespace bv {
namespace {

#ifdef __clang__
constexpr const char* kCompiler = __VERSION__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

// The version of the loaded LibTorch. It may differ from the one that was compiled against.
std::string loaded_libtorch() {
  const std::string build = at::show_config(), key = "TORCH_VERSION=";
  const size_t begin = build.find(key);
  if (begin == std::string::npos) return TORCH_VERSION;
  const std::string rest = build.substr(begin + key.size());
  return rest.substr(0, rest.find_first_of(", \n"));
}

}  // namespace

void print_version() {
  const std::string libtorch = loaded_libtorch(), plugin = cuda_plugin_file();
  std::printf("bvtrain %s\n", BV_VERSION);
  std::printf("commit: %s\n", build_commit());
  std::printf("LibTorch: %s%s\n", libtorch.c_str(),
              libtorch == TORCH_VERSION ? "" : " (built with " TORCH_VERSION ")");
  std::printf("compiler: %s\n", kCompiler);
  std::printf("CUDA plug-in: %s\n",
              plugin.empty() ? "none" : printable(plugin, std::string::npos).c_str());
}

}  // namespace bv
