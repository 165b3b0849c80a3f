// The parts of packages: cmake --install, the arguments of scripts/package.sh, the launcher of the
// packages without LibTorch, and the commit that --version prints.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

Finished bash(const std::string& command, const Environment& environment = {}) {
  return Process("/bin/bash", {"bash", "-euc", command}, environment).wait();
}

void write_program(const std::string& file, const std::string& text) {
  write(file, text);
  ::chmod(file.c_str(), 0755);
}

// The folders in which a file looks for libraries, as the dynamic loader reads them.
std::string run_path(const std::string& file) {
  const Finished read =
      bash("readelf -d '" + file + "' | sed -nE 's/.*\\(R(UN)?PATH\\).*\\[(.*)\\]$/\\2/p'");
  INFO(read.err);
  REQUIRE(read.code == 0);
  return read.out;
}

// ---- the launcher

// The launcher with a mock bvtrain, which prints how it was called.
struct Launcher {
  TempFolder dir;
  std::string bin = dir / "env/bin/bvtrain";
  std::string packages = dir / "env/lib/python3.11/site-packages";

  Launcher() {
    const std::string text = read_text(source_file("scripts/package/launcher.sh"));
    write_program(bin, replace_all(replace_all(text, "@BUILD@", "0.1.0-abc"), "@TORCH@", "2.11"));
    program(packages + "/bvtrain", "0.1.0-abc");
  }
  void program(const std::string& folder, const std::string& build) const {
    write(folder + "/" + build, "");
    write_program(folder + "/bvtrain",
                  "#!/bin/sh\necho " + build + " \"$@\" path=$LD_LIBRARY_PATH\n");
  }
  void torch(const std::string& folder, const std::string& version) const {
    write(folder + "/lib/libtorch_cpu.so", "");
    write(folder + "/version.py", "from typing import Optional\n__version__ = '" + version + "'\n");
  }
  Finished run(const std::string& program, const std::string& torch = "") const {
    return bash("exec env -u LD_LIBRARY_PATH BVTRAIN_LIBTORCH='" + torch + "' '" + program +
                "' --seed 'a b'");
  }
};

// ---- package.sh

// A checkout in which package.sh runs. The programs that build and that edit binaries are mocks.
// The mock bvtrain prints the checkout's commit, followed by the contents of `state`.
struct PackedCheckout {
  TempFolder dir;

  PackedCheckout() {
    for (const char* script :
         {"package.sh", "setup.sh", "package/launcher.sh", "package/wheel.py"}) {
      const std::string name = std::string("scripts/") + script;
      write_program(dir / name, read_text(source_file(name)));
    }
    for (const char* tool : {"ninja", "objdump", "patchelf", "strip"}) program(tool, "");
    program(
        "cmake",
        "[[ $1 == --install ]] || exit 0\n"
        "mkdir -p \"$4\"/{bin,lib/bvtrain,share/doc/bvtrain}\n"
        "touch \"$4\"/bin/bvtrain \"$4\"/lib/bvtrain/libown.so \"$4\"/share/doc/bvtrain/LICENSE");
    program("dpkg-shlibdeps", "echo shlibs:Depends=libc6");
    dir.write("README.md", "bvtrain\n");
    dir.write("state", "");
    dir.write("torch/lib/libtorch_cpu.so", "");
    dir.write("torch/include/ATen/core/Tensor.h", "");
    dir.write("torch/include/torch/headeronly/version.h",
              "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 11\n");
    write_program(dir / "build/release/bvtrain",
                  "#!/bin/bash\ncd '" + dir.path() +
                      "'\nfound=$(git rev-parse --short=12 HEAD 2>/dev/null) || found=unknown\n"
                      "printf 'bvtrain 0.1.0\\ncommit: %s%s\\n' $found \"$(cat state)\"\n");
  }
  void program(const std::string& name, const std::string& text) const {
    write_program(dir / "bin/" + name, "#!/bin/bash\n" + text + "\n");
  }
  // Makes a commit and returns its hash as --version prints it.
  std::string commit() const {
    const std::string git = "git -c user.name=a -c user.email=a@b.c ";
    const Finished made = bash("cd '" + dir.path() + "'; " + git + "init -q; " + git +
                               "commit -q --allow-empty -m one; git rev-parse --short=12 HEAD");
    INFO(made.err);
    REQUIRE(made.code == 0);
    return made.out.substr(0, 12);
  }
  // Returns the names of all packages in build/packages after a call of package.sh.
  std::string pack(const std::string& arguments) const {
    const Finished packed =
        bash("cd '" + dir.path() + "'; env PATH=\"$PWD/bin:$PATH\" BVTRAIN_LIBTORCH=$PWD/torch " +
             "scripts/package.sh " + arguments + " >&2; ls build/packages");
    INFO(packed.err);
    REQUIRE(packed.code == 0);
    return packed.out;
  }
};

}  // namespace

