#include "lib/init/starter_recipe.h"

#include <algorithm>
#include <cmath>

#include "lib/config/duration.h"
#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr int64_t kSmall = 40;    // images up to this side keep their size
constexpr int64_t kFew = 2000;    // fewer examples get stronger augmentation
constexpr int64_t kMany = 10000;  // at least this many small colour images get CIFAR-10's recipe
constexpr int64_t kHuge = 200000;
constexpr int64_t kLeastSteps = 300;     // of the whole training
constexpr int64_t kFineTuneSteps = 500;  // BiT's rule for data sets of up to 20,000 examples
constexpr const char* kAdam =
    "optax_name: scale_by_adam\n"
    "lr: {}\n"
    "wd: 0.0001\n"
    "schedule: {{decay_type: cosine, warmup_percent: {}}}\n";

// Returns a size as an argument of ops: "64" for a square, otherwise "[height, width]".
std::string size_argument(const ImageSides& size) {
  return size.height == size.width ? fmt::format("{}", size.height)
                                   : fmt::format("[{}, {}]", size.height, size.width);
}

void add_op(std::string& pp, const std::string& op) {
  if (!op.empty()) pp += (pp.empty() ? "" : "|") + op;
}

// The first ops for every image, and those that scale its values at the end. Arrays that are not
// 8-bit are scaled first, because the other ops take 8-bit or float32 images.
struct CommonOps {
  std::string first, last;
  double black = 0;  // the minimum value between `first` and `last`, with which ops pad images

  // Returns ", fill=-1", or "" if pixels are 0 by default and should be.
  std::string fill(const char* argument = "fill") const {
    return black == 0 ? "" : fmt::format(", {}={}", argument, json_number(black));
  }
};

void add_scaling(const SampledImages& images, const ValueScaling& scaling, CommonOps& ops) {
  const ValueBounds source = range_of_data(images);
  const bool at_once = !images.encoded && images.type != at::kByte;
  std::string& place = at_once ? ops.first : ops.last;
  if (scaling.target) {
    // Values from 0 to 255 need no scaling before an op that takes them unchanged.
    const bool scaled = !at_once && !scaling.normalize.empty() && source == *scaling.target;
    if (!scaled) add_op(place, value_range_call(*scaling.target, source));
    add_op(ops.last, scaling.normalize);
    if (at_once) ops.black = scaling.target->least;
  } else {
    ops.black = source.least;
  }
}

// `precise`: decodes JPEGs exactly as PIL does, which is slightly slower.
CommonOps common_ops(const DataFindings& found, int64_t channels, const ValueScaling& scaling,
                     bool precise) {
  const SampledImages& images = found.images;
  CommonOps ops;
  if (images.encoded) {
    std::vector<std::string> arguments;
    if (channels == 1) arguments.emplace_back("1");
    if (precise) arguments.emplace_back("precise=True");
    if (found.turned) arguments.emplace_back("exif=True");
    ops.first = arguments.empty() ? "decode" : "decode(" + join(arguments, ", ") + ")";
  } else {
    if (images.rank2)
      ops.first = fmt::format("reshape([{}, {}, 1])", images.typical.height, images.typical.width);
    if (images.channels == 1 && channels == 3)
      add_op(ops.first, R"(concat(["image", "image", "image"], outkey="image"))");
  }
  add_scaling(images, scaling, ops);
  return ops;
}

int64_t batch_size_for(int64_t examples) {
  const int64_t size = examples < 200     ? 16
                       : examples < kFew  ? 32
                       : examples < kMany ? 64
                       : examples < 50000 ? 128
                                          : 256;
  return std::min(size, examples);
}

// Returns the number of epochs in which training sees about `images` images. It is between `least`
// and 200, or more if kLeastSteps steps need more.
int64_t epochs_for(int64_t images, int64_t least, int64_t examples, int64_t batch_size) {
  const int64_t epochs = std::clamp<int64_t>(images / examples, least, 200);
  return std::max(epochs, (kLeastSteps * batch_size + examples - 1) / examples);
}

