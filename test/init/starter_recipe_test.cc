// The recipes for made-up findings, and the YAML generated from them.
#include "lib/init/starter_recipe.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "lib/init/init_report.h"
#include "lib/init/recipe_yaml.h"
#include "lib/init/yaml_text.h"
#include "lib/input/image/jpeg.h"
#include "lib/input/pipeline.h"
#include "lib/model/model.h"
#include "test/init/made_up_findings.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

StarterRecipe recipe_of(const DataFindings& found) { return choose_recipe(found, nullptr); }

// Builds the ops and the model of a recipe. Throws if one of them is wrong.
void check_buildable(const DataFindings& found, const StarterRecipe& recipe) {
  INFO(recipe.train_pp);
  for (const std::string& pp : {recipe.train_pp, recipe.eval_pp}) {
    const Pipeline pipeline(pp, Place{"pp"});
    Example example = {
        {"image",
         found.images.encoded
             ? encode_jpeg(at::full({found.images.typical.height, found.images.typical.width, 3}, 9,
                                    at::kByte),
                           90)
             : at::full(
                   {found.images.typical.height, found.images.typical.width, found.images.channels},
                   1, found.images.type)}};
    if (found.images.rank2) example["image"] = example["image"].squeeze(2);
    Rng rng(1, Purpose::augment, 1);
    pipeline.apply(example, rng);
    const at::Tensor image = example.at("image");
    CHECK(image.scalar_type() == at::kFloat);
    CHECK(image.size(0) == recipe.image.height);
    CHECK(image.size(1) == recipe.image.width);
    CHECK(image.abs().max().item<double>() <= 1.001);
    const auto model =
        Model::Registry::make(recipe.model_name, parse_config(recipe.model, "model"), Place(),
                              ModelEnv{2, recipe.image.height, recipe.image.width, image.size(2)});
    CHECK(model != nullptr);
  }
}

}  // namespace

TEST_CASE("digits get a CNN at their size and are not mirrored") {
  const DataFindings found = arrays(60000, {28, 28}, 1);
  const StarterRecipe recipe = recipe_of(found);
  CHECK(recipe.model_name == "cnn");
  CHECK(recipe.train_pp ==
        "random_affine(shift=0.08, rotate=10, scale=[0.9, 1.1])|value_range(-1, 1)");
  CHECK(recipe.eval_pp == "value_range(-1, 1)");
  CHECK(recipe.image == ImageSides{28, 28});
  CHECK(recipe.batch_size == 128);
  CHECK(recipe.epochs == 15);
  check_buildable(found, recipe);
}

TEST_CASE("small colour images get the residual network of CIFAR-10, padded crops and flips") {
  const DataFindings found = arrays(60000, {32, 32}, 3);
  const StarterRecipe recipe = recipe_of(found);
  CHECK(recipe.model_name == "resnet_cifar");
  CHECK(recipe.train_pp ==
        R"(pad_to_shape([40, 40, 3], where="both")|random_crop(32)|flip_lr|value_range(-1, 1))");
  CHECK(contains(recipe.optimizer, "momentum_hp"));
  CHECK(recipe.batch_size == 256);
  check_buildable(found, recipe);
  // Few images: Adam, and stronger augmentation.
  const StarterRecipe few = recipe_of(arrays(500, {32, 32}, 3));
  CHECK(contains(few.train_pp, "|flip_lr|random_affine("));
  CHECK(contains(few.optimizer, "scale_by_adam"));
  CHECK(few.batch_size == 32);
}

TEST_CASE("photos are cropped to a size that grows with their number") {
  const auto side = [](int64_t examples, ImageSides size) {
    return recipe_of(photos(examples, size)).image.height;
  };
  CHECK(side(400, {480, 640}) == 64);
  CHECK(side(20000, {480, 640}) == 96);
  CHECK(side(20000, {100, 640}) == 64);
  CHECK(side(100000, {480, 640}) == 128);
  CHECK(side(1000000, {480, 640}) == 224);
  CHECK(recipe_of(photos(1000000, {480, 640})).model_name == "bit");
  const DataFindings found = photos(400, {48, 64});
  const StarterRecipe recipe = recipe_of(found);
  CHECK(recipe.train_pp ==
        "decode|inception_crop(64)|flip_lr|random_affine(rotate=10)|value_range(-1, 1)");
  CHECK(recipe.eval_pp == "decode|resize_small(72)|central_crop(64)|value_range(-1, 1)");
  check_buildable(found, recipe);
}

