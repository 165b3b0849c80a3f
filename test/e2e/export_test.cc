// bvtrain export and model_init with the real binary: every format is written and read back, other
// programs compute the same logits (scripts/golden/check_export.py), and rejected inputs.
#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/util/file.h"
#include "test/support/binary.h"
#include "test/support/compare.h"
#include "test/support/golden.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// A vit that was trained for two steps on the digits.
struct Run {
  TempFolder dir;
  const std::string config = source_file("configs/digits_vit.yaml");
  explicit Run(const std::string& pool = "gap", bool scan = false) {
    train("w", {"--set", "model.pool_type=" + pool, "--set",
                std::string("model.scan=") + (scan ? "true" : "false")});
  }
  Finished try_train(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"--config", config,          "--workdir", dir / name,
                                     "--set",    "model.depth=2", "--set",     "precision=float32",
                                     "--set",    "total_steps=2"};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  }
  void train(const std::string& name, const std::vector<std::string>& more) const {
    const Finished finished = try_train(name, more);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
  }
  Finished write(const std::string& name, const std::string& format,
                 const std::string& file) const {
    return run({"export", "--workdir", dir / name, "--format", format, "--output", dir / file});
  }
  NamedTensors exported(const std::string& name) const {
    const Finished finished = write(name, "npz", name + ".npz");
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return read_npz(dir / (name + ".npz"));
  }
};

const std::vector<std::string> kStill = {"--set", "lr=0.0", "--set", "wd=0.0"};

}  // namespace

TEST_CASE("weights come back with the same bits in every format") {
  const Run r("tok");
  const NamedTensors trained = r.exported("w");
  CHECK(trained.at("params/cls").sizes() == at::IntArrayRef({1, 1, 64}));
  for (const std::string format : {"npz", "safetensors", "timm"}) {
    INFO(format);
    const Finished written = r.write("w", format, "weights." + format);
    INFO(written.err);
    REQUIRE(written.code == 0);
    std::vector<std::string> args = kStill;
    args.insert(args.end(), {"--set", "model.pool_type=tok", "--set",
                             "model_init=" + (r.dir / ("weights." + format))});
    r.train("from_" + format, args);
    CHECK(same_bits(r.exported("from_" + format), trained));
  }
  // A run's workdir also works as a weights file, and the encoder may be stacked.
  std::vector<std::string> args = kStill;
  args.insert(args.end(), {"--set", "model.pool_type=tok", "--set", "model.scan=true", "--set",
                           "model_init=" + (r.dir / "w")});
  r.train("stacked", args);
  const NamedTensors stacked = r.exported("stacked");
  CHECK(stacked.at("params/Transformer/encoderblock/LayerNorm_0/scale").sizes() ==
        at::IntArrayRef({2, 64}));
  args.back() = "model_init=" + (r.dir / "stacked.npz");
  args[args.size() - 3] = "model.scan=false";
  r.train("unstacked", args);
  CHECK(same_bits(r.exported("unstacked"), trained));
}

TEST_CASE("resume from a weights file starts a new run with its parameters, and says so") {
  const Run r;
  const NamedTensors trained = r.exported("w");
  std::vector<std::string> args = kStill;
  args.insert(args.end(), {"--set", "resume=" + (r.dir / "w.npz")});
  const Finished finished = r.try_train("again", args);
  CHECK(finished.code == 0);
  CHECK(finished.err.find("holds parameters only") != std::string::npos);
  CHECK(same_bits(r.exported("again"), trained));
}

TEST_CASE("export without a workdir: a config and model_init") {
  const Run r;
  const NamedTensors trained = r.exported("w");
  const auto from_config = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"export", "--config", r.config, "--set", "model.depth=2", "--set",
                               "model_init=" + (r.dir / "w.npz"), "--output", r.dir / "c"});
    return run(more);
  };
  REQUIRE(from_config({"--format", "npz"}).code == 0);
  CHECK(same_bits(read_npz(r.dir / "c"), trained));
  CHECK(from_config({"--format", "npz", "--set", "model_init=" + (r.dir / "c")}).err ==
        "--output " + (r.dir / "c") +
            ": error: is a file that export reads; choose another name\n");
  REQUIRE(from_config({"--format", "onnx"}).code == 0);
  REQUIRE(r.write("w", "onnx", "w.onnx").code == 0);
  // The graphs are equal. The metadata before them differs: a weights file does not record its
  // step.
  const auto graph = [&](const std::string& file) {
    const std::string whole = read_file(r.dir / file);
    return whole.substr(whole.find("Transpose_0"));
  };
  CHECK(graph("c") == graph("w.onnx"));
  const Finished misspelt =
      from_config({"--format", "npz", "--set", "model_load={dont_lod: [head/.*]}"});
  CHECK(misspelt.code == 2);
  CHECK(misspelt.err ==
        "--set model_load={dont_lod: [head/.*]}: error: unknown key 'model_load.dont_lod' (did "
        "you mean 'dont_load'?)\n");
  // Other images have another grid of patches.
  const Finished longer = from_config({"--format", "npz", "--image-size", "12,8,1"});
  CHECK(longer.code == 0);
  CHECK_THAT(longer.err,
             Catch::Contains("pos_embedding was resampled from a grid of 4x4 to 6x4\n"));
  CHECK(read_npz(r.dir / "c").at("params/pos_embedding").sizes() == at::IntArrayRef({1, 24, 64}));
}