// Small grey images, such as digits: the CNN of configs/mnist_cnn.yaml.
void choose_cnn(const DataFindings& found, const CommonOps& ops, StarterRecipe& recipe) {
  const int64_t n = found.train_examples;
  const bool grey = found.images.channels == 1;
  recipe.about = fmt::format("a small CNN on {} images", grey ? "grey" : "colour");
  recipe.model_name = "cnn";
  const int64_t side = recipe.image.shorter();
  recipe.model = fmt::format("{{widths: {}, dense: 256, dropout: {}}}",
                             side >= 4   ? "[32, 64]"
                             : side >= 2 ? "[32]"
                                         : "[]",
                             n < 5000 ? 0.3 : 0.2);
  if (!grey) add_op(recipe.train_pp, "flip_lr");
  add_op(recipe.train_pp,
         fmt::format("random_affine(shift=0.08, rotate=10, scale=[0.9, 1.1]{})", ops.fill()));
  recipe.pp_hint =
      grey
          ? "Images are shifted, turned and scaled a little, but not mirrored, because mirrored\n"
            "digits and letters are different symbols. For things that may be mirrored add flip_lr."
          : "";
  recipe.batch_size = std::min<int64_t>(n, n < 500 ? 32 : n < 2000 ? 64 : 128);
  recipe.epochs = epochs_for(240000, 15, n, recipe.batch_size);
  recipe.optimizer = fmt::format(kAdam, 0.002, 0.05);
  recipe.ema = 0.99;
}

// Small colour images, such as CIFAR's: a ResNet of nine layers.
void choose_small_resnet(const DataFindings& found, const CommonOps& ops, StarterRecipe& recipe) {
  const int64_t n = found.train_examples;
  recipe.about = "a small residual network on colour images";
  recipe.model_name = "resnet_cifar";
  recipe.model = "{norm: batch, width: 32}";
  const int64_t pad = std::max<int64_t>(2, recipe.image.shorter() / 8);
  add_op(recipe.train_pp,
         fmt::format("pad_to_shape([{}, {}, {}], where=\"both\"{})|random_crop({})|flip_lr",
                     recipe.image.height + 2 * pad, recipe.image.width + 2 * pad,
                     found.images.channels, ops.fill("pad_value"), size_argument(recipe.image)));
  if (n < kFew) {
    add_op(recipe.train_pp,
           fmt::format("random_affine(rotate=10, scale=[0.85, 1.15]{})", ops.fill()));
  }
  recipe.label_smoothing = 0.1;
  recipe.ema = 0.99;
  // This learning rate is for softmax_xent. Other tasks have other losses.
  if (n >= kMany && found.task == LabelTask::classify) {
    recipe.batch_size = 256;
    recipe.epochs = epochs_for(750000, 15, n, recipe.batch_size);
    recipe.optimizer =
        "optax_name: momentum_hp\n"
        "optax: {momentum: 0.9, nesterov: true, dtype: float32}\n"
        "lr: 0.2\n"
        "wd: 0.0001\n"
        "schedule: {decay_type: linear, warmup_percent: 0.2}\n";
    return;
  }
  recipe.batch_size = batch_size_for(n);
  recipe.epochs = epochs_for(200000, 20, n, recipe.batch_size);
  recipe.optimizer = fmt::format(kAdam, 0.001, 0.1);
}

// Returns the side to which large images are cropped and resized.
int64_t crop_side(const DataFindings& found) {
  const int64_t side = found.images.typical.shorter(), n = found.train_examples;
  if (n >= kHuge && side >= 200) return 224;
  if (n >= 5 * kMany && side >= 150) return 128;
  return n >= kMany && side >= 110 ? 96 : 64;
}

// Returns the images of choose_crops() in the words of a description. For regress, keep_geometry()
// replaces the crops by resized images.
std::string images_of_crops(const DataFindings& found) {
  return found.task == LabelTask::regress ? "resized images" : "crops";
}

// Images of various sizes: crops of one size.
void choose_crops(const DataFindings& found, const CommonOps& ops, StarterRecipe& recipe) {
  const int64_t n = found.train_examples, side = recipe.image.height;
  const bool grey = found.images.channels == 1;
  // A window of 5 % of a photo often shows enough of it; one of a grey scan or letter does not.
  add_op(recipe.train_pp, fmt::format("inception_crop({}{})", side, grey ? ", area_min=50" : ""));
  if (!grey) add_op(recipe.train_pp, "flip_lr");
  if (n < kFew) add_op(recipe.train_pp, fmt::format("random_affine(rotate=10{})", ops.fill()));
  if (grey) recipe.pp_hint = "For images that may be mirrored add flip_lr.";
  add_op(recipe.eval_pp, fmt::format("resize_small({})|central_crop({})", side * 9 / 8, side));
  recipe.batch_size = batch_size_for(n);
  if (side == 224) {
    recipe.about = "a ResNet-50 (BiT) on " + images_of_crops(found);
    recipe.model_name = "bit";
    recipe.model = "{depth: 50}";
    recipe.epochs = 30;
    recipe.optimizer =
        "optax_name: big_vision.momentum_hp\n"
        "lr: 0.1\n"
        "wd: 0.0001\n"
        "grad_clip_norm: 1.0\n"
        "schedule: {decay_type: cosine, warmup_percent: 0.05}\n";
    return;
  }
  recipe.about = "a small residual network on " + images_of_crops(found);
  recipe.model_name = "resnet_cifar";
  recipe.model = side > 64 ? "{width: 32, blocks: [1, 0, 1, 0]}" : "{width: 32}";
  recipe.epochs = epochs_for(40000, n < kMany ? 20 : 15, n, recipe.batch_size);
  recipe.optimizer = fmt::format(kAdam, 0.001, 0.1);
  recipe.ema = 0.99;
}

