// Flags of bvtrain predict and export that contradict each other, by exact messages.
#include <catch2/catch.hpp>
#include <filesystem>

#include "test/support/binary.h"

namespace bv::test {

TEST_CASE("flags of predict and export that contradict each other are refused") {
  TempFolder dir;
  const auto refused = [&](std::vector<std::string> args) {
    const Finished finished = run(args);
    CHECK(finished.code == 2);
    CHECK(finished.out.empty());
    CHECK(std::filesystem::is_empty(dir.path()));
    return finished.err;
  };
  const auto predict = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"predict", "--weights", "m.npz", "a.jpg"});
    return refused(more);
  };
  const auto to = [&](const std::string& name) { return dir / name; };
  CHECK(predict({"--output", to("x.txt")}) ==
        "--output " + to("x.txt") +
            ": error: unknown suffix '.txt'; known: .npz, .jsonl, .csv; or give --format\n");
  CHECK(predict({"--format", "csv", "--output", to("x.npz")}) ==
        "--format csv --output " + to("x.npz") +
            ": error: the suffix .npz means npz; name the file *.csv, or leave --format out\n");
  CHECK(predict({"--format", "csv"}) ==
        "--format csv: error: needs --output FILE, or --output - for standard output\n");
  CHECK(predict({"--format", "npz", "--output", "-"}) ==
        "--format npz: error: needs --output FILE\n");
  CHECK(predict({"--top", "2", "--output", to("x.npz")}) ==
        "--top 2: error: an npz holds the logits of all classes\n");
  CHECK(predict({"--outputs", "image"}) == "--outputs image: error: needs --output F.npz\n");
  const std::string nowhere = to("none/x.npz");
  const std::string no_folder =
      "--output " + nowhere + ": error: there is no folder '" + to("none") + "'\n";
  CHECK(predict({"--output", nowhere}) == no_folder);
  CHECK(refused({"export", "--workdir", "w", "--output", nowhere}) == no_folder);
  const TempFolder own;
  const std::string file = own.write("f.npz", "x");
  const std::string is_read =
      "--output " + file + ": error: is a file that predict reads; choose another name\n";
  for (const std::string& weights : {file, file + ":params"})
    CHECK(refused({"predict", "--weights", weights, "a.jpg", "--output", file}) == is_read);
  CHECK(refused({"predict", "--weights", "m.npz", own.path() + "/./f.npz", "--output", file}) ==
        is_read);
  CHECK(read_text(file) == "x");
  CHECK(predict({"--eval", "val"}) ==
        "--eval val: error: takes the evaluator's data; give no images with it\n");

  const auto write_as = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"export", "--workdir", "w"});
    return refused(more);
  };
  CHECK(write_as({"--output", to("x.bin")}) ==
        "--output " + to("x.bin") +
            ": error: unknown suffix '.bin'; known: .npz, .safetensors, .onnx; or give --format\n");
  CHECK(write_as({"--output", to("x")}) ==
        "--output " + to("x") +
            ": error: has no suffix that sets the format; known: .npz, .safetensors, .onnx; or "
            "give --format\n");
  CHECK(write_as({"--format", "npz", "--output", "-"}) ==
        "--output -: error: weights are not written to standard output\n");
  CHECK(write_as({"--format", "npz", "--output", to("x.onnx")}) ==
        "--format npz --output " + to("x.onnx") +
            ": error: the suffix .onnx means onnx; name the file *.npz, or leave --format out\n");
  CHECK(write_as({"--format", "timm", "--output", to("x.npz")}) ==
        "--format timm --output " + to("x.npz") +
            ": error: the suffix .npz means npz; name the file *.safetensors, or leave --format "
            "out\n");
  CHECK(write_as({"--format", "onnx", "--output", to("x.safetensors")}) ==
        "--format onnx --output " + to("x.safetensors") +
            ": error: the suffix .safetensors means safetensors or timm; name the file *.onnx, or "
            "leave --format out\n");
}

}  // namespace bv::test
