// Errors that end a run, and their exit codes: bad configs, command lines, files and folders, a
// full disk, and divergence. With the real binary (bad_input.h).
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "test/e2e/bad_input.h"

namespace bv::test {
namespace {

const std::string kDigits = "lib/input/sources/digits/";

}  // namespace

TEST_CASE("a misspelt key") {
  Bad bad;
  CHECK(bad.line(digits_with("lr: 0.002", "lr: 0.002\nsheduled: 3")) ==
        "c.yaml:21:1: error: unknown key 'sheduled' (did you mean 'schedule'?)\n");
}

TEST_CASE("what is wrong with a config") {
  Bad bad;
  CHECK(bad.line(digits_with("lr: 0.002", "lr: fast")) ==
        "c.yaml:20:5: error: lr: expected a number, got 'fast'\n");
  CHECK(bad.line(digits_with("num_classes: 10", "num_classes: ten") + "foo: 1\n")
            .starts_with("c.yaml:7:14: error: num_classes: expected an integer, got "
                         "'ten'\nc.yaml:38:1: error: unknown key 'foo'; known here: "));
  CHECK(bad.line(digits_with("seed: 0", "seed: 0\nseed: 1")) ==
        "c.yaml:7:1: error: duplicate key 'seed' (first at line 6)\n");
  CHECK(bad.line(digits_with("seed: 0", std::string("seed: 0\0", 8))).find("a NUL byte") !=
        std::string::npos);
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char c = 'b'; c <= 'i'; ++c) {
    bomb += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i) bomb += std::string(i ? ", *" : "*") + static_cast<char>(c - 1);
    bomb += "]\n";
  }
  CHECK(bad.line(bomb).find("error: more than 1000000 values (aliases expanded)") !=
        std::string::npos);
  CHECK(bad.line(digits_with("value_range(-1, 1)", "value_rang(-1, 1)"))
            .find("error: unknown op 'value_rang' (did you mean 'value_range'?)") !=
        std::string::npos);
}

TEST_CASE("what is wrong with the command line") {
  Bad bad;
  const std::string good = digits_with("seed: 0", "seed: 0");
  CHECK(bad.line(good, {"--set", "total_steps=abc"}) ==
        "--set total_steps=abc: error: total_steps: expected a number, got 'abc'\n");
  CHECK(bad.line(good, {"--config.lrr=3"}) ==
        "--config.lrr=3: error: unknown key 'lrr' (did you mean 'lr'?)\n");
  CHECK(bad.line(good, {"--devices", "gpu"}) ==
        "--devices gpu: error: expected auto, cpu, cpu:N, cuda, cuda:0,1 or cuda:all; did you mean "
        "cuda?\n");
  CHECK(bad.line(good, {"--workdr", "x"}) ==
        "bvtrain: error: unknown option '--workdr' (did you mean '--workdir'?); see --help\n");
  CHECK(run({"--config", "nope.yaml"}).err == "nope.yaml: error: no such file\n");
  CHECK(run({}).code == 2);
}

TEST_CASE("a current folder that has been deleted") {
  const TempFolder dir;
  const std::string line = "cd '" + dir.path() + "' && mkdir gone && cd gone && rmdir ../gone && " +
                           "exec \"$BVTRAIN\" --version";
  const Finished finished = Process("/bin/sh", {"/bin/sh", "-c", line}, {}).wait();
  CHECK(finished.code == 2);
  CHECK(finished.out.empty());
  CHECK(finished.err ==
        "bvtrain: error: the current folder has been deleted; change to one that exists\n");
}

TEST_CASE("what is wrong with data") {
  Bad bad;
  const std::string idx =
      digits_with(kData, "data: {name: idx, data_dir: " + (bad.dir / "d") + "}");
  CHECK(bad.line(idx) == "c.yaml:11:31: error: no such folder: 'd'\n");
  std::filesystem::create_directory(bad.dir / "d");
  for (const char* file : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}) {
    std::filesystem::copy_file(source_file(kDigits + file), bad.dir / (std::string("d/") + file));
  }
  const std::string images = bad.dir / "d/train-images-idx3-ubyte";
  const std::string whole = read_file(images);
  write(images, whole.substr(0, 1000));
  CHECK(bad.line(idx) ==
        "d/train-images-idx3-ubyte: error: truncated: header says 1437 x 8 x 8 = 91968 bytes, file "
        "has 984\n");
  write(images, std::string(4, '\0') + whole.substr(4));
  CHECK(bad.line(idx) ==
        "d/train-images-idx3-ubyte @ offset 0: error: bad IDX magic 0x00000000, expected "
        "0x00000803 (images)\n");
  CHECK(bad.line(digits_with("batch_size: 64", "batch_size: 5000")) ==
        "c.yaml:12:15: error: input.batch_size: 5000 is more than the 1437 training examples\n");
}

TEST_CASE("an image folder with a broken JPEG, an empty class") {
  const std::string jpeg = golden_file("pp/img1.jpg");
  if (jpeg.empty()) return;
  Bad bad;
  std::string config =
      digits_with(kData, "data: {name: image_folder, data_dir: " + (bad.dir / "f") + "}");
  config.replace(config.find("pp: random"), 4, "pp: decode|resize(8)|");
  const std::string bytes = read_file(jpeg);
  write(bad.dir / "f/cat/1.jpg", bytes);
  write(bad.dir / "f/dog/1.jpg", bytes.substr(0, 2000));
  CHECK(bad.line(config) ==
        "f/dog/1.jpg: error: not a complete JPEG: no end marker (file is 2000 bytes) "
        "(input.skip_errors: N skips up to N such examples)\n");
  std::filesystem::remove(bad.dir / "f/dog/1.jpg");
  CHECK(bad.line(config) ==
        "f/dog: error: class 'dog' has no images (input.skip_errors: N skips up to N such "
        "examples)\n");
}