TEST_CASE("an installation can be moved and holds no path of the build") {
  const char* binary = std::getenv("BVTRAIN");
  REQUIRE(binary);
  const std::string build = std::filesystem::path(binary).parent_path().string();
  const TempFolder dir;
  const Finished install = bash("for part in bvtrain cuda; do cmake --install '" + build +
                                "' --component $part --prefix " + (dir / "first") + "; done");
  INFO(install.err);
  REQUIRE(install.code == 0);
  std::filesystem::rename(dir / "first", dir / "moved");
  const std::string installed = dir / "moved/bin/bvtrain";
  CHECK(run_path(installed) == "$ORIGIN/../lib/bvtrain\n");
  const std::string plugin = dir / "moved/lib/bvtrain/libbvtrain_cuda.so";
  CHECK(exists(plugin) == exists(build + "/libbvtrain_cuda.so"));
  if (exists(plugin)) CHECK(run_path(plugin) == "$ORIGIN\n");
  CHECK(exists(dir / "moved/share/bvtrain/configs/digits_cnn.yaml"));
  CHECK(exists(dir / "moved/share/doc/bvtrain/LICENSE"));

  // LibTorch is another component. Here it is that of the build.
  std::string libraries = run_path(binary);
  libraries.pop_back();
  CHECK(!contains(":" + libraries + ":", "::"));  // an empty entry means the current folder
  const Finished version =
      bash("exec '" + installed + "' --version", {{"LD_LIBRARY_PATH", libraries}});
  INFO(version.err);
  CHECK(version.code == 0);
  CHECK(contains(version.out, "\nCUDA plug-in: " +
                                  (exists(plugin) ? dir / "moved/bin/../lib/bvtrain/" : "none")));
}

TEST_CASE("the CUDA plug-in loads CUDA's libraries from LibTorch, not from LD_LIBRARY_PATH") {
  const char* binary = std::getenv("BVTRAIN");
  REQUIRE(binary);
  const std::string plugin =
      (std::filesystem::path(binary).parent_path() / "libbvtrain_cuda.so").string();
  if (!exists(plugin)) return;
  const TempFolder other;  // of another CUDA toolkit
  std::filesystem::copy_file("/lib/x86_64-linux-gnu/libm.so.6", other / "libcudart.so.13");
  const Finished libraries = bash("ldd '" + plugin + "'", {{"LD_LIBRARY_PATH", other.path()}});
  INFO(libraries.out << libraries.err);
  CHECK(contains(libraries.out, "/nvidia/cu13/lib/libcudart.so.13"));
  CHECK(!contains(libraries.out, other / "libcudart.so.13"));
}

TEST_CASE("package.sh refuses what it cannot pack") {
  const std::string script = source_file("scripts/package.sh");
  const auto refused = [&](const std::string& arguments) {
    const Finished finished = bash("exec '" + script + "' " + arguments);
    CHECK(finished.code == 2);
    CHECK(finished.out.empty());
    return finished.err;
  };
  const std::string usage =
      "usage: scripts/package.sh deb|wheel|tarball [--without-libtorch] [--output DIR]\n";
  CHECK(refused("") == "scripts/package.sh: error: " + usage);
  CHECK(refused("rpm") == "scripts/package.sh: error: unknown package 'rpm'; " + usage);
  CHECK(refused("deb --out x") ==
        "scripts/package.sh: error: unknown argument '--out'; known: --without-libtorch, --output "
        "DIR\n");
  CHECK(refused("wheel --output") == "scripts/package.sh: error: --output needs a folder\n");
  CHECK(
      refused("wheel --without-libtorch") ==
      "scripts/package.sh: error: --without-libtorch is for deb; the wheel never holds LibTorch\n");
}

