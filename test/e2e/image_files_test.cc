// Messages of runs and predictions about image files: EXIF orientations, WebP, files of other
// types, and pixels that no patch covers.
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include "lib/util/text.h"
#include "test/e2e/bad_input.h"
#include "test/support/image_files.h"

namespace bv::test {
namespace {

// An image folder with JPEG and WebP files, some of them turned, and a config that trains on it.
struct MixedPhotos {
  TempFolder dir;

  MixedPhotos() {
    const std::string webp = webp_of(at::full({8, 8, 3}, 9, at::kByte), true);
    for (const char* folder : {"train/cat", "train/dog", "val/cat", "val/dog"}) {
      const std::string path = fmt::format("{}/f/{}/", dir.path(), folder);
      write(path + "1.jpg", jpeg_with_exif(flat_jpeg(100), exif_data(6)));
      write(path + "2.jpg", flat_jpeg(200));
      write(path + "3.webp", webp);
      write(path + "notes.txt", "about cats and dogs");
    }
    write(dir / "f/val/dog/index.html", "");
  }
  void write_config(const std::string& decode) const {
    const std::string ops = decode +
                            R"(|value_range(-1, 1)|onehot(2, key="label", key_result="labels"))" +
                            R"(|keep("image", "labels"))";
    const std::string data = "data: {name: image_folder, data_dir: " + (dir / "f") + ", split: ";
    write(dir / "c.yaml",
          "num_classes: 2\ntotal_steps: 1\nlog_training_steps: 1\nmodel_name: cnn\n"
          "model: {widths: [4], dense: 8}\nloss: softmax_xent\noptax_name: sgd\nlr: 0.1\n"
          "input:\n  batch_size: 2\n  " +
              data + "train}\n  pp: " + ops +
              "\nevals:\n  test:\n    type: classification\n    loss_name: softmax_xent\n    " +
              data + "val}\n    pp_fn: " + ops + "\n");
  }
  // Runs bvtrain and returns its warnings, without their times and without this folder's path.
  std::string warnings(const std::vector<std::string>& args) const {
    const Finished finished = run(args, {{"XDG_CACHE_HOME", dir / "cache"}});
    INFO(finished.err);
    CHECK(finished.code == 0);
    std::string lines;
    for (const std::string& line : split(finished.err, '\n')) {
      const size_t at = line.find("warning: ");
      if (at == std::string::npos) continue;
      const size_t place = line.find(dir.path());
      lines += line.substr(place == std::string::npos ? at : place + dir.path().size() + 1) + "\n";
    }
    return lines;
  }
};

}  // namespace

TEST_CASE("a dry run warns of a cache for which this host has too little memory") {
  const MixedPhotos photos;
  photos.write_config("decode");
  const std::string warnings = photos.warnings({"--config", photos.dir / "c.yaml", "--dry-run",
                                                "--set", "input.cache={in: memory, gib: 1000000}"});
  CHECK_THAT(warnings, Catch::Contains("input.cache.gib: the budget is 976.6 TiB, but only ") &&
                           Catch::Contains("; a run on this host would end with code 2\n"));
}

TEST_CASE("a workdir in the folder of the images is refused, and nothing is written there") {
  const MixedPhotos photos;
  photos.write_config("decode");
  const std::string out = photos.dir / "f/out";
  std::vector<std::string> args = {"--config", photos.dir / "c.yaml", "--workdir", out};
  for (const char* more : {"", "--dry-run"}) {
    if (*more) args.emplace_back(more);
    const Finished finished = run(args, {{"XDG_CACHE_HOME", photos.dir / "cache"}});
    CHECK(finished.code == 2);
    CHECK(finished.err.ends_with(out + ": error: is in '" + (photos.dir / "f") +
                                 "', the data of input, where every folder is taken for a class: "
                                 "choose a --workdir outside of it\n"));
    CHECK(!exists(out));
  }
}

TEST_CASE("a run and a prediction say once for each data set what they ignore") {
  const MixedPhotos photos;
  const std::string train = "c.yaml:11:9: warning: input.data: train: ";
  const std::string val = "c.yaml:17:11: warning: evals.test.data: val: ";
  const std::string turned =
      "the EXIF orientation of 2 of 6 images is ignored; decode(exif=True) turns them upright\n";
  const std::string two = "2 files of other types were ignored (2 .txt)\n";
  const std::string three = "3 files of other types were ignored (2 .txt, 1 .html)\n";
  photos.write_config("decode");
  CHECK(photos.warnings({"--config", photos.dir / "c.yaml", "--workdir", photos.dir / "w"}) ==
        train + turned + train + two + val + turned + val + three);
  const std::vector<std::string> predict = {
      "predict",  "--workdir",           photos.dir / "w", "--input", photos.dir / "f/val",
      "--output", photos.dir / "p.jsonl"};
  CHECK(photos.warnings(predict) == "warning: inputs: " + turned + "warning: inputs: " + three);
  CHECK(split(read_text(photos.dir / "p.jsonl"), '\n').size() >= 6);
  std::vector<std::string> upright = predict;
  upright.insert(upright.end(), {"--pp", "decode(exif=True)|value_range(-1, 1)"});
  CHECK(photos.warnings(upright) == "warning: inputs: " + three);

  photos.write_config("decode(exif=True)");
  CHECK(photos.warnings({"--config", photos.dir / "c.yaml", "--dry-run"}) ==
        train + two + val + three);
}

TEST_CASE("pixels that no patch covers are named; a negative learning rate is refused") {
  TempFolder dir;
  const std::string vit = read_file(source_file("configs/digits_vit.yaml"));
  write(dir / "c.yaml", replaced(vit, "patch_size: [2, 2]", "patch_size: [3, 2]"));
  const Finished cut = run({"--config", dir / "c.yaml", "--dry-run"});
  CHECK(cut.code == 0);
  CHECK(cut.err.find("c.yaml:16:21: warning: model.patch_size: images of 8x8 with patches of 3x2: "
                     "the last 2 rows of pixels are not used\n") != std::string::npos);
  Bad bad;
  CHECK(bad.line(digits_with("lr: 0.002", "lr: -0.002")) ==
        "c.yaml:20:5: error: lr: must not be negative, got -0.002\n");
}

}  // namespace bv::test