TEST_CASE("export refuses what a format cannot hold") {
  TempFolder dir;
  REQUIRE(run({"--config", source_file("configs/digits_cnn.yaml"), "--workdir", dir / "w", "--set",
               "total_steps=1"})
              .code == 0);
  const Finished refused =
      run({"export", "--workdir", dir / "w", "--format", "timm", "--output", dir / "f"});
  CHECK(refused.code == 2);
  CHECK(refused.err.ends_with(
      "\n--format timm: error: model 'cnn' can't be written as timm; known: bit_paper, flexi_vit, "
      "mlp_mixer, proj.flexi.vit, vit (npz and safetensors hold every model)\n"));
  // Its evaluator has `ema: true`.
  CHECK(contains(refused.err,
                 "warning: the metrics of test are those of the averaged weights, but this command "
                 "uses the unaveraged ones; --ema uses the averaged ones\n"));
  CHECK_FALSE(exists(dir / "f"));
  const Finished other = run({"export", "--workdir", dir / "w", "--format", "onnx", "--image-size",
                              "9,12,1", "--output", dir / "f"});
  CHECK(other.code == 2);
  CHECK(contains(other.err,
                 "the weights are tied to positions in 8x8 images and do not fit 9x12 images"));
  CHECK_FALSE(exists(dir / "f"));
  const Finished neither = run({"export", "--output", dir / "f.npz"});
  CHECK(neither.code == 2);
  CHECK(neither.err ==
        "bvtrain export: error: give --workdir, or --config and --set model_init=FILE\n");
  const Finished size =
      run({"export", "--workdir", dir / "w", "--image-size", "8x8", "--output", dir / "f.npz"});
  CHECK(size.code == 2);
  CHECK(size.err ==
        "--image-size 8x8: error: expected HEIGHT,WIDTH or HEIGHT,WIDTH,CHANNELS, e.g. 224,224\n");
  CHECK(run({"export", "--workdir", dir / "w", "--format", "keras", "--output", dir / "f"}).code ==
        2);
}

TEST_CASE("weights that do not fit end the run with one line, and nothing is written") {
  const Run r;
  const auto refused = [&](const std::string& file, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"--set", "model_init=" + file};
    args.insert(args.end(), more.begin(), more.end());
    const Finished finished = r.try_train("bad", args);
    CHECK(finished.code == 2);
    CHECK_FALSE(exists(r.dir / "bad"));
    return finished.err;
  };
  NamedTensors trained = r.exported("w");
  trained["params/head/kernel"] = at::ones({64, 7});
  write_npz(r.dir / "shape.npz", trained);
  CHECK(refused(r.dir / "shape.npz") ==
        (r.dir / "shape.npz") +
            ": error: head/kernel has shape (64, 7) in the file but (64, 10) in the model "
            "(model_load: {dont_load: [PATTERN, ...]} leaves names out)\n");
  const std::string whole = read_file(r.dir / "w.npz");
  write(r.dir / "cut.npz", whole.substr(0, whole.size() / 2));
  CHECK(refused(r.dir / "cut.npz").find("cut.npz @ offset") != std::string::npos);
  write(r.dir / "a.pth", "x");
  CHECK(refused(r.dir / "a.pth").find("convert them once in Python") != std::string::npos);
  CHECK(refused(r.dir / "none.npz") ==
        (r.dir / "none.npz") + ": error: no such weights file or checkpoint\n");
  // A run that has its own checkpoint does not read model_init.
  CHECK(r.try_train("w", {"--set", "model_init=" + (r.dir / "none.npz"), "--set", "total_steps=3",
                          "--accept-changes"})
            .code == 0);
}

TEST_CASE("timm and onnxruntime compute what bvtrain computes") {
  const char* python = std::getenv("BVTRAIN_EXPORT_PYTHON");  // scripts/test.sh does not set one up
  if (!python || !exists(python)) {
    WARN("skipped: no BVTRAIN_EXPORT_PYTHON with timm and onnxruntime");
    return;
  }
  const std::string models = golden_file("models/models.json");
  if (models.empty()) return;
  const std::string golden = models.substr(0, models.rfind("/models/"));
  CHECK(std::system((std::string(python) + " " + source_file("scripts/golden/check_export.py") +
                     " --bvtrain " + std::getenv("BVTRAIN") + " --golden " + golden)
                        .c_str()) == 0);
}

}  // namespace bv::test
