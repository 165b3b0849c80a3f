// scripts/setup.sh and scripts/bvtrain.sh: which LibTorch they use, what they report as missing,
// and when they configure and build again; which build sweep.sh and cron.sh use; what portable.sh
// copies. cmake, ninja and nvcc are mocks that record their calls.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

struct Result {
  int code;
  std::string out;  // standard output and standard error
};

// A checkout with only the scripts, and a folder of programs that come first in PATH.
struct Checkout {
  TempFolder dir;

  Checkout() {
    for (const char* script :
         {"setup.sh", "bvtrain.sh", "portable.sh", "sweep.sh", "grid.sh", "cron.sh"}) {
      std::filesystem::create_directories(dir / "scripts");
      std::filesystem::copy_file(source_file(std::string("scripts/") + script),
                                 dir / (std::string("scripts/") + script));
    }
    for (const char* folder : {"cmake", "app", "lib", "models", "cache", "bin"}) dir.make(folder);
    dir.write("CMakeLists.txt", "");
    program("cmake",
            "echo cmake \"$@\" >>calls; mkdir -p build/release; touch build/release/build.ninja");
    program("ninja",
            "echo ninja \"${@:3}\" >>calls; mkdir -p build/release\n"
            "printf '#!/bin/bash\\necho ran \"$@\"\\n' >build/release/bvtrain\n"
            "chmod +x build/release/bvtrain");
    libtorch("torch", 11);
    dir.write("nvidia/cu13/lib/libcudart.so.13", "");
    program("dpkg-query", "echo ii");
  }

  void program(const std::string& name, const std::string& text) const {
    const std::string file = dir.write("bin/" + name, "#!/bin/bash\n" + text + "\n");
    ::chmod(file.c_str(), 0755);
  }
  // A folder that looks like LibTorch 2.<minor> with its CUDA half.
  void libtorch(const std::string& name, int minor) const {
    dir.write(name + "/lib/libtorch_cpu.so", "");
    dir.write(name + "/lib/libtorch_cuda.so", "");
    dir.write(name + "/include/ATen/core/Tensor.h", "");
    dir.write(name + "/include/torch/headeronly/version.h",
              "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR " +
                  std::to_string(minor) + "\n");
  }
  // Runs `command` with bash in the checkout; `variables` are assignments in front of it.
  Result bash(const std::string& command, const std::string& variables = "",
              const std::string& path = "$PWD/bin:/usr/bin:/bin") const {
    const std::string line =
        "cd " + dir.path() + " && env -u BVTRAIN_CUDA XDG_CACHE_HOME=$PWD/cache PATH=" + path +
        " CUDA_HOME=/nowhere " + variables + " /bin/bash -c '" + command + "' >out 2>&1";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(dir / "out")};
  }
  Result sourced(const std::string& command, const std::string& variables) const {
    return bash("source scripts/setup.sh; " + command, variables);
  }
  std::string take_calls() const {
    const std::string calls = read_text(dir / "calls");
    std::filesystem::remove(dir / "calls");
    return calls;
  }
};

}  // namespace

TEST_CASE("BVTRAIN_LIBTORCH names an existing LibTorch, and nothing is downloaded") {
  const Checkout checkout;
  checkout.program("python3", "echo a download was tried; exit 1");
  checkout.libtorch("venv/torch", 11);
  checkout.libtorch("old", 10);
  const std::string show = "bv_find_libtorch; bv_fetch_cuda; echo $bv_torch";

  const Result direct = checkout.sourced(show, "BVTRAIN_LIBTORCH=$PWD/torch BVTRAIN_CUDA=1");
  CHECK(direct.out == checkout.dir / "torch\n");
  CHECK(direct.code == 0);
  // The folder that contains torch, such as site-packages, is also accepted.
  CHECK(checkout.sourced(show, "BVTRAIN_LIBTORCH=venv").out == checkout.dir / "venv/torch\n");

  const Result old = checkout.sourced(show, "BVTRAIN_LIBTORCH=old");
  CHECK(old.code == 2);
  CHECK(old.out == "bvtrain set-up: BVTRAIN_LIBTORCH=old is LibTorch 2.10; bvtrain needs 2.11\n");
  const Result none = checkout.sourced(show, "BVTRAIN_LIBTORCH=bin");
  CHECK(none.code == 2);
  CHECK_THAT(none.out, Catch::StartsWith("bvtrain set-up: BVTRAIN_LIBTORCH=bin holds no LibTorch: "
                                         "lib/libtorch_cpu.so and include/ are not found there\n"));
}

