// In every data set of a run, labels are matched by class name. With the real binary.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "lib/ckpt/formats/npz.h"
#include "lib/input/image/jpeg.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// Each class has its own colour, which a small model learns in a few steps.
struct ColourPhotos {
  TempFolder dir;

  ColourPhotos() {
    for (const char* name : {"cat", "dog", "ship"}) add("all", name, 12);
    for (const char* name : {"cat", "ship"}) add("some", name, 6);
    for (const char* name : {"cat", "plane", "ship"}) add("other", name, 6);
  }

  void add(const std::string& folder, const std::string& name, int count) const {
    const int channel = name == "cat" ? 0 : name == "dog" ? 1 : 2;
    at::Tensor image = at::full({8, 8, 3}, 40, at::kByte);
    image.select(2, channel).fill_(220);
    const at::Tensor bytes = encode_jpeg(image, 95);
    for (int i = 0; i < count; ++i) {
      dir.write(fmt::format("{}/{}/{}.jpg", folder, name, i),
                {reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
                 static_cast<size_t>(bytes.numel())});
    }
  }

  // Returns the config of a run on all/ that is evaluated on the folder `val`.
  std::string config(const std::string& val, const std::string& more = "") const {
    return dir.write("c.yaml", fmt::format(R"(
num_classes: auto
total_steps: 30
input:
  data: {{name: image_folder, data_dir: {0}/all}}
  batch_size: 18
  pp: decode|value_range(-1, 1)|onehot(num_classes, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {{widths: [8], dense: 16}}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.01
log_training_steps: 30
evals:
  val:
    type: classification
    data: {{name: image_folder, data_dir: {0}/{1}{2}}}
    pp_fn: decode|value_range(-1, 1)|onehot(num_classes, key="label", key_result="labels")|keep("image", "labels")
    loss_name: softmax_xent
    log_steps: 30
)",
                                           dir.path(), val, more));
  }
};

}  // namespace

TEST_CASE("a validation folder without one of the classes is scored by name") {
  const ColourPhotos photos;
  const std::string workdir = photos.dir / "out";
  const Finished trained = run({"--config", photos.config("some"), "--workdir", workdir});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK(metric_rows(workdir).back().at("val/prec@1") == "1");
  // The checkpoint has the names and the number that `auto` stands for.
  const Finished predicted = run({"predict", "--workdir", workdir, "--eval", "val"});
  CHECK(contains(predicted.out, "label 2 ship   predicted 2 ship"));
  CHECK(contains(predicted.out, "12 of 12 are right"));
  CHECK(contains(read_text(workdir + "/config.yaml"), "num_classes: 3"));

  // Photos that are added later are evaluated with a warning.
  const std::vector<std::string> predict = {"predict", "--workdir", workdir, "--eval", "val"};
  const std::vector<std::string> eval = {"eval", "--workdir", workdir, "--ckpt", "30"};
  const std::string warning =
      "warning: evals.val.data: other examples than in training (12 examples; now 13 examples); a "
      "slice such as train[80%:] may now hold images that the model was trained on\n";
  const Finished same = run(eval);
  INFO(same.err);
  CHECK(same.code == 0);
  CHECK_FALSE(contains(same.err, "other examples"));
  CHECK_FALSE(contains(predicted.err, "other examples"));
  photos.add("some", "cat", 7);
  for (const auto& command : {predict, eval}) {
    const Finished grown = run(command);
    INFO(grown.err);
    CHECK(grown.code == 0);
    CHECK(contains(grown.err, warning));
  }
  std::vector<std::string> chosen = eval;
  chosen.insert(chosen.end(), {"--set", "evals.val.data.split=train[:6]"});
  const Finished part = run(chosen);
  INFO(part.err);
  CHECK(part.code == 0);
  CHECK_FALSE(contains(part.err, "other examples"));
}