// Returns the image side for a pretrained model that suits the data. It is the side that the model
// was trained on if the images of the data are at least as large. For smaller images it is at most
// 224, and for tiny images at most 128, because a larger side shows nothing more.
int64_t suitable_side(const DataFindings& found, const PretrainedModel& from) {
  constexpr int64_t kUsual = 224, kForSmall = 128, kStillSmall = 64;
  const int64_t native = from.image.height > 0 ? from.image.height : kUsual;
  const int64_t typical = found.images.typical.shorter();
  const int64_t most = typical >= native ? native : typical <= kStillSmall ? kForSmall : kUsual;
  return std::min(native, most);
}

// Returns the image size for a pretrained model: suitable_side(), in whole patches.
ImageSides pretrained_size(const DataFindings& found, const PretrainedModel& from) {
  if (!from.other_sizes) return from.image;
  const int64_t side = suitable_side(found, from);
  const int64_t whole = std::max(from.patch, side / from.patch * from.patch);
  return {whole, whole};
}

// Says why the images have another size than in the model's training; "" if they have not.
std::string size_note(const DataFindings& found, const ImageSides& image,
                      const PretrainedModel& from) {
  const ImageSides& trained = from.image;
  if (trained.height == 0 || image == trained) return "";
  if (suitable_side(found, from) == trained.height) {
    return fmt::format(
        "The model was trained on images of {}. The config uses {}, a square of whole patches.\n"
        "For another size, change it in pp and pp_fn.",
        size_text(trained), size_text(image));
  }
  return fmt::format(
      "The model was trained on images of {}. The config uses {}, as typical images of the data\n"
      "have {}. For the larger size, which takes more time, change it in pp and pp_fn.",
      size_text(trained), size_text(image), size_text(found.images.typical));
}

// Returns the ops that cut out the centre for an evaluation, as timm does if it is known how.
std::string central_crop(const PretrainedModel& from, const ImageSides& image) {
  const std::string size = size_argument(image);
  if (image.height != image.width) return "resize(" + size + ")";
  const int64_t side =
      from.crop_share > 0
          ? static_cast<int64_t>(std::floor(static_cast<double>(image.height) / from.crop_share))
          : image.height * 8 / 7;
  const std::string how =
      from.resize_method.empty() ? "" : ", \"" + from.resize_method + "\", antialias=True";
  return fmt::format("resize_small({}{})|central_crop({})", side, how, size);
}

void choose_fine_tuning(const DataFindings& found, const PretrainedModel& from,
                        const CommonOps& ops, StarterRecipe& recipe) {
  const int64_t n = found.train_examples;
  recipe.about = fmt::format("fine-tuning of {} ({}) on images", from.path, from.model_name);
  recipe.model_name = from.model_name;
  recipe.model = from.model;
  const bool grey = found.images.channels == 1;
  const std::string size = size_argument(recipe.image);
  if (found.images.typical.shorter() <= kSmall) {
    add_op(recipe.train_pp, "resize(" + size + ")");
    add_op(recipe.eval_pp, "resize(" + size + ")");
    if (grey)
      add_op(recipe.train_pp,
             fmt::format("random_affine(shift=0.08, rotate=10, scale=[0.9, 1.1]{})", ops.fill()));
  } else {
    add_op(recipe.train_pp, fmt::format("inception_crop({}, area_min=30)", size));
    add_op(recipe.eval_pp, central_crop(from, recipe.image));
  }
  if (!grey) add_op(recipe.train_pp, "flip_lr");
  recipe.batch_size = std::min<int64_t>(n, n < 1000 ? 32 : 64);
  recipe.epochs = std::clamp<int64_t>((kFineTuneSteps * recipe.batch_size + n - 1) / n, 3, 100);
  recipe.optimizer =
      "optax_name: big_vision.momentum_hp\n"
      "lr: 0.003\n"
      "grad_clip_norm: 1.0\n"
      "schedule: {decay_type: cosine, warmup_percent: 0.1}\n";
}

