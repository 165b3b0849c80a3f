// --devices cuda on a host without a GPU, also with a fake driver library.
#include <unistd.h>

#include <catch2/catch.hpp>

#include "lib/device/cuda.h"
#include "test/support/binary.h"

namespace bv::test {
namespace {

Finished train_on(const std::string& devices, const Environment& environment = {}) {
  return run({"--config", source_file("configs/digits_cnn.yaml"), "--set", "total_steps=2", "--set",
              "evals=null", "--devices", devices},
             environment);
}

TEST_CASE("without a driver --devices cuda is refused, and auto means the CPU") {
  if (has_cuda_driver()) {
    WARN("skipped: this host has a driver");
    return;
  }
  for (const std::string devices : {"cuda", "cuda:0,1", "cuda:all"}) {
    const Finished finished = train_on(devices);
    CHECK(finished.code == 2);
    CHECK(finished.err == "--devices " + devices + ": error: this host has no NVIDIA driver\n");
  }
  CHECK(train_on("auto").code == 0);
  // A dry run may be of a run on another host.
  const Finished dry =
      run({"--config", source_file("configs/digits_cnn.yaml"), "--devices", "cuda:2", "--dry-run"});
  CHECK(dry.code == 0);
  CHECK_THAT(dry.err, Catch::EndsWith("warning: --devices cuda:2: error: this host has no NVIDIA "
                                      "driver; a run on this host would end with code 2\n"));
  for (const std::string command : {"eval", "predict"}) {
    const auto on = [&](const char* devices) {
      return run({command, "--workdir", "nowhere", "--devices", devices,
                  command == "eval" ? "--best" : "image.jpg"})
          .err;
    };
    CHECK(on("cuda:1") == "--devices cuda:1: error: this host has no NVIDIA driver\n");
    CHECK(on("cpu:2") == "--devices cpu:2: error: " + command + " runs in one process\n");
  }
  // Another library under the driver's name.
  const TempFolder folder;
  REQUIRE(::symlink("/lib/x86_64-linux-gnu/libz.so.1", (folder / "libcuda.so.1").c_str()) == 0);
  const Environment with_driver = {{"LD_LIBRARY_PATH", folder.path()}};
  const Finished finished = train_on("cuda", with_driver);
  CHECK(finished.code == 2);
  CHECK_THAT(finished.err,
             Catch::Matches("--devices cuda: error: (this build has no libbvtrain_cuda\\.so: .*|"
                            "cannot open libbvtrain_cuda\\.so: .* \\(docs/gpu\\.md\\)|"
                            "no CUDA device can be used: .*)\n"));
  const Finished automatic = train_on("auto", with_driver);
  CHECK(automatic.code == 0);
  CHECK_THAT(automatic.err, Catch::Contains("; computing on CPUs\n"));
}

}  // namespace
}  // namespace bv::test
