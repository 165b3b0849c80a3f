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
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// Returns the findings of an image folder, sliced.
DataFindings photos(int64_t examples, ImageSides size, int64_t channels = 3, bool equal = false) {
  DataFindings found;
  found.folder = "photos";
  found.data = {"image folder", {{"data_dir", "photos"}}, {}, "image_folder"};
  found.train = "train[:80%]";
  found.validation = "train[80%:]";
  found.sliced = true;
  found.examples = examples;
  found.train_examples = examples * 8 / 10;
  found.validation_examples = examples - found.train_examples;
  found.classes = {{"cat", examples / 2, 0}, {"dog", examples - examples / 2, 0}};
  found.images.tried = examples;
  found.images.channels = channels;
  found.images.smallest = found.images.largest = found.images.typical = size;
  found.images.equal = equal;
  return found;
}

DataFindings arrays(int64_t examples, ImageSides size, int64_t channels) {
  DataFindings found = photos(examples, size, channels, /*equal=*/true);
  found.images.encoded = false;
  return found;
}

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

PretrainedModel pretrained_vit() {
  PretrainedModel from;
  from.path = "w.npz";
  from.model_name = "vit";
  from.model = "{variant: B/32, pool_type: tok}";
  from.patch = 32;
  from.image = {384, 384};
  from.fresh = {"head/.*"};
  return from;
}