TEST_CASE("without Debian's tools the set-up goes on where nothing is missing") {
  const Checkout checkout;
  std::filesystem::remove(checkout.dir / "bin/dpkg-query");
  for (const char* tool : {"dirname", "git", "python3"})
    checkout.program(tool, std::string("exec /usr/bin/") + tool + " \"$@\"");
  checkout.program("g++", "[[ ! -e no-header ]]");  // whether a header is found
  const auto install = [&] {
    return checkout.bash("source scripts/setup.sh; bv_install_packages; echo goes on", "",
                         "$PWD/bin");
  };

  CHECK(install().out == "goes on\n");
  std::filesystem::remove(checkout.dir / "bin/ninja");
  checkout.dir.write("no-header", "");
  const Result missing = install();
  CHECK(missing.code == 2);
  CHECK(missing.out ==
        "bvtrain set-up: apt-get is not found here; install what your system calls these Debian "
        "packages: ninja-build libcli11-dev libyaml-cpp-dev libspdlog-dev libfmt-dev catch2 "
        "nlohmann-json3-dev libjpeg-dev libspng-dev libwebp-dev libdeflate-dev libzstd-dev "
        "libxxhash-dev libgloo-dev\n");
}

TEST_CASE("what dpkg does not list can be there all the same") {
  const Checkout checkout;
  checkout.program("dpkg-query", "exit 1");
  // With the real compiler. jpeglib.h can't be compiled alone: it needs <cstdio> before it.
  CHECK(checkout.sourced("bv_is_found libjpeg-dev && echo found", "").out == "found\n");
  for (const char* tool : {"dirname", "git", "python3"})
    checkout.program(tool, std::string("exec /usr/bin/") + tool + " \"$@\"");
  checkout.program("g++", "");
  const auto missing = [&] {
    return checkout.bash("source scripts/setup.sh; echo $(bv_missing_packages)", "", "$PWD/bin")
        .out;
  };
  CHECK(missing() == "lld ccache ca-certificates python3-pip\n");
  std::filesystem::remove(checkout.dir / "bin/g++");  // nothing can look for headers
  CHECK(missing() ==
        "g++ lld ccache ca-certificates python3-pip libcli11-dev libyaml-cpp-dev libspdlog-dev "
        "libfmt-dev catch2 nlohmann-json3-dev libjpeg-dev libspng-dev libwebp-dev libdeflate-dev "
        "libzstd-dev libxxhash-dev libgloo-dev\n");
}

TEST_CASE("portable.sh copies the CUDA plug-in of the build on a machine without a GPU") {
  const Checkout checkout;
  checkout.program("ldd", "echo libown.so '=>' \"$PWD/libown.so\"");
  checkout.dir.write("libown.so", "");
  checkout.program("strip", "");
  checkout.dir.write("configs/a.yaml", "");
  const auto carry = [&](const std::string& variables) {
    return checkout.bash("scripts/portable.sh carried", "BVTRAIN_LIBTORCH=$PWD/torch " + variables);
  };
  checkout.dir.write("build/release/libbvtrain_cuda.so", "");
  const Result carried = carry("");
  INFO(carried.out);
  CHECK(carried.code == 0);
  CHECK_THAT(checkout.take_calls(), Catch::EndsWith("ninja bvtrain bvtrain_cuda\n"));
  CHECK(exists(checkout.dir / "carried/libbvtrain_cuda.so"));

  std::filesystem::remove_all(checkout.dir / "carried");
  CHECK(carry("BVTRAIN_CUDA=0").code == 0);
  CHECK_THAT(checkout.take_calls(), Catch::EndsWith("ninja bvtrain\n"));
  CHECK_FALSE(exists(checkout.dir / "carried/libbvtrain_cuda.so"));
}