TEST_CASE("images of every form pass the ops and fit the model") {
  for (const ImageSides size : {ImageSides{1, 3}, {3, 2}, {8, 8}, {20, 31}, {40, 33}, {41, 200}}) {
    for (const int64_t channels : {1, 3}) {
      for (const bool equal : {true, false}) {
        DataFindings found = photos(300, size, channels, equal);
        check_buildable(found, recipe_of(found));
        found.turned = true;
        check_buildable(found, recipe_of(found));
      }
      DataFindings found = arrays(300, size, channels);
      check_buildable(found, recipe_of(found));
      for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kInt}) {
        found.images.type = type;
        found.images.most = 1;
        check_buildable(found, recipe_of(found));
      }
      found.images.rank2 = channels == 1;
      check_buildable(found, recipe_of(found));
    }
  }
}

TEST_CASE("the values of arrays decide how they are scaled") {
  DataFindings found = arrays(300, {8, 8}, 1);
  found.images.most = 16;
  CHECK(recipe_of(found).eval_pp == "value_range(-1, 1, 0, 16)");
  found.images.type = at::kFloat;
  found.images.most = 0.99;
  CHECK(recipe_of(found).train_pp ==
        "value_range(-1, 1, 0, 1)|random_affine(shift=0.08, rotate=10, scale=[0.9, 1.1], fill=-1)");
  found.images.least = -1;
  CHECK(recipe_of(found).eval_pp == "value_range(-1, 1, -1, 1)");
}

TEST_CASE("tiny data sets train for at least 300 steps, with a batch that they fill") {
  for (const int64_t examples : {4, 10, 50, 200, 1000, 5000}) {
    for (const ImageSides size : {ImageSides{28, 28}, {200, 200}}) {
      const DataFindings found = photos(examples, size, 3, /*equal=*/true);
      const StarterRecipe recipe = recipe_of(found);
      CHECK(recipe.total_steps(found.train_examples) >= 300);
      CHECK(recipe.batch_size <= found.train_examples);
    }
  }
}

TEST_CASE("the recipe of the example in README.md") {
  DataFindings found = photos(1000, {480, 640});
  found.train_examples = 900;
  const StarterRecipe recipe = recipe_of(found);
  CHECK(recipe.about == "a small residual network on crops of 64x64");
  CHECK(recipe.epochs == 44);
  CHECK(recipe.batch_size == 32);
  CHECK(recipe.total_steps(found.train_examples) == 1238);
  CHECK(contains(recipe_yaml(found, recipe, nullptr, "x.yaml"), "44 epochs, 1,238 steps.\n"));
}

TEST_CASE("sizes are the width and the height; counts are of whole splits") {
  DataFindings found = photos(400, {480, 640});
  found.broken_files = 1234;
  const StarterRecipe recipe = recipe_of(found);
  const auto json = findings_json(found, recipe, "x.yaml");
  CHECK(json.at("images").at("typical") == nlohmann::ordered_json{640, 480});
  CHECK(json.at("classes").at(0) == nlohmann::ordered_json{{"name", "cat"}, {"examples", 200}});
  const std::string text = findings_text(found);
  CHECK(contains(text, "typically 640x480"));
  CHECK(contains(text, "1,234 files"));
  const DataFindings wide = arrays(300, {20, 31}, 1);
  CHECK(recipe_of(wide).about == "a small CNN on grey images of 31x20");
  CHECK(findings_json(wide, recipe_of(wide), "x.yaml").at("recipe").at("image") ==
        nlohmann::ordered_json{31, 20});
}

TEST_CASE("arrays that are scaled first are padded with the least value") {
  DataFindings found = arrays(400, {200, 200}, 3);
  found.images.type = at::kFloat;
  found.images.most = 1;
  CHECK(contains(recipe_of(found).train_pp, "|random_affine(rotate=10, fill=-1)"));
  check_buildable(found, recipe_of(found));
}