TEST_CASE("fine-tuning scales the values of the new data to the range of the old training") {
  PretrainedModel from = pretrained_vit();
  DataFindings floats = arrays(800, {28, 28}, 1);
  floats.images.type = at::kFloat;
  floats.images.most = 1;
  const std::string grey = R"(concat(["image", "image", "image"], outkey="image")|)";
  const auto pp = [&](const DataFindings& found, const std::string& old) {
    from.scaling = scaling_in(old, from.path);
    return choose_recipe(found, &from).eval_pp;
  };
  const DataFindings files = photos(800, {28, 28}), bytes = arrays(800, {28, 28}, 1);
  // The range of the old data does not matter.
  for (const char* old : {"value_range(0, 1)", "value_range(0, 1, 0, 1)"}) {
    CHECK(pp(files, old) == "decode|resize(128)|value_range(0, 1)");
    CHECK(pp(bytes, old) == grey + "resize(128)|value_range(0, 1)");
    CHECK(pp(floats, old) == grey + "value_range(0, 1, 0, 1)|resize(128)");
  }
  CHECK(pp(files, "vgg_value_range") == "decode|resize(128)|vgg_value_range");
  CHECK(pp(floats, "vgg_value_range") ==
        grey + "value_range(0, 255, 0, 1)|resize(128)|vgg_value_range");
  const std::string torchvision = "value_range(0, 1)|vgg_value_range(mean=[0.5])";
  CHECK(pp(files, torchvision) ==
        "decode|resize(128)|value_range(0, 1)|vgg_value_range(mean=[0.5])");
  CHECK(pp(floats, torchvision) ==
        grey + "value_range(0, 1, 0, 1)|resize(128)|vgg_value_range(mean=[0.5])");

  // Padding pixels get the minimum value at their place in pp.
  floats.images.channels = from.channels = 1;
  const auto affine = [&](const std::string& old) {
    from.scaling = scaling_in(old, from.path);
    const std::string all = choose_recipe(floats, &from).train_pp;
    return all.substr(all.find("scale="));
  };
  CHECK(affine("value_range(-1, 1)") == "scale=[0.9, 1.1], fill=-1)");
  CHECK(affine("value_range(0, 1)") == "scale=[0.9, 1.1])");
  CHECK(affine("value_range(-2.5, 1)") == "scale=[0.9, 1.1], fill=-2.5)");
  CHECK(affine("vgg_value_range") == "scale=[0.9, 1.1])|vgg_value_range");

  // No op scaled the values of the old training: float32 arrays stay as they are.
  CHECK(pp(floats, "resize(8)") == "resize(128)");
  floats.images.least = -1;
  CHECK(affine("resize(8)") == "scale=[0.9, 1.1], fill=-1)");
  for (const DataFindings& found : {files, bytes}) {
    CHECK(error_of([&] { pp(found, "resize(8)"); }) ==
          "w.npz: error: was trained on images that no op such as value_range scaled, so it does "
          "not record the range of their values; write pp, pp_fn and model_init yourself");
  }
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

TEST_CASE("the last op of a pp that scales images tells their range") {
  const auto target = [](const std::string& pp) { return scaling_in(pp, "w").target; };
  CHECK(target("decode|value_range") == ValueBounds{-1, 1});
  CHECK(target("value_range( 0, 2, 0, 1 ) |keep('image')") == ValueBounds{0, 2});
  CHECK(target("value_range(vmax=2)") == ValueBounds{-1, 2});
  CHECK(target("value_range(-1, 1)|value_range(0, 1, -1, 1)") == ValueBounds{0, 1});
  CHECK(target("value_range(0, 1)|value_range(3, 4, key='depth')") == ValueBounds{0, 1});
  CHECK_FALSE(target("decode|resize(8)"));
  CHECK_FALSE(target(""));
  const ValueScaling normalized =
      scaling_in("value_range(0, 255, 0, 1)|clip_value_range(mean=[1], std=[2])", "w");
  CHECK(normalized.target == ValueBounds{0, 255});
  CHECK(normalized.normalize == "clip_value_range(mean=[1], std=[2])");
  // What comes before the op counts: these means are of values from 0 to 1.
  const ValueScaling small = scaling_in("value_range(0, 1)|vgg_value_range(mean=[0.5])", "w");
  CHECK(small.target == ValueBounds{0, 1});
  CHECK(small.normalize == "vgg_value_range(mean=[0.5])");
  CHECK(target("value_range(0, 1)|value_range(-1, 1)") == ValueBounds{-1, -1 + 2.0 / 255});
  const auto refused = [](const std::string& pp) { return error_of([&] { scaling_in(pp, "w"); }); };
  CHECK(refused("value_range(0, 1, [1, 2, 3], [4, 5, 6])") ==
        "w: error: was trained on images that value_range scaled by channel (in_min is a list); "
        "write pp, pp_fn and model_init yourself");
  CHECK(refused("vgg_value_range|value_range(0, 1)") ==
        "w: error: was trained on images that value_range scaled after vgg_value_range; write pp, "
        "pp_fn and model_init yourself");
  CHECK(value_range_call({-1, 1}, {}) == "value_range(-1, 1)");
  CHECK(value_range_call({0, 0.5}, {-1, 16}) == "value_range(0, 0.5, -1, 16)");
}

TEST_CASE("fine-tuning takes images as the pretrained model wants them") {
  PretrainedModel from = pretrained_vit();
  StarterRecipe recipe = choose_recipe(photos(800, {480, 640}), &from);
  CHECK(recipe.image == ImageSides{384, 384});  // as in the model's training
  CHECK(recipe.size_note.empty());
  CHECK(contains(recipe.train_pp, "inception_crop(384, area_min=30)|flip_lr"));
  recipe = choose_recipe(photos(800, {300, 640}), &from);
  CHECK(recipe.image == ImageSides{224, 224});
  CHECK(recipe.size_note ==
        "The model was trained on images of 384x384. The config uses 224x224, as typical images of "
        "the data\nhave 640x300. For the larger size, which takes more time, change it in pp and "
        "pp_fn.");
  CHECK(contains(recipe_yaml(photos(800, {300, 640}), recipe, &from, "x.yaml"),
                 "\n  # The model was trained on images of 384x384. "));
  // With patches that are not square, its images may not have been square.
  PretrainedModel wide = from;
  wide.image = {192, 384};
  wide.patch = 32;
  recipe = choose_recipe(photos(800, {480, 640}), &wide);
  CHECK(recipe.image == ImageSides{192, 192});
  CHECK(recipe.size_note ==
        "The model was trained on images of 384x192. The config uses 192x192, a square of whole "
        "patches.\nFor another size, change it in pp and pp_fn.");
  CHECK(choose_recipe(photos(800, {28, 28}), &from).image == ImageSides{128, 128});
  CHECK(contains(choose_recipe(photos(800, {28, 28}, 1), &from).train_pp, "decode|resize(128)"));
  CHECK(choose_recipe(arrays(800, {28, 28}, 1), &from).eval_pp ==
        R"(concat(["image", "image", "image"], outkey="image")|resize(128)|value_range(-1, 1))");
  from.pil = true;  // of timm or Hugging Face
  CHECK(contains(choose_recipe(photos(800, {480, 640}), &from).eval_pp, "decode(precise=True)|"));
  from.other_sizes = false;
  CHECK(choose_recipe(photos(800, {480, 640}), &from).image == ImageSides{384, 384});
  from.channels = 1;
  CHECK(
      contains(choose_recipe(photos(800, {480, 640}), &from).train_pp, "decode(1, precise=True)|"));
  CHECK(error_of([&] {
          choose_recipe(arrays(800, {32, 32}, 3), &from);
        }) == "w.npz: error: takes images of 1 channels, but those of the data have 3");
}

TEST_CASE("fine-tuning evaluates as timm does, and comments say what is assumed") {
  PretrainedModel from = pretrained_vit();
  from.image = {224, 224};
  const DataFindings found = photos(800, {480, 640});
  CHECK(choose_recipe(found, &from).eval_pp ==
        "decode|resize_small(256)|central_crop(224)|value_range(-1, 1)");
  from.crop_share = 0.9;
  CHECK(contains(choose_recipe(found, &from).eval_pp, "|resize_small(248)|central_crop(224)|"));
  from.resize_method = "bicubic";
  const StarterRecipe recipe = choose_recipe(found, &from);
  CHECK(contains(recipe.eval_pp,
                 "|resize_small(248, \"bicubic\", antialias=True)|central_crop(224)|"));
  CHECK(contains(recipe.train_pp, "|inception_crop(224, area_min=30)|"));
  CHECK_FALSE(contains(recipe_yaml(found, recipe, &from, "x.yaml"), "assumed"));
  from.scaling_note = "The scaling\nis assumed.";
  from.heads_note = "The heads are assumed.";
  const std::string yaml = recipe_yaml(found, recipe, &from, "x.yaml");
  CHECK(contains(yaml, "  # The scaling\n  # is assumed.\n"));
  CHECK(contains(yaml, "# The heads are assumed.\nmodel_name: vit\n"));
}

TEST_CASE("an op and a name from a weights file add no keys to the YAML") {
  PretrainedModel from = pretrained_vit();
  from.scaling = {.target = ValueBounds{},
                  .normalize = "vgg_value_range(\nmean=[1, 1, 1])\nwd: 0.5 # ${HOME}"};
  from.model_name = "vit\nlabel_smoothing: 0.9";
  const DataFindings found = photos(800, {480, 640});
  const StarterRecipe recipe = choose_recipe(found, &from);
  const Config config = parse_config(recipe_yaml(found, recipe, &from, "x.yaml"), "x.yaml");
  CHECK(contains(config.section("input").get<std::string>("pp"), from.scaling.normalize));
  CHECK(config.get<std::string>("model_name") == from.model_name);
  CHECK_FALSE(config.has("wd"));
  CHECK_FALSE(config.has("label_smoothing"));
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