TEST_CASE("bvtrain.sh builds again when CUDA is asked for, nvcc appears or LibTorch is another") {
  const Checkout checkout;
  const auto run_script = [&](const std::string& variables) {
    return checkout.bash("scripts/bvtrain.sh --version", variables);
  };
  const std::string cpu = "BVTRAIN_LIBTORCH=$PWD/torch BVTRAIN_CUDA=0";
  const std::string cuda = "BVTRAIN_LIBTORCH=$PWD/torch BVTRAIN_CUDA=1";

  CHECK(run_script(cpu).out == "ran --version\n");
  const std::string configured =
      "cmake --preset release -U BV_NVCC -D BVTRAIN_LIBTORCH=" + (checkout.dir / "torch\n");
  CHECK(checkout.take_calls() == configured + "ninja bvtrain\n");
  CHECK(run_script(cpu).out == "ran --version\n");
  CHECK(checkout.take_calls().empty());
  // Through a symbolic link it is the same checkout.
  REQUIRE(::symlink("../scripts/bvtrain.sh", (checkout.dir / "bin/bv").c_str()) == 0);
  CHECK(checkout.bash("bin/bv --version", cpu).out == "ran --version\n");
  CHECK(checkout.take_calls().empty());

  // CUDA is requested, but nothing can build it. The script reports that, and the CPU part runs.
  const Result in_vain = run_script(cuda);
  CHECK_THAT(in_vain.out, Catch::StartsWith("bvtrain set-up: nvcc is not found, so the CUDA "
                                            "plug-in is not built") &&
                              Catch::EndsWith("ran --version\n"));
  checkout.take_calls();

  checkout.program("nvcc", "");
  CHECK(run_script(cuda).out == "ran --version\n");
  CHECK(checkout.take_calls() == configured + "ninja bvtrain bvtrain_cuda\n");
  CHECK(run_script(cuda).out == "ran --version\n");
  CHECK(checkout.take_calls().empty());

  checkout.libtorch("other", 11);
  CHECK(run_script("BVTRAIN_LIBTORCH=$PWD/other BVTRAIN_CUDA=0").out == "ran --version\n");
  CHECK_THAT(checkout.take_calls(),
             Catch::Contains("BVTRAIN_LIBTORCH=" + (checkout.dir / "other\n")));

  // A LibTorch with CUDA's libraries in its own folder: CMake would have no target for the plug-in.
  checkout.libtorch("zip/libtorch", 11);
  const Result zip = run_script("BVTRAIN_LIBTORCH=$PWD/zip/libtorch BVTRAIN_CUDA=1");
  CHECK(zip.out == "bvtrain set-up: nvidia/cu13/lib/libcudart.so.13 is not next to " +
                       (checkout.dir / "zip/libtorch") +
                       ", as in a Python environment, so the CUDA plug-in is not built\n"
                       "ran --version\n");
  CHECK_THAT(checkout.take_calls(), Catch::EndsWith("ninja bvtrain\n"));
}

TEST_CASE("two calls of bvtrain.sh build one after the other") {
  const Checkout checkout;
  checkout.program("ninja",
                   "[[ ! -e busy ]] || echo at once >>calls\n"
                   "touch busy; sleep 0.3; rm busy; mkdir -p build/release\n"
                   "printf '#!/bin/bash\\necho ran' >build/release/bvtrain\n"
                   "chmod +x build/release/bvtrain");
  const Result both =
      checkout.bash("scripts/bvtrain.sh & scripts/bvtrain.sh && wait $! && echo both",
                    "BVTRAIN_LIBTORCH=$PWD/torch BVTRAIN_CUDA=0");
  INFO(both.out);
  CHECK_THAT(both.out, Catch::EndsWith("both\n"));
  CHECK(count(both.out, "ran\n") == 2);
  CHECK_FALSE(contains(checkout.take_calls(), "at once"));
}