TEST_CASE("a class that training does not know is an error that lists both sides, or is skipped") {
  const ColourPhotos photos;
  const Finished refused = run({"--config", photos.config("other")});
  CHECK(refused.code == 2);
  CHECK(contains(refused.err,
                 "error: evals.val.data: has examples of plane, but the classes of the training "
                 "data are cat, dog, ship; `unknown_classes: skip` leaves these examples out\n"));
  const std::string workdir = photos.dir / "out";
  const Finished skipped =
      run({"--config", photos.config("other", ", unknown_classes: skip"), "--workdir", workdir});
  INFO(skipped.err);
  CHECK(skipped.code == 0);
  CHECK(contains(skipped.err,
                 "evals.val.data: 6 of 18 examples are left out, because the training "
                 "data has no class plane"));
  CHECK(metric_rows(workdir).back().at("val/prec@1") == "1");
}

TEST_CASE("eval gives folders called 0, 1, 2, 10 the numbers that they have in training") {
  const ColourPhotos photos;
  for (const char* name : {"0", "1", "2", "10"}) photos.add("numbers", name, 3);
  const std::string arrays = photos.dir / "a.npz", workdir = photos.dir / "out";
  write_npz(arrays, {{"image", at::full({24, 8, 8, 3}, 90, at::kByte)},
                     {"label", at::tensor({0, 1, 2, 10}, at::kLong).repeat({6})}});
  const std::string pp =
      R"(value_range(-1, 1)|onehot(11, key="label", key_result="labels")|keep("image", "labels"))";
  const Finished trained =
      run({"--config", photos.config("numbers"), "--workdir", workdir, "--set", "num_classes=11",
           "--set", "input.data={name: npz, fname: '" + arrays + "'}", "--set",
           "input.pp='" + pp + "'"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  const Finished evaluated = run({"eval", "--workdir", workdir, "--ckpt", "30", "--json"});
  INFO(evaluated.err);
  REQUIRE(evaluated.code == 0);
  CHECK(contains(evaluated.err, "warning: evals.val.data: has class names, but the checkpoint " +
                                    workdir + "/ckpt/step-30 has none: these names are numbers"));
  CHECK(nlohmann::json::parse(evaluated.out).at("metrics").at("val/loss").get<double>() ==
        std::stod(metric_rows(workdir).back().at("val/loss")));
}

TEST_CASE("num_classes below the number of classes is an error, above it a warning") {
  const ColourPhotos photos;
  const std::string config = photos.config("some");
  for (const char* skip : {"input.skip_errors=0", "input.skip_errors=true"}) {
    const Finished few = run({"--config", config, "--set", "num_classes=2", "--set", skip});
    CHECK(few.code == 2);
    CHECK(contains(few.err,
                   "error: num_classes: 2 is less than the 3 classes of the training data "
                   "(cat, dog, ship); set it to 3 or to auto\n"));
  }
  const Finished many = run({"--config", config, "--set", "num_classes=5", "--dry-run"});
  INFO(many.err);
  CHECK(many.code == 0);
  CHECK(contains(many.err,
                 "warning: num_classes: 5 is more than the training data needs (cat, dog, "
                 "ship): no example has label 3, 4\n"));
}

TEST_CASE("a resumed run keeps the class numbers of its checkpoint") {
  const ColourPhotos photos;
  const std::string config = photos.config("some"), workdir = photos.dir / "out";
  REQUIRE(run({"--config", config, "--workdir", workdir}).code == 0);
  photos.add("all", "apple", 3);
  std::vector<std::string> more = {"--config", config,           "--workdir",       workdir,
                                   "--set",    "total_steps=40", "--accept-changes"};
  const Finished refused = run(more);
  CHECK(refused.code == 2);
  CHECK(contains(refused.err,
                 "input.data: has examples of apple, but the classes of the checkpoint " + workdir +
                     "/ckpt/step-30 are cat, dog, ship;"));
  std::filesystem::remove_all(photos.dir / "all/apple");
  // More photos change the training, even if the config is the same.
  photos.add("all", "dog", 14);
  more.pop_back();
  const Finished larger = run(more);
  CHECK(larger.code == 2);
  CHECK(contains(larger.err, "changed config: input.data: 36 examples -> 38 examples\n"));
  more.push_back("--accept-changes");
  const Finished finished = run(more);
  INFO(finished.err);
  CHECK(finished.code == 0);
  CHECK(contains(finished.err,
                 "warning: input.data: other examples than in training (36 examples; now 38 "
                 "examples); a slice such as train[80%:] may now hold images"));
}

}  // namespace bv::test