// Replaces the augmentation and the crops by ops that keep the whole image where it is, for targets
// that may change with the image.
void keep_geometry(const DataFindings& found, const PretrainedModel* from, const CommonOps& ops,
                   StarterRecipe& recipe) {
  const std::string size = size_argument(recipe.image);
  const ImageSides& typical = found.images.typical;
  const bool much_smaller = typical.shorter() > 2 * recipe.image.shorter();
  const bool method = from && !from->resize_method.empty();
  recipe.train_pp = ops.first;
  if (!found.images.equal || typical != recipe.image) {
    add_op(recipe.train_pp,
           fmt::format("resize({}{}{})", size, method ? ", \"" + from->resize_method + "\"" : "",
                       method || much_smaller ? ", antialias=True" : ""));
  }
  recipe.eval_pp = recipe.train_pp;
  recipe.pp_hint = fmt::format(
      "Targets such as coordinates and angles change with the image, so it is not mirrored,\n"
      "cropped, shifted or turned. If the targets do not depend on positions, augment it:\n"
      "add flip_lr, and use inception_crop({}) {} resize.",
      size, recipe.train_pp.find("resize(") == std::string::npos ? "to crop and" : "in place of");
  if (!found.images.equal) {
    recipe.pp_hint +=
        "\nAll images get the same size: give coordinates as fractions of the width and the "
        "height.";
  }
  if (found.turned) {
    recipe.pp_hint +=
        "\nSome images are turned upright (EXIF): give coordinates in the upright image.";
  }
}

// Throws if the images must be scaled, but the pretrained model has no record of how.
void require_scaling(const SampledImages& images, const PretrainedModel& from) {
  const bool known = from.scaling.target || !from.scaling.normalize.empty();
  if (known || (!images.encoded && images.type == at::kFloat)) return;
  throw Error(Exit::usage, from.path,
              "was trained on images that no op such as value_range scaled, so it does not record "
              "the range of their values; write pp, pp_fn and model_init yourself");
}

// Returns the number of channels for the pretrained model.
int64_t pretrained_channels(const SampledImages& images, const PretrainedModel& from) {
  const bool fits = images.encoded ? from.channels == 1 || from.channels == 3
                                   : images.channels == from.channels ||
                                         (images.channels == 1 && from.channels == 3);
  if (!fits) {
    throw Error(Exit::usage, from.path,
                fmt::format("takes images of {} channels, but those of the data have {}",
                            from.channels, images.channels));
  }
  return from.channels;
}

}  // namespace

int64_t StarterRecipe::total_steps(int64_t examples) const {
  return round_steps(static_cast<double>(epochs) * static_cast<double>(examples) /
                     static_cast<double>(batch_size));
}

StarterRecipe choose_recipe(const DataFindings& found, const PretrainedModel* pretrained) {
  const SampledImages& images = found.images;
  const int64_t channels = pretrained ? pretrained_channels(images, *pretrained) : images.channels;
  if (pretrained) require_scaling(images, *pretrained);
  const CommonOps ops =
      common_ops(found, channels, pretrained ? pretrained->scaling : ValueScaling{},
                 pretrained && pretrained->pil);
  StarterRecipe recipe;
  recipe.train_pp = recipe.eval_pp = ops.first;
  const bool small = std::max(images.typical.height, images.typical.width) <= kSmall;
  if (pretrained) {
    recipe.image = pretrained_size(found, *pretrained);
    recipe.size_note = size_note(found, recipe.image, *pretrained);
    choose_fine_tuning(found, *pretrained, ops, recipe);
  } else if (small) {
    recipe.image = images.typical;
    if (!images.equal) {
      add_op(recipe.train_pp, "resize(" + size_argument(recipe.image) + ")");
      recipe.eval_pp = recipe.train_pp;
    }
    constexpr int64_t kFewestForResnet = 16;  // three stages halve the sides
    if (images.channels == 1 || recipe.image.shorter() < kFewestForResnet)
      choose_cnn(found, ops, recipe);
    else
      choose_small_resnet(found, ops, recipe);
  } else {
    recipe.image = {crop_side(found), crop_side(found)};
    choose_crops(found, ops, recipe);
  }
  if (found.task == LabelTask::regress) keep_geometry(found, pretrained, ops, recipe);
  if (found.task != LabelTask::classify) recipe.label_smoothing = 0;
  if (recipe.pp_hint.empty() && recipe.train_pp.find("flip_lr") != std::string::npos) {
    recipe.pp_hint =
        "Remove flip_lr if a mirrored image may belong to another class (text, traffic signs).";
  }
  add_op(recipe.train_pp, ops.last);
  add_op(recipe.eval_pp, ops.last);
  recipe.about += " of " + size_text(recipe.image);
  return recipe;
}

}  // namespace bv