TEST_CASE("the range of arrays follows from their type and their largest value") {
  DataFindings found = arrays(800, {200, 200}, 3);
  const auto scaled = [&](at::ScalarType type, double most) {
    found.images.type = type;
    found.images.most = most;
    const std::string pp = recipe_of(found).eval_pp;
    return pp.substr(0, pp.find(')') + 1);
  };
  CHECK(scaled(at::kFloat, 0.9) == "value_range(-1, 1, 0, 1)");
  CHECK(scaled(at::kFloat, 1.04) == "value_range(-1, 1, 0, 1)");
  CHECK(scaled(at::kDouble, 0.25) == "value_range(-1, 1, 0, 0.25)");
  CHECK(scaled(at::kFloat, 3.5) == "value_range(-1, 1, 0, 3.5)");
  CHECK(scaled(at::kFloat, 16) == "value_range(-1, 1, 0, 16)");
  CHECK(scaled(at::kFloat, 200) == "value_range(-1, 1)");
  CHECK(scaled(at::kFloat, 256.5) == "value_range(-1, 1)");
  CHECK(scaled(at::kFloat, 300) == "value_range(-1, 1, 0, 300)");
  CHECK(scaled(at::kInt, 2) == "value_range(-1, 1, 0, 16)");
  CHECK(scaled(at::kInt, 1000) == "value_range(-1, 1, 0, 1023)");
  CHECK(scaled(at::kInt, 4095) == "value_range(-1, 1, 0, 4095)");
  CHECK(scaled(at::kInt, 4096) == "value_range(-1, 1, 0, 16383)");
  CHECK(scaled(at::kInt, 60000) == "value_range(-1, 1, 0, 65535)");
}

TEST_CASE("the YAML is a config, with hints where the data asks for them") {
  DataFindings found = photos(400, {480, 640});
  found.classes = {{"cat\n", 300, 0}, {"dog", 100, 0}};
  const std::string yaml = recipe_yaml(found, recipe_of(found), nullptr, "my photos.yaml");
  CHECK(yaml.starts_with("# bvtrain --config 'my photos.yaml' --workdir 'out/my photos'\n"));
  const Config config = parse_config(yaml, "x.yaml");
  CHECK(config.get<std::string>("num_classes") == "auto");
  CHECK(config.section("input").section("data").get<std::string>("split") == "train[:80%]");
  CHECK(contains(yaml, "'cat\\n' has 300 images, 'dog' has 100"));
  CHECK_FALSE(contains(yaml, "skip_errors"));

  found.images.broken = {"cat/1.jpg: truncated"};
  found.sliced = false;
  found.train = "train";
  found.validation = "val";
  found.test = "test";
  const std::string other = recipe_yaml(found, recipe_of(found), nullptr, "x.yaml");
  CHECK(count(other, "skip_errors: true") == 2);
  const Config with_test = parse_config(other, "x.yaml");
  const Config evals = with_test.section("evals");
  CHECK(evals.section("test").section("data").get<std::string>("split") == "test");
  CHECK(evals.section("test").has("pp_fn"));
  // It is evaluated at the end of a run of any length.
  CHECK_FALSE(evals.section("test").maybe<double>("log_epochs").has_value());
  CHECK(evals.section("test").get<double>("log_percent") == 1);
}

TEST_CASE("the command writes into no class folder of the data") {
  DataFindings found = photos(400, {480, 640});
  found.data.source = "image_folder";
  found.folder = ".";  // of the tests; it exists
  CHECK(training_command(found, "x.yaml") == "bvtrain --config x.yaml --workdir ../out/x");
  found.folder = "/no/such/folder";
  CHECK(training_command(found, "x.yaml") == "bvtrain --config x.yaml --workdir out/x");
}

TEST_CASE("texts come back from YAML as they were") {
  for (const std::string text :
       {"photos", "/a/b-c_1.x", "./x",     "no",      "null",  "2024", "1e3", "a b", "a: b",
        "#x",     "it's",       "a\"b\\c", "${HOME}", "$${x}", "Ünï",  "-",   "~",   "a\nb",
        "[x]",    "{y",         "*z",      "&z",      "!t",    "%d",   "@e",  ", "}) {
    const Config config = parse_config("{k: " + yaml_text(text) + "}", "x.yaml");
    CHECK(config.get<std::string>("k") == text);
  }
}

TEST_CASE("an existing file is never overwritten") {
  const TempFolder dir;
  const std::string file = dir / "x.yaml";
  write_new_file(file, "new");
  CHECK(error_of([&] { write_new_file(file, "newer"); }) ==
        file + ": error: exists already; choose another --output");
  CHECK(read_text(file) == "new");
  CHECK(error_of([&] { write_new_file(dir / "none/x.yaml", ""); }, Exit::storage) ==
        dir / "none/x.yaml" + ": error: cannot be written: No such file or directory");
}

}  // namespace bv::test
