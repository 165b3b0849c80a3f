// The recipes that fine-tune a pretrained model on made-up findings.
#include <ATen/core/ScalarType.h>

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "lib/init/pretrained.h"
#include "lib/init/recipe_yaml.h"
#include "lib/init/starter_recipe.h"
#include "lib/init/value_scaling.h"
#include "test/init/made_up_findings.h"
#include "test/support/error.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

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

}  // namespace

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

}  // namespace bv::test