TEST_CASE("two first set-ups download LibTorch once") {
  const Checkout checkout;
  checkout.program("python3",
                   "if [[ $1 == -m ]]; then echo fetch >>calls; sleep 0.3\n"
                   "else mkdir -p \"$2/unpacked/torch\"; fi");
  checkout.dir.write("cache/bvtrain/fetch/torch.whl", "");  // of an interrupted download
  const Result both = checkout.sourced(
      "bv_find_libtorch & bv_find_libtorch && wait $! && echo both", "BVTRAIN_LIBTORCH=");
  INFO(both.out);
  CHECK_THAT(both.out, Catch::EndsWith("both\n"));
  CHECK(checkout.take_calls() == "fetch\n");
  CHECK(exists(checkout.dir / "cache/bvtrain/libtorch-2.11.0/torch"));
  CHECK_FALSE(exists(checkout.dir / "cache/bvtrain/fetch"));
}

TEST_CASE("a sweep builds once, and its points run that build") {
  const Checkout checkout;
  // Each run of the built bvtrain changes a source. The mock of `ln` fails, as on a file system
  // without hard links.
  checkout.program("ninja",
                   "echo ninja >>calls; mkdir -p build/release\n"
                   "printf '#!/bin/bash\\necho ran \"$@\" >>calls; touch lib/source' "
                   ">build/release/bvtrain\n"
                   "chmod +x build/release/bvtrain");
  checkout.program("ln", "exit 1");
  checkout.dir.write("c.yaml", "include: base.yaml\n");
  checkout.dir.write("base.yaml", "seed: 0\n");
  checkout.dir.make("links/deep");
  REQUIRE(::symlink((checkout.dir / "scripts/sweep.sh").c_str(),
                    (checkout.dir / "links/deep/sweep").c_str()) == 0);
  const auto sweep = [&] {
    return checkout.bash("links/deep/sweep --config c.yaml --out runs --grid lr 1 2",
                         "BVTRAIN_LIBTORCH=$PWD/torch BVTRAIN_CUDA=0");
  };
  const Result first = sweep();
  INFO(first.out);
  CHECK(first.code == 0);
  const std::string calls = checkout.take_calls();
  CHECK(count(calls, "ninja\n") == 1);
  CHECK_THAT(calls, Catch::EndsWith("ran --version\n"
                                    "ran --config c.yaml --set lr=1 --workdir runs/lr=1\n"
                                    "ran --config c.yaml --set lr=2 --workdir runs/lr=2\n"));

  // A change of an included file is a change of the config.
  checkout.dir.write("base.yaml", "seed: 1\n");
  const Result changed = sweep();
  CHECK(changed.code == 2);
  CHECK(contains(changed.out,
                 "sweep: error: runs was begun with other arguments, or the config has changed "
                 "since:\n  then: ./base.yaml "));

  checkout.dir.make("locked/.sweep.lock");  // a folder cannot be written
  const Result locked = checkout.bash("scripts/sweep.sh --config c.yaml --out locked --grid lr 1",
                                      "BVTRAIN_BINARY=/bin/true");
  CHECK(locked.code == 5);
  CHECK(contains(locked.out, "locked/.sweep.lock: "));
  CHECK_FALSE(contains(locked.out, "another sweep"));
}

TEST_CASE("a sweep starts no point after its config has changed") {
  const Checkout checkout;
  checkout.dir.write("c.yaml", "seed: 0\n");
  checkout.program("run", "[[ $1 != --config ]] || echo seed: 1 >$2");
  const auto sweep = [&] {
    return checkout.bash("scripts/sweep.sh --config c.yaml --out runs --grid lr 1 2 3",
                         "BVTRAIN_BINARY=$PWD/bin/run");
  };
  const Result changed = sweep();
  INFO(changed.out);
  CHECK(changed.code == 2);
  CHECK(contains(changed.out, "[1/3] lr=1: finished"));
  CHECK(contains(changed.out, "or the config has changed since:\n  then: c.yaml "));
  CHECK(contains(changed.out, "[2/3] lr=2: not started, nor those after it\n"));
  CHECK_FALSE(exists(checkout.dir / "runs/lr=2"));
  CHECK_FALSE(exists(checkout.dir / "runs/lr=3"));
  checkout.dir.write("c.yaml", "seed: 0\n");
  checkout.program("run", "");
  CHECK(sweep().code == 0);
}