TEST_CASE("each commit gives the wheel and the Debian package another version") {
  const PackedCheckout checkout;
  const std::string tag = "-py3-none-manylinux_";
  CHECK_THAT(checkout.pack("wheel"), Catch::StartsWith("bvtrain-0.1.0" + tag));  // not a repository

  checkout.commit();
  const std::string second = "0.1.0+2.g" + checkout.commit();
  const std::string wheel = checkout.pack("wheel");
  CHECK_THAT(wheel, Catch::StartsWith("bvtrain-" + second + tag));
  CHECK(count(wheel, "\n") == 1);  // the older wheel is gone: pip refuses two at once

  CHECK(checkout.pack("deb --without-libtorch") ==
        wheel + "bvtrain-without-libtorch_" + second + "_amd64.deb\n");
  const std::string deb = checkout.dir / "build/packages/*.deb";
  CHECK(bash("dpkg-deb --field " + deb + " Version").out == second + "\n");

  // Two builds with uncommitted changes can have the same commit.
  checkout.dir.write("state", "-dirty");
  CHECK_THAT(checkout.pack("wheel"), Catch::Contains("bvtrain-" + second + ".dirty.2"));
}

TEST_CASE("a package holds no path of the checkout; bvtrain's own words are none") {
  const PackedCheckout checkout;
  // The check of package.sh on a file with `text`, for a checkout in /app.
  const auto found = [&](const std::string& text) {
    write(checkout.dir / "tree/file", "\177ELF " + text);
    return bash("PATH='" + (checkout.dir / "bin") +
                "':$PATH; source <(sed -n '/^check_paths()/,/^}/p' '" +
                source_file("scripts/package.sh") +
                "'); fail() { echo \"$1\"; exit 2; }; root=/app bv_torch=/a+b/torch work='" +
                checkout.dir.path() + "'; check_paths '" + (checkout.dir / "tree") + "'")
        .out;
  };
  CHECK(found("/lib/ /app/ /.cache/app/index x/app/y /app").empty());
  CHECK(found("in /app/lib/a.cc") == "tree/file names the folder /app\n");
  CHECK(found("/a+b/torch/lib") == "tree/file names the folder /a+b/torch\n");
}

TEST_CASE("packages contain the licences of the libraries that are compiled into bvtrain") {
  const PackedCheckout checkout;
  checkout.pack("deb --without-libtorch");
  const std::string files =
      bash("dpkg-deb --contents " + (checkout.dir / "build/packages/*.deb")).out;
  INFO(files);
  for (const char* library : {"libcli11-dev", "libwebp-dev", "nlohmann-json3-dev"})
    CHECK(contains(files, std::string("/usr/share/doc/bvtrain/licences/") + library + "\n"));
}

TEST_CASE("the launcher finds bvtrain and LibTorch where pip and dpkg put them") {
  const Launcher launcher;
  launcher.torch(launcher.packages + "/torch", "2.11.0+cpu");
  const std::string called = "0.1.0-abc --seed a b path=";
  // CUDA's libraries come with LibTorch, before those of an installed CUDA toolkit.
  const auto libraries_of = [](const std::string& torch) {
    return torch + "/lib:" + torch + "/../nvidia/cu13/lib\n";
  };
  CHECK(launcher.run(launcher.bin).out == called + "\n");

  SECTION("through a symbolic link") {
    launcher.dir.make("other");
    REQUIRE(::symlink("../env/bin/bvtrain", (launcher.dir / "other/bvtrain").c_str()) == 0);
    CHECK(launcher.run(launcher.dir / "other/bvtrain").out == called + "\n");
  }
  SECTION("a package of another Python is not taken") {
    launcher.program(launcher.dir / "env/lib/python3.10/site-packages/bvtrain", "0.0.9-old");
    CHECK(launcher.run(launcher.bin).out == called + "\n");
  }
  SECTION("Debian's folder, with LibTorch from Python's packages") {
    const std::string deb = launcher.dir / "usr/bin/bvtrain";
    write_program(deb, read_text(launcher.bin));
    launcher.program(launcher.dir / "usr/lib/bvtrain", "0.1.0-abc");
    const std::string torch = launcher.packages + "/torch";
    CHECK(launcher.run(deb, torch).out == called + libraries_of(torch));
    CHECK(launcher.run(deb, launcher.packages).out == called + libraries_of(torch));
  }
  SECTION("LibTorch that only Python finds") {
    std::filesystem::rename(launcher.packages + "/torch", launcher.dir / "system");
    write_program(launcher.dir / "env/bin/python3",
                  "#!/bin/sh\necho " + (launcher.dir / "system") + "\n");
    CHECK(launcher.run(launcher.bin).out == called + libraries_of(launcher.dir / "system"));
  }
}

