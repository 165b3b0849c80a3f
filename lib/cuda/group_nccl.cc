// Creates c10d's NCCL backend for Group (lib/distributed/nccl_impl.h).
#include <nccl.h>
#include <torch/csrc/cuda/nccl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <chrono>

#include "lib/cuda/export.h"
#include "lib/distributed/nccl_impl.h"

namespace {

// ProcessGroupNCCL's options contain a struct of nccl.h, whose size depends on the version. With
// another version's header, this file and LibTorch would disagree on the layout of the options.
void check_nccl_header() {
  constexpr uint64_t kOurs = uint64_t{NCCL_MAJOR} << 32 | uint64_t{NCCL_MINOR} << 16 | NCCL_PATCH;
  const uint64_t theirs = torch::cuda::nccl::version();
  TORCH_CHECK(theirs == kOurs, "the CUDA plug-in was compiled with the nccl.h of NCCL ", NCCL_MAJOR,
              ".", NCCL_MINOR, ".", NCCL_PATCH, ", but LibTorch with that of ", theirs >> 32, ".",
              theirs >> 16 & 0xFFFF, ".", theirs & 0xFFFF, ": compile it with the same");
}

}  // namespace

BV_EXPORT void bvtrain_cuda_nccl(const c10::intrusive_ptr<c10d::Store>& keys, int rank, int size,
                                 int device, c10::intrusive_ptr<c10d::Backend>& backend) {
  check_nccl_header();
  const auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  options->timeout = std::chrono::hours(24 * 30);
  const auto nccl = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>("nccl", keys), rank, size, options);
  nccl->setBoundDeviceId(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device)));
  backend = nccl;
}
