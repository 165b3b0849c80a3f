// Flags of bvtrain predict and export that contradict each other, and output files that no command
// may replace, by exact messages.
#include <sys/stat.h>

#include <algorithm>
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
            ": error: the suffix .npz means npz; give the file the suffix .csv, or leave out "
            "--format\n");
  CHECK(predict({"--format", "csv"}) ==
        "--format csv: error: needs --output FILE, or --output - for standard output\n");
  CHECK(predict({"--format", "npz", "--output", "-"}) ==
        "--format npz: error: needs --output FILE\n");
  CHECK(predict({"--top", "2", "--output", to("x.npz")}) ==
        "--top 2: error: does not apply to npz files, which hold the logits of all classes\n");
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
  const std::string data = own.write("t.csv", "x");
  for (const std::string& key :
       {"data: {name: csv, fname: '" + data + "'}", "quarantine: " + data}) {
    const std::string config =
        own.write("c.yaml", "num_classes: 2\nmodel_name: cnn\nevals: {val: {" + key + "}}\n");
    CHECK(refused({"predict", "--config", config, "a.jpg", "--output", data})
              .ends_with("--output " + data +
                         ": error: is a file that the config names; choose another name\n"));
    CHECK(read_text(data) == "x");
  }
  own.write("run.json", "{}");
  const std::string rows = own.write("metrics.jsonl", "x");
  CHECK(predict({"--output", rows}) == "--output " + rows + ": error: is a file of the run in '" +
                                           own.path() + "'; choose another name\n");
  CHECK(read_text(rows) == "x");
  // Nor is anything written among the checkpoints of a run, or into one that was copied.
  own.write("ckpt/step-4/manifest.json", "{}");
  own.write("copied/state-00000-of-00001.safetensors", "x");
  own.write("copied/manifest.json", "{}");
  const std::string real = std::filesystem::canonical(own.path()).string();
  const std::pair<std::string, std::string> taken[] = {
      {"ckpt/LAST", "is in '" + real + "/ckpt', a folder of a run"},
      {"ckpt/step-4/x.csv", "is in '" + real + "/ckpt', a folder of a run"},
      {"copied/manifest.json", "is in '" + real + "/copied', the folder of a checkpoint"}};
  for (const auto& [name, why] : taken) {
    CHECK(predict({"--format", "csv", "--output", own / name}) ==
          "--output " + (own / name) + ": error: " + why + "; choose another folder\n");
  }
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
        "--output -: error: is not written to standard output\n");
  CHECK(write_as({"--format", "npz", "--output", to("x.onnx")}) ==
        "--format npz --output " + to("x.onnx") +
            ": error: the suffix .onnx means onnx; give the file the suffix .npz, or leave out "
            "--format\n");
  CHECK(write_as({"--format", "timm", "--output", to("x.npz")}) ==
        "--format timm --output " + to("x.npz") +
            ": error: the suffix .npz means npz; give the file the suffix .safetensors, or leave "
            "out --format\n");
  CHECK(write_as({"--format", "onnx", "--output", to("x.safetensors")}) ==
        "--format onnx --output " + to("x.safetensors") +
            ": error: the suffix .safetensors means safetensors or timm; give the file the suffix "
            ".onnx, or leave out --format\n");
}

TEST_CASE("an output file never replaces an image or a YAML file") {
  const TempFolder dir;
  const auto refused = [&](std::vector<std::string> args, const std::string& flag,
                           const std::string& file) {
    const std::string before = read_text(file);
    args.insert(args.end(), {flag, file});
    const Finished finished = run(args);
    INFO(args[0]);
    CHECK(finished.code == 2);
    CHECK(read_text(file) == before);
    const std::string place = flag + " " + file + ": error: ";
    CHECK(finished.err.starts_with(place));
    return finished.err.substr(std::min(place.size(), finished.err.size()));
  };
  const std::string png = dir.write("1.png", "\x89PNG\r\n\x1A\n and more");
  const std::string jpeg = dir.write("2", "\xFF\xD8\xFF\xE0");
  const std::string yaml = dir.write("c.yaml", "lr: 1\n"), data = dir.write("d.csv", "x\n");
  const std::string is_image = "is an image; choose another name\n";
  const std::string is_yaml = "is a YAML file; choose another name\n";
  CHECK(refused({"predict", "--weights", "m.npz", "a.jpg", "--format", "csv"}, "--output", png) ==
        is_image);
  CHECK(refused({"export", "--workdir", "w", "--format", "npz"}, "--output", jpeg) == is_image);
  CHECK(refused({"export", "--config", yaml, "--format", "npz"}, "--output", yaml) == is_yaml);
  CHECK(refused({"data", "check", "--config", yaml}, "--output", jpeg) == is_image);
  CHECK(refused({"compare", "w"}, "--html", png) == is_image);
  // A list of broken examples does not replace the data either.
  CHECK(refused({"data", "check", data}, "--output", data) ==
        "is a file that data check reads; choose another name\n");
  dir.write("named.yaml", "input: {data: {name: csv, fname: '" + data + "'}}\n");
  CHECK(refused({"data", "check", "--config", dir / "named.yaml"}, "--output", data) ==
        "is a file that the config names; choose another name\n");
}

TEST_CASE("an output file never replaces a pipe or a folder") {
  TempFolder dir;
  const std::string pipe = dir / "pipe", folder = dir / "folder";
  REQUIRE(::mkfifo(pipe.c_str(), 0666) == 0);
  std::filesystem::create_directory(folder);
  const auto refused = [&](std::vector<std::string> args, const std::string& flag,
                           const std::string& file) {
    args.insert(args.end(), {flag, file});
    const Finished finished = run(args);
    INFO(args[0]);
    CHECK(finished.code == 2);
    CHECK(finished.out.empty());
    CHECK(std::filesystem::is_fifo(pipe));
    CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 2);
    const std::string place = flag + " " + file + ": error: ";
    CHECK(finished.err.starts_with(place));
    return finished.err.substr(std::min(place.size(), finished.err.size()));
  };
  using Words = std::vector<std::string>;
  const Words predict = {"predict", "--weights", "m.npz", "a.jpg", "--format"};
  const auto with_format = [&](const std::string& format) {
    Words words = predict;
    words.push_back(format);
    return words;
  };
  const std::string no_file = "is a pipe, not a file\n";
  const std::string dash = "is a pipe, not a file; `--output -` is standard output\n";
  CHECK(refused(with_format("csv"), "--output", pipe) == dash);
  CHECK(refused(with_format("csv"), "--output", folder) == "is a folder\n");
  CHECK(refused(with_format("npz"), "--output", pipe) == no_file);
  CHECK(refused({"data", "check", folder}, "--output", pipe) == dash);
  CHECK(refused({"export", "--workdir", "w", "--format", "npz"}, "--output", pipe) == no_file);
  CHECK(refused({"ckpt", "average", "w", "--last", "2", "--format", "npz"}, "--output", pipe) ==
        no_file);
  CHECK(refused({"compare", "w"}, "--html", pipe) == no_file);
  CHECK(refused({"compare", "w"}, "--html", "-") == "is not written to standard output\n");
}

}  // namespace bv::test