TEST_CASE("an unwritable workdir; a workdir in use") {
  TempFolder dir;
  const std::string config = source_file("configs/digits_cnn.yaml");
  const Finished under_file = run({"--config", config, "--workdir", "/dev/null/x"});
  CHECK(under_file.code == 2);
  CHECK(under_file.err == "/dev/null/x: error: cannot be the workdir: /dev/null is not a folder\n");
  CHECK(run({"--config", config, "--workdir", "gs://bucket/run"}).err ==
        "gs://bucket/run: error: remote paths are not supported; mount the bucket (e.g. gcsfuse) "
        "or copy, and give a local path\n");

  Child first({"--config", config, "--workdir", dir / "w", "--set", "total_epochs=100000"});
  REQUIRE(wait_for_file(dir / "w/ckpt/LAST"));  // run.json knows of the checkpoint by then
  const std::string before = read_file(dir / "w/run.json");
  const Finished second = run({"--config", config, "--workdir", dir / "w"});
  CHECK(second.code == 2);
  CHECK(second.err.find("/w: error: the workdir is in use by process " +
                        std::to_string(first.pid()) + " on host ") != std::string::npos);
  CHECK(read_file(dir / "w/run.json") == before);
}

TEST_CASE("skip_errors: any number of broken examples, a limited number, none") {
  const std::string jpeg = golden_file("pp/img1.jpg");
  if (jpeg.empty()) return;
  TempFolder dir;
  const std::string bytes = read_file(jpeg);
  for (const char* name : {"cat", "dog"})
    for (int i = 0; i < 4; ++i) write(dir / fmt::format("f/{}/{}.jpg", name, i), bytes);
  std::string broken = bytes;
  std::fill(broken.begin() + 20, broken.end() - 2, 'x');
  write(dir / "f/dog/3.jpg", broken);
  std::string config =
      digits_with(kData, "data: {name: image_folder, data_dir: " + (dir / "f") + "}");
  config.replace(config.find("pp: random"), 4, "pp: decode|resize(8)|");
  write(dir / "c.yaml", config);
  const auto end = [&](const char* skip, const char* workdir) {
    return run({"--config", dir / "c.yaml", "--workdir", dir / workdir, "--set", "evals=null",
                "--set", "input.batch_size=4", "--set", "total_steps=4", "--set",
                fmt::format("input.skip_errors={}", skip)});
  };
  const Finished any = end("true", "a");
  INFO(any.err);
  CHECK(any.code == 0);
  CHECK(end("1", "b").code == 0);
  const Finished none = end("false", "c");
  CHECK(none.code == 2);
  CHECK(none.err == (dir / "f/dog/3.jpg") +
                        ": error: not a valid JPEG: no marker at byte 20 (input.skip_errors: N "
                        "skips up to N such examples)\n");
  write(dir / "f/dog/2.jpg", broken);
  const Finished two = end("1", "d");
  CHECK(two.code == 3);
  CHECK(two.err.find("(2 examples failed; input.skip_errors allows 1)") != std::string::npos);
}

TEST_CASE("a write past ulimit -f ends the run with exit 5 and commits nothing") {
  TempFolder dir;
  struct rlimit before, limit;
  getrlimit(RLIMIT_FSIZE, &before);
  limit = before;
  limit.rlim_cur = 1 << 20;  // a checkpoint of digits_cnn is larger
  setrlimit(RLIMIT_FSIZE, &limit);
  const Finished finished =
      Child({"--config", source_file("configs/digits_cnn.yaml"), "--workdir", dir / "w"},
            {{"BVTRAIN_RETRY_AFTER", "0"}})
          .wait();
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(finished.code == 5);
  CHECK(finished.err.find("File too large") != std::string::npos);
  CHECK(!exists(dir / "w/ckpt/LAST"));
}

TEST_CASE("a run that diverges says where, with exit 4, and commits nothing bad") {
  TempFolder dir;
  const Finished finished =
      run({"--config", source_file("configs/digits_cnn.yaml"), "--workdir", dir / "w", "--set",
           "lr=1e30", "--set", "evals=null", "--set", "optax_name=sgd"});
  CHECK(finished.code == 4);
  CHECK(finished.err.find("became nan or inf somewhere within steps [") != std::string::npos);
  // Logged at steps 1, 2 and 12. Step 3 overflows, and the run ends at once.
  const Finished by_time = run({"--config",  source_file("configs/digits_cnn.yaml"),
                                "--workdir", dir / "seconds",
                                "--set",     "log_training_seconds=60",
                                "--set",     "total_steps=12",
                                "--set",     "ckpt_steps=null",
                                "--set",     "schedule=null",
                                "--set",     "optax=null",
                                "--set",     "lr=1e4",
                                "--set",     "evals=null",
                                "--set",     "optax_name=sgd"});
  INFO(by_time.err);
  CHECK(by_time.code == 4);
  CHECK(by_time.err.find("somewhere within steps [2, 3], first at step 3") != std::string::npos);
}

}  // namespace bv::test