TEST_CASE("the launcher says what is missing before the dynamic loader does") {
  const Launcher launcher;
  const std::string remedy =
      "; set BVTRAIN_LIBTORCH to the folder of a Python package torch==2.11.*, which this prints: "
      "python3 -c 'import torch; print(torch.__path__[0])'\n";
  const Finished none = launcher.run(launcher.bin);
  CHECK(none.code == 2);
  CHECK(none.err == "bvtrain: error: LibTorch 2.11 is not found" + remedy);
  CHECK(launcher.run(launcher.bin, "/nowhere").err ==
        "bvtrain: error: LibTorch 2.11 is not found in BVTRAIN_LIBTORCH=/nowhere" + remedy);

  const std::string torch = launcher.packages + "/torch";
  launcher.torch(torch, "2.12.0+cpu");
  const Finished newer = launcher.run(launcher.bin, torch);
  CHECK(newer.code == 2);
  CHECK(newer.err == "bvtrain: error: " + torch + " is LibTorch 2.12.0+cpu; bvtrain needs 2.11\n");
  std::filesystem::remove(torch + "/version.py");
  CHECK(launcher.run(launcher.bin, torch).err ==
        "bvtrain: error: " + torch + " is LibTorch of an unknown version; bvtrain needs 2.11\n");
  // Two other forms of LibTorch state their version in other files.
  write(torch + "/build-version", "2.11.0+cu130\n");
  CHECK(launcher.run(launcher.bin, torch).code == 0);
  std::filesystem::remove(torch + "/build-version");
  write(torch + "/include/torch/headeronly/version.h",
        "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 11\n");
  CHECK(launcher.run(launcher.bin, torch).code == 0);

  std::filesystem::remove(launcher.packages + "/bvtrain/0.1.0-abc");
  const Finished lost = launcher.run(launcher.bin, torch);
  CHECK(lost.code == 2);
  CHECK(lost.err == "bvtrain: error: the files of bvtrain 0.1.0-abc are not found next to " +
                        launcher.bin + "; install it again\n");
}

TEST_CASE("a build looks its commit up, and writes it only if it is another one") {
  const TempFolder dir;
  const std::string root = dir / "clone", source = dir / "commit.cc";
  for (const char* folder : {"cmake", "app", "lib", "models", "docs"})
    write(root + "/" + folder + "/a.txt", "1");
  write(root + "/CMakeLists.txt", "");
  const auto commit_of = [&](const std::string& sources) {
    const Finished wrote = bash("cmake -D ROOT=" + sources + " -D OUTPUT=" + source + " -P " +
                                source_file("cmake/write_commit.cmake"));
    INFO(wrote.err);
    REQUIRE(wrote.code == 0);
    const std::string text = read_text(source);
    const size_t begin = text.find('"', text.find("return")) + 1;
    return text.substr(begin, text.find('"', begin) - begin);
  };
  CHECK(commit_of(root) == "unknown");

  const std::string git = "git -C " + root + " -c user.name=a -c user.email=a@b.c ";
  const Finished made = bash(git + "init -q; " + git + "add .; " + git + "commit -q -m one; " +
                             git + "rev-parse HEAD");
  REQUIRE(made.code == 0);
  const std::string commit = made.out.substr(0, 12);
  CHECK(commit_of(root) == commit);
  const auto before = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(source, before);
  CHECK(commit_of(root) == commit);
  CHECK(std::filesystem::last_write_time(source) == before);

  write(root + "/docs/a.txt", "2");  // the program is not built from it
  CHECK(commit_of(root) == commit);
  write(root + "/lib/new.cc", "");
  CHECK(commit_of(root) == commit + "-dirty");
  std::filesystem::remove(root + "/lib/new.cc");
  write(root + "/app/a.txt", "2");
  CHECK(commit_of(root) == commit + "-dirty");
  // An export that was unpacked inside somebody's repository is not that repository's commit.
  write(root + "/export/CMakeLists.txt", "");
  CHECK(commit_of(root + "/export") == "unknown");
}

}  // namespace bv::test