TEST_CASE("a sweep waits for its other runs if it cannot make a workdir") {
  const Checkout checkout;
  checkout.dir.write("c.yaml", "");
  checkout.dir.write("runs/lr=2", "a file");
  checkout.program("run", "[[ $1 != --config ]] || sleep 0.5");
  const Result end =
      checkout.bash("scripts/sweep.sh --config c.yaml --out runs --grid lr 1 2 3 --jobs 2",
                    "BVTRAIN_BINARY=$PWD/bin/run");
  INFO(end.out);
  CHECK(end.code == 5);
  CHECK(contains(end.out, "[1/3] lr=1: finished"));
  CHECK(contains(end.out, "[2/3] lr=2: not started: its workdir cannot be made\n"));
  CHECK(contains(end.out, "[3/3] lr=3: finished"));
}

TEST_CASE("a sweep reads the GPUs from nvidia-smi, and not its errors") {
  const Checkout checkout;
  const auto first = [&](const std::string& smi) {
    checkout.program("nvidia-smi", smi);
    const std::string out =
        checkout
            .bash(
                "unset CUDA_VISIBLE_DEVICES BVTRAIN_DEVICES; "
                "scripts/sweep.sh --config c --out runs --grid lr 1 2 --jobs 2 --dry-run",
                "BVTRAIN_BINARY=/bin/true")
            .out;
    return out.substr(0, out.find("taskset"));
  };
  CHECK(first("printf \"0\\n1\\n\"") == "env CUDA_VISIBLE_DEVICES=0 ");
  CHECK(first("echo Failed to initialize NVML: Driver/library version mismatch; exit 18").empty());
}

TEST_CASE("a sweep on a file system without locks does not blame another sweep") {
  const Checkout checkout;
  checkout.dir.write("c.yaml", "");
  checkout.program("flock", "echo flock: no locks available; exit 71");
  const Result end = checkout.bash("scripts/sweep.sh --config c.yaml --out runs --grid lr 1",
                                   "BVTRAIN_BINARY=/bin/true");
  CHECK(end.code == 5);
  CHECK(end.out == "flock: no locks available\n");
}

TEST_CASE("portable.sh copies a library of two programs once, also where `cp -n` fails then") {
  const Checkout checkout;
  checkout.program("ldd", "echo libown.so '=>' \"$PWD/libown.so\"");
  checkout.program("cp",
                   "for last; do :; done\n"
                   "[[ $1 != -n* || ! -e $last/libown.so ]] || exit 1\n"
                   "exec /bin/cp \"$@\"");
  checkout.program("strip", "");
  checkout.dir.write("libown.so", "");
  checkout.dir.write("configs/a.yaml", "");
  checkout.dir.write("build/release/other", "");
  // An exported CDPATH makes cd print its folder.
  const Result carried = checkout.bash("scripts/portable.sh carried other",
                                       "BVTRAIN_LIBTORCH=$PWD/torch BVTRAIN_CUDA=0 CDPATH=.");
  INFO(carried.out);
  CHECK(carried.code == 0);
  CHECK(exists(checkout.dir / "carried/lib/libown.so"));
  CHECK(exists(checkout.dir / "carried/run"));
}

TEST_CASE("cron.sh runs the build that is there, and builds nothing") {
  const Checkout checkout;
  checkout.dir.make("run");
  const auto cron = [&] { return checkout.bash("scripts/cron.sh --config c --workdir run"); };
  const Result none = cron();
  CHECK(none.code == 2);
  CHECK(none.out == "cron.sh: error: no " + (checkout.dir / "build/release/bvtrain") +
                        ": build it with scripts/bvtrain.sh --version, or set BVTRAIN_BINARY\n");
  CHECK_FALSE(exists(checkout.dir / "run/FAILED"));

  REQUIRE(checkout.bash("ninja").code == 0);
  checkout.take_calls();
  const Result started = cron();
  CHECK(started.code == 0);
  CHECK(started.out.empty());
  CHECK(checkout.take_calls().empty());
  CHECK(contains(read_text(checkout.dir / "run/cron.log"), "ran --config c --workdir run\n"));
}

}  // namespace bv::test
