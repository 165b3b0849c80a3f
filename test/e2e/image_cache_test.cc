// Runs with input.cache: the results of runs without it, with one process and with two.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "lib/input/image/jpeg.h"
#include "lib/util/rng.h"
#include "test/support/binary.h"
#include "test/support/image_files.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

constexpr int kCachedImages = 24;

// An image folder and a config that passes over it three times.
struct CachedRun {
  TempFolder dir;

  CachedRun() {
    for (int i = 0; i < kCachedImages; ++i) {
      at::Tensor image = at::full({12 + i % 5, 16, 3}, 0, at::kByte);
      Rng rng(3, Purpose::synthetic, static_cast<uint64_t>(i));
      for (int64_t k = 0; k < image.numel(); ++k)
        image.mutable_data_ptr<uint8_t>()[k] = static_cast<uint8_t>(rng.bits());
      write(fmt::format("{}/f/train/{}/{}.jpg", dir.path(), i % 2 == 0 ? "cat" : "dog", i),
            text_of(encode_jpeg(image, 90)));
    }
    write(dir / "c.yaml",
          "num_classes: 2\ntotal_steps: 9\nlog_training_steps: 1\nckpt_steps: 9\n"
          "model_name: cnn\nmodel: {widths: [4], dense: 8}\nloss: softmax_xent\n"
          "optax_name: sgd\nlr: 0.1\ninput:\n  batch_size: 8\n  data: {name: image_folder, "
          "data_dir: " +
              (dir / "f") +
              ", split: train}\n  pp: decode_jpeg_and_inception_crop(8)|flip_lr|value_range(-1, 1)"
              "|onehot(2, key=\"label\", key_result=\"labels\")|keep(\"image\", \"labels\")\n");
  }
  // Returns stderr.
  std::string train(const std::string& workdir, int ranks, const std::string& cache) const {
    std::vector<std::string> args = {"--config",    dir / "c.yaml", "--workdir",
                                     dir / workdir, "--devices",    fmt::format("cpu:{}", ranks)};
    if (!cache.empty()) args.insert(args.end(), {"--set", "input.cache=" + cache});
    const Finished finished = run(args, {{"XDG_CACHE_HOME", dir / "cache"}});
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return finished.err;
  }
};

}  // namespace

TEST_CASE("runs with a cache have the rows of a run without it") {
  const CachedRun f;
  const std::string in_folder = fmt::format("{{in: {}, gib: 0.001}}", f.dir / "kept");
  for (const int ranks : {1, 2}) {
    INFO(ranks << " ranks");
    const auto name = [&](const char* text) { return fmt::format("{}-{}", text, ranks); };
    f.train(name("without"), ranks, "");
    const std::vector<TextRow> rows = repeatable_rows(f.dir / name("without"));
    REQUIRE(rows.size() >= 9);
    const std::string memory = f.train(name("memory"), ranks, "{in: memory, gib: 0.001}");
    CHECK(repeatable_rows(f.dir / name("memory")) == rows);
    CHECK(contains(memory, "[input] cache: "));
    CHECK(contains(memory, " of 1.0 MiB"));
    std::filesystem::remove_all(f.dir / "kept");
    const std::string first = f.train(name("first"), ranks, in_folder);
    CHECK(repeatable_rows(f.dir / name("first")) == rows);
    CHECK(!contains(first, "from earlier runs"));
    const std::string second = f.train(name("second"), ranks, in_folder);
    CHECK(repeatable_rows(f.dir / name("second")) == rows);
    CHECK(contains(second, fmt::format("[input] cache: {} images in '{}' from earlier runs",
                                       kCachedImages, f.dir / "kept")));
    CHECK(contains(second, "; 100% of the first pass came from it"));
  }
}

TEST_CASE("a cache that cannot keep anything is an error before the run") {
  const CachedRun f;
  const auto error_with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"--config", f.dir / "c.yaml", "--workdir", f.dir / "w"};
    args.insert(args.end(), more.begin(), more.end());
    const Finished finished = run(args, {{"XDG_CACHE_HOME", f.dir / "cache"}});
    CHECK(finished.code == 2);
    return finished.err;
  };
  CHECK(contains(error_with({"--set", "input.cache={in: memory, gib: 1000000}"}),
                 "input.cache.gib: the budget is "));
  CHECK(contains(error_with({"--set", "input.cache={in: memory}"}), "input.cache"));
  CHECK(contains(error_with({"--set", "input.cache={in: somewhere, gib: 1}"}),
                 "input.cache.in: must be memory or a folder, got 'somewhere'"));
  CHECK(!exists(f.dir / "w/metrics.jsonl"));
}

}  // namespace bv::test
