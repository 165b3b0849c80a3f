// The emulated GPU (test/emulated_cuda) rejects what a GPU rejects, and its graphs replay what they
// captured. The cases are hidden: emulated_cuda/test_cuda runs them by name (cmake/Tests.cmake).
#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "lib/device/cuda.h"
#include "lib/device/device_graph.h"
#include "lib/util/error.h"

namespace bv::test {
namespace {

bool emulated() {
  static const bool is = [] {
    try {
      open_cuda("[emulated]");
      if (cuda_name(0) != "emulated GPU") return false;
      use_cuda(0);
      return true;
    } catch (const Error&) {
      return false;
    }
  }();
  return is;
}

at::Tensor on_gpu(std::initializer_list<float> values) {
  return at::tensor(at::ArrayRef<float>(values)).to(c10::Device(c10::kCUDA, 0));
}

std::vector<float> values_of(const at::Tensor& tensor) {
  const at::Tensor host = tensor.cpu().contiguous();
  return {host.const_data_ptr<float>(), host.const_data_ptr<float>() + host.numel()};
}

TEST_CASE("emulated: the host cannot touch the device's memory", "[.][emulated]") {
  REQUIRE(emulated());
  const at::Tensor x = on_gpu({1, 2});
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    _exit(*x.const_data_ptr<float>() == 1 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}

TEST_CASE("emulated: operators refuse tensors of the host, and new memory is NaN",
          "[.][emulated]") {
  REQUIRE(emulated());
  const at::Tensor x = on_gpu({1, 2});
  for (const bool matrix : {false, true}) {
    const at::Tensor host = at::ones({2, 1});
    CHECK_THROWS_WITH(matrix ? x.view({1, 2}).mm(host) : x.add(host),
                      Catch::Contains("xpected all tensors to be on the same device"));
  }
  CHECK(values_of(x.add(at::scalar_tensor(3))) == std::vector<float>{4, 5});
  CHECK(at::empty({7}, x.options()).isnan().all().item<bool>());
}

TEST_CASE("emulated: a graph repeats the kernels with the arguments that it recorded",
          "[.][emulated]") {
  REQUIRE(emulated());
  const auto recorder = cuda_graph_recorder({c10::kCUDA, 0});
  const at::Tensor x = on_gpu({1, 2}), factor = on_gpu({10});
  double by_value = 100;
  at::Tensor y;
  const auto work = [&] {
    x.add_(1);
    y = x * factor + by_value;
  };
  const auto graph = recorder->record(work);
  CHECK(values_of(x) == std::vector<float>{1, 2});  // nothing was computed
  graph->replay();
  CHECK(values_of(x) == std::vector<float>{2, 3});
  CHECK(values_of(y) == std::vector<float>{120, 130});
  by_value = 200;   // no longer has an effect
  factor.fill_(1);  // has an effect
  const at::Tensor other = at::full_like(x, 7);
  graph->replay();
  CHECK(values_of(x) == std::vector<float>{3, 4});
  CHECK(values_of(y) == std::vector<float>{103, 104});
  CHECK(values_of(other) == std::vector<float>{7, 7});  // the graph has its own memory
}

TEST_CASE("emulated: asynchronous copies are done when the host has waited for them, not before",
          "[.][emulated]") {
  REQUIRE(emulated());
  const c10::impl::VirtualGuardImpl gpu(c10::kCUDA);
  const at::Tensor x = on_gpu({1, 2}), pinned = at::zeros({2}).pin_memory();
  const auto wait = [&] {
    c10::Event now(c10::kCUDA);
    now.record(gpu.getStream(x.device()));
    now.synchronize();
  };
  pinned.copy_(x, /*non_blocking=*/true);
  CHECK(pinned.isnan().all().item<bool>());
  wait();
  CHECK(values_of(pinned) == std::vector<float>{1, 2});
  x.copy_(pinned, /*non_blocking=*/true);
  wait();
  pinned.fill_(3);  // after the copy
  x.copy_(pinned, /*non_blocking=*/true);
  pinned.fill_(4);  // too early
  CHECK_THROWS_WITH(wait(), Catch::Contains("written to memory that the device still copies"));
}

TEST_CASE("emulated: what CUDA does not permit in a recording throws", "[.][emulated]") {
  REQUIRE(emulated());
  const auto recorder = cuda_graph_recorder({c10::kCUDA, 0});
  const at::Tensor x = on_gpu({1, 2});
  const at::Tensor pageable = at::ones({2});
  CHECK_THROWS_WITH(recorder->record([&] { x.sum().item<float>(); }),
                    Catch::Contains("not permitted when stream is capturing"));
  CHECK_THROWS_WITH(recorder->record([&] { x.copy_(pageable, /*non_blocking=*/true); }),
                    Catch::Contains("not permitted when stream is capturing"));
  const c10::impl::VirtualGuardImpl gpu(c10::kCUDA);
  const c10::Stream side = gpu.getStreamFromGlobalPool(x.device());
  const auto aside = [&](bool join) {
    c10::Event begin(c10::kCUDA), end(c10::kCUDA);
    begin.record(gpu.getStream(x.device()));
    begin.block(side);
    {
      const c10::StreamGuard guard(side);
      x.mul_(3);
    }
    if (!join) return;
    end.record(side);
    end.block(gpu.getStream(x.device()));
  };
  CHECK_THROWS_WITH(recorder->record([&] { aside(false); }), Catch::Contains("not joined"));
  const auto graph = recorder->record([&] { aside(true); });
  CHECK(values_of(x) == std::vector<float>{1, 2});
  graph->replay();
  CHECK(values_of(x) == std::vector<float>{3, 6});
}

}  // namespace
}  // namespace bv::test
