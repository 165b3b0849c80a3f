// The exact lines for wrong pp strings and for examples that do not fit.
#include "lib/config/load_config.h"
#include "lib/input/ops/common/text_tensor.h"
#include "lib/util/text.h"
#include "test/input/op_support.h"

namespace bv::test {
namespace {

// `pp` begins at t.yaml:3:9. The error must have the place of `token` in it.
struct Wrong {
  std::string pp, token, message;
};

void check_made(const Wrong& wrong) {
  CAPTURE(wrong.pp);
  CHECK(make_error(wrong.pp) ==
        fmt::format("t.yaml:3:{}: error: {}", 9 + wrong.pp.find(wrong.token), wrong.message));
}

Example image_of(std::vector<int64_t> shape, at::ScalarType dtype = at::kByte) {
  return {{"image", at::zeros(shape, dtype)}, {"label", at::full({}, 3, at::kLong)}};
}

}  // namespace

TEST_CASE("arguments out of range are named at their place") {
  const std::vector<Wrong> all = {
      {"resize_small(-3)", "-3", "resize_small: smaller_size must be positive, got -3"},
      {"resize_long(longer_size=0)", "0", "resize_long: longer_size must be positive, got 0"},
      {"resize(0)", "0", "resize: size must be positive, got 0"},
      {"resize(70000)", "70000", "resize: size must be at most 16384, got 70000"},
      {"resize_small(16385)", "16385",
       "resize_small: smaller_size must be at most 16384, got 16385"},
      {"resize_long(65501)", "65501", "resize_long: longer_size must be at most 65500, got 65501"},
      {"resize([8, 65501])", "[", "resize: size must be at most 65500, got 65501"},
      {"resize([65500, 65500])", "[",
       "resize: size must be at most 268435456 pixels in total, got [65500, 65500]"},
      {"inception_crop(65500)", "65500", "inception_crop: size must be at most 16384, got 65500"},
      {"inception_crop([16385, 16384])", "[",
       "inception_crop: size must be at most 268435456 pixels in total, got [16385, 16384]"},
      {"decode_jpeg_and_inception_crop(65500)", "65500",
       "decode_jpeg_and_inception_crop: size must be at most 16384, got 65500"},
      {"resize(size=[8, -1])", "[", "resize: size must be positive, got -1"},
      {"resize([1, 2, 3])", "[", "resize: size must be a number or [height, width], got 3 numbers"},
      {"central_crop([0, 4])", "[", "central_crop: crop_size must be positive, got 0"},
      {"random_crop(-1)", "-1", "random_crop: crop_size must be positive, got -1"},
      {"inception_crop(8, -1)", "-1",
       "inception_crop: area_min must be within 0 .. area_max = 100 (percent), got -1"},
      {"inception_crop(area_min=50, area_max=20)", "50",
       "inception_crop: area_min must be within 0 .. area_max = 20 (percent), got 50"},
      {"inception_crop(area_max=120)", "120",
       "inception_crop: area_max must be above 0 and at most 100 (percent), got 120"},
      {"decode(2)", "2", "decode: channels must be 1 or 3, got 2"},
      {"value_range(in_min=[1, 2], in_max=[3, 4, 5])", "[3",
       "value_range: in_max must have as many numbers as in_min (2), got 3"},
      {"value_range(in_min=5, in_max=5)", "5)",
       "value_range: in_max must differ from in_min, got 5 for both"},
      {"value_range(1, -1, clip_values=True)", "-1",
       "value_range: vmax must be at least vmin = 1 to clip, got -1"},
      {"value_range(in_max=[])", "[", "value_range: in_max must not be an empty list"},
      {"vgg_value_range(mean=[1, 2])", "vgg",
       "vgg_value_range: std must have as many numbers as mean (2), got 3"},
      {"clip_value_range(std=[1, 0, 1])", "[", "clip_value_range: std must not be 0"},
      {"onehot(0)", "0", "onehot: depth must be within 1 .. 16777216, got 0"},
      {"keep()", "keep", "keep: give at least one key"},
      {"drop", "drop", "drop: give at least one key"},
      {"pad_to_shape(shape=[4, -2])", "[",
       "pad_to_shape: shape sides must be -1 (as it is) or more, got -2"},
      {"pad_to_shape([3000000000])", "[",
       "pad_to_shape: shape sides must be at most 2147483648, got 3000000000"},
      {"setdefault('x', 1e300)", "1e300",
       "setdefault: value: expected a number, got 1e300 (out of range)"},
      {"reshape(new_shape=[-1, -1])", "[", "reshape: new_shape only one side can be -1"},
      {"random_affine(-2)", "-2", "random_affine: shift must not be negative, got -2"},
      {"random_affine(rotate=200)", "200",
       "random_affine: rotate must be within 0 .. 180 (degrees), got 200"},
      {"random_affine(scale=[0, 1])", "[",
       "random_affine: scale must be [min, max] with 0 < min <= max, got [0, 1]"},
      {"randaug(-1)", "-1", "randaug: num_layers must be within 0 .. 100, got -1"},
      {"randaug(num_layers=101)", "101", "randaug: num_layers must be within 0 .. 100, got 101"},
      {"randaug(2, -3)", "-3", "randaug: magnitude must be within 0 .. 100, got -3"},
      {"randaug(2.5)", "2.5", "randaug: num_layers: expected an integer, got 2.5"},
      {"choice(n='all', key='x')", "'all'",
       "choice: n must be 'single', a positive number or [min, max]"},
      {"choice(0, 'x')", "0", "choice: n must be 'single', a positive number or [min, max]"},
      {"choice(1.5, 'x')", "1.5", "choice: n must be 'single', a positive number or [min, max]"},
      {"choice([3, 2], 'x')", "[",
       "choice: n must be [min, max] with 0 <= min <= max <= 2147483648, got [3, 2]"},
      {"choice", "choice", "choice: key missing: the feature to choose from (key or inkey)"},
      {"choice(inkey='x')", "choice",
       "choice: outkey missing: where the choice goes (key or outkey)"},
      {"choice(inkey=['x', 'y'], outkey='z')", "'z'",
       "choice: outkey must have as many names as inkey (2), got 1"},
      {"concat([])", "[", "concat: inkeys must not be an empty list"},
      {"convert_to_video(0)", "0", "convert_to_video: num_frames must be within 1 .. 4096, got 0"},
      {"decode_jpeg_and_inception_crop(area_max=101)", "101",
       "decode_jpeg_and_inception_crop: area_max must be above 0 and at most 100 (percent), got "
       "101"},
      {"decode_jpeg_and_inception_crop(ratio_min=0)", "0",
       "decode_jpeg_and_inception_crop: ratio_min must be positive, got 0"},
      {"decode_jpeg_and_inception_crop(ratio_max=0.5)", "0.5",
       "decode_jpeg_and_inception_crop: ratio_max must be within ratio_min = 0.75 .. 1000, got "
       "0.5"},
      {"lookup('gs://a/b.txt')", "'gs",
       "lookup: mapping gs:// is not supported ('gs://a/b.txt'): copy the data to a local disk, or "
       "mount it, and give that path"},
      {"lookup('a.txt', sep='')", "''", "lookup: sep must not be empty"},
      {"setdefault('x', [1])", "[",
       "setdefault: value: expected a number, a string, true or false, got a list"},
      {"strfmt('a}b')", "'a", "strfmt: template has a single '}' at character 2"},
      {"strfmt('ab {c')", "'a", "strfmt: template has a '{' at character 4 that is never closed"},
      {"strfmt('{}')", "'{", "strfmt: template has a placeholder without a key: '{}'"},
      {"strfmt('{a:d}')", "'{",
       "strfmt: template has '{a:d}': only a plain key is allowed in braces"},
      {"tokenize(16, 'sticky')", "tokenize",
       "tokenize: not supported, because sentencepiece models can't be read; tokenize beforehand "
       "and "
       "store the token ids with the images, e.g. in an npz"},
      {"rag_tensor(key='x')", "rag",
       "rag_tensor: not supported, because a batch can't hold examples of different shapes; use "
       "pad_to_shape"},
      {"choice_no_replacement(key='x')", "choice",
       "choice_no_replacement: not supported, because a resumed run can't repeat its visit counts; "
       "use choice"},
      {"random_affine(scale=[2])", "[",
       "random_affine: scale must be [min, max] with 0 < min <= max, got [2]"},
  };
  for (const Wrong& wrong : all) check_made(wrong);
}

TEST_CASE("a crop area that is given as a fraction gives a warning") {
  const auto lines = [](const std::string& pp) {
    const Config config = parse_config("pp: " + pp + "\n", "t.yaml");
    const Pipeline made(config, "pp");
    throw_problems(config);
    return warnings(config);
  };
  using Lines = std::vector<std::string>;
  const std::string least =
                        "t.yaml:1:34: warning: inception_crop.area_min: is in percent: 0.08 is "
                        "0.0008 of the image's area; if it is a fraction, as in torchvision, "
                        "write 8",
                    most =
                        "t.yaml:1:49: warning: inception_crop.area_max: is in percent: 1 is "
                        "0.01 of the image's area; if it is a fraction, as in torchvision, write "
                        "100";
  CHECK(lines("inception_crop(224, area_min=0.08, area_max=1.0)") == Lines{least, most});
  CHECK(lines("inception_crop(224, area_min=0.08)") == Lines{least});
  CHECK(lines("decode_jpeg_and_inception_crop(8, 0, 1)").size() == 1);
  for (const std::string args : {"", "8", "8, 0", "8, 1", "8, 8", "8, 1, 1.5", "8, area_max=30"})
    CHECK(lines("inception_crop(" + args + ")") == Lines{});
}

TEST_CASE("unknown names and superfluous arguments") {
  check_made({"resize(8, 'bilineer')", "'bilineer'",
              "resize: method expected one of nearest, bilinear, bicubic, area, lanczos3, "
              "lanczos5, gaussian, "
              "mitchellcubic, got 'bilineer' (did you mean 'bilinear'?)"});
  check_made({"resize(8, methd='area')", "methd",
              "resize: unknown argument 'methd' (did you mean 'method'?); the op is resize(size, "
              "method='bilinear', antialias=False, key=None, inkey=None, outkey=None)"});
  check_made(
      {"resize(8, 'area', False, 'image')", "'image'",
       "resize: too many positional arguments: 4 given, 3 can be used; the op is resize(size, "
       "method='bilinear', antialias=False, inkey=None, key=None, outkey=None)"});
  check_made({"flip_lr(True, 0.5)", "0.5",
              "flip_lr: too many positional arguments: 2 given, 1 can be used; the "
              "op is flip_lr(alternate=False, inkey=None, key=None, outkey=None)"});
  check_made({"keep('image', 'label', name='x')", "name",
              "keep: unknown argument 'name'; the op is keep(*keys)"});
  check_made({"onehot(10, ky='label')", "ky",
              "onehot: unknown argument 'ky' (did you mean 'key'?); the op is onehot(depth, "
              "key='labels', key_result=None, multi=True, on=1, off=0)"});
  check_made(
      {"resize(siz=8)", "siz=",
       "resize: unknown argument 'siz' (did you mean 'size'?); the op is resize(size, ...)"});
  check_made({"value_range(vmx=3)", "vmx",
              "value_range: unknown argument 'vmx' (did you mean 'vmax'?); the op is "
              "value_range(vmin=-1, vmax=1, in_min=0, in_max=255, clip_values=False, key=None, "
              "inkey=None, outkey=None)"});
  check_made({"flip_lr|flip_rl", "flip_rl",
              "unknown op 'flip_rl' (did you mean 'flip_lr'?); known: flip_lr, clip_value_range, "
              "clip_i1k_label_names, flatten, value_range, vgg_value_range, "
              "choice_no_replacement, archive.randaug, ... (bvtrain --list ops prints all)"});
  check_made({"randaug(2, 10, 'image')", "'image'",
              "randaug: too many positional arguments: 3 given, 2 can be used; the op is "
              "randaug(num_layers=2, magnitude=10, inkey=None, key=None, outkey=None)"});
}

TEST_CASE("an argument by position and by name is refused, as in Python") {
  check_made({"value_range(-1, 1, vmax=2)", "vmax",
              "value_range: argument 'vmax' is given by position and by name"});
  check_made({"randaug(2, num_layers=1)", "num_layers",
              "randaug: argument 'num_layers' is given by position and by name"});
  check_made(
      {"resize(8, size=9)", "size=", "resize: argument 'size' is given by position and by name"});
}

TEST_CASE("all problems of a pp string come together, with those of its config") {
  const Config config =
      parse_config("pp: resize(0)|flip_lr(True, 3)|random_crop(-1)\nbatch: x\n", "c.yaml");
  const Pipeline pp(config, "pp");
  config.get<int64_t>("batch", 1);
  CHECK(
      error_of([&] { throw_problems(config); }) ==
      "c.yaml:1:12: error: resize: size must be positive, got 0\n"
      "c.yaml:1:29: error: flip_lr: too many positional arguments: 2 given, 1 can be used; the op "
      "is flip_lr(alternate=False, inkey=None, key=None, outkey=None)\n"
      "c.yaml:1:44: error: random_crop: crop_size must be positive, got -1\n"
      "c.yaml:2:8: error: batch: expected an integer, got 'x'");
}

TEST_CASE("without a pp string there are no ops") {
  const Config config = parse_config("pp: null\n", "c.yaml");
  for (const char* key : {"pp", "pp_fn"}) {
    const Pipeline pp(config, key);
    CHECK(pp.text().empty());
    CHECK(pp.has_batched());
    Example example = image_of({2, 2, 1});
    Rng rng(1, Purpose::augment, 0);
    pp.apply(example, rng);
    CHECK(example.size() == 2);
  }
  config.done();
  throw_problems(config);
}

TEST_CASE("an op that does not fit the data gives the place of its call") {
  const std::vector<Wrong> all = {
      {"flip_lr|resize(8, key='imag')", "resize",
       "resize: no key 'imag' in the example; it has: image, label"},
      {"keep('image', 'labels')", "keep",
       "keep: no key 'labels' in the example; it has: image, label"},
      {"drop('image')|drop('id')", "drop('id')", "drop: no key 'id' in the example; it has: label"},
      {"copy('labels', 'x')", "copy", "copy: no key 'labels' in the example; it has: image, label"},
      {"flip_lr(key='label')", "flip_lr",
       "flip_lr: 'label' must have shape (height, width, channels), has ()"},
      {"resize(8, key='label')", "resize",
       "resize: 'label' must have shape (height, width, channels), has ()"},
      {"decode", "decode",
       "decode: 'image' must be encoded bytes (1-d uint8), has shape (20, 30, 3) and type uint8"},
      {"vgg_value_range(key='label')", "vgg",
       "vgg_value_range: 'label' must have 3 channels for 3 numbers, has shape ()"},
      {"onehot(5, key='image')|onehot(5, key='image')", "onehot(5, key='image')",
       "onehot: 'image' must be one number or a list of them, has 3 dimensions"},
      {"value_range|onehot(5, key='image', multi=False)", "onehot",
       "onehot: 'image' must be integers, is float32"},
      {"reshape([20, 5, 18])|resize(16384)", "resize",
       "resize: 'image' would take more than 4.0 GiB in each example: shape (16384, 16384, 18), 1 "
       "byte "
       "per value"},
      {"reshape([20, 5, 18])|inception_crop(16384)", "inception",
       "inception_crop: 'image' would take more than 4.0 GiB in each example: shape (16384, 16384, "
       "18), 1 byte per value"},
      {"resize(1000)|convert_to_video(4096)", "convert",
       "convert_to_video: 'image' would take more than 4.0 GiB in each example: shape (4096, 1000, "
       "1000, 3), 1 byte per value"},
      {"value_range(clip_values=False)|pad_to_shape([19000, 19000, 3])", "pad",
       "pad_to_shape: 'image' would take more than 4.0 GiB in each example: shape (19000, 19000, "
       "3), 4 bytes per value"},
      {"reshape([2, 900])|onehot(1000000, key='image', multi=False)", "onehot",
       "onehot: 'image' would take more than 4.0 GiB in each example: shape (2, 900, 1000000), 4 "
       "bytes "
       "per value"},
      {"pad_to_shape([30, 30])", "pad",
       "pad_to_shape: 'image' must have 2 dimensions as the shape to pad to, has shape (20, 30, "
       "3)"},
      {"pad_to_shape([30, 30, 3], -1)", "pad",
       "pad_to_shape: 'image' can't be padded with -1, which its type uint8 can't hold"},
      {"random_affine(fill=300)", "random_affine",
       "random_affine: 'image' is uint8, which can't hold the fill value 300"},
      {"pad_to_shape([70000, 70000, 3])", "pad",
       "pad_to_shape: 'image' would take more than 4.0 GiB in each example: shape (70000, 70000, "
       "3), 1 byte "
       "per value"},
      {"value_range|randaug", "randaug",
       "randaug: 'image' must be uint8, is float32: put this op before value_range and similar "
       "ops"},
      {"concat(['image', 'label'])", "concat",
       "concat: 'label' has shape () and type int64, which do not fit 'image' with (20, 30, 3) and "
       "uint8"},
      {"concat(['label', 'label'])", "concat", "concat: 'label' has shape (), so no axis -1"},
      {"choice(key='label')", "choice", "choice: 'label' is a single number, not a list"},
      {"squeeze_last_dim", "squeeze",
       "squeeze_last_dim: 'image' must have a last dimension of 1, has shape (20, 30, 3)"},
      {"lower(key='label')", "lower",
       "lower: 'label' must be a string (1-d uint8) or several (2-d uint8), has shape () and type "
       "int64"},
      {"lookup('none.txt', key='label')", "lookup",
       "lookup: 'label' must be a string (1-d uint8) or several (2-d uint8), has shape () and type "
       "int64"},
      {"strfmt('{labels}')", "strfmt",
       "strfmt: no key 'labels' in the example; it has: image, label"},
      {"strfmt('{image}')", "strfmt",
       "strfmt: 'image' must be a string or at most 1000 numbers, has shape (20, 30, 3) and type "
       "uint8"},
      {"clip_i1k_label_names(key='image')", "clip",
       "clip_i1k_label_names: 'image' must be one number or a list of them, has 3 dimensions"},
      {"value_range|i21k_label_names(key='image')", "i21k",
       "i21k_label_names: 'image' must be class numbers, is float32"},
      {"coco_captions", "coco",
       "coco_captions: no key 'captions/text' in the example; it has: image, label"},
      {"decode_jpeg_and_inception_crop", "decode",
       "decode_jpeg_and_inception_crop: 'image' must be encoded bytes (1-d uint8), has shape (20, "
       "30, 3) and type uint8"},
  };
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.pp);
    CHECK(run_error(Exit::usage, wrong.pp, image_of({20, 30, 3})) ==
          fmt::format("t.yaml:3:{}: error: {}", 9 + wrong.pp.find(wrong.token), wrong.message));
  }
  for (const std::string op : {"resize(8)", "flip_lr", "value_range", "inception_crop"}) {
    CHECK(run_error(Exit::usage, op, image_of({20})) ==
          fmt::format("t.yaml:3:9: error: {}: 'image' is still encoded (1-d uint8): put 'decode' "
                      "before this op",
                      op.substr(0, op.find('('))));
  }
  CHECK(run_error(Exit::usage, "resize(8)", image_of({20, 30, 3}, at::kLong)) ==
        "t.yaml:3:9: error: resize: 'image' must be uint8 or float32, is int64: put "
        "value_range(...) before this op");
}

TEST_CASE("what is wrong with one example is a data error") {
  const std::pair<std::string, std::string> all[] = {
      {"random_crop(24)", "random_crop: the crop of 24x24 is larger than the image of 20x30"},
      {"central_crop([20, 31])",
       "central_crop: the crop of 20x31 is larger than the image of 20x30"},
      {"pad_to_shape([20, 30, 1])",
       "pad_to_shape: shape (20, 30, 3) is larger than the shape to pad to, (20, 30, 1)"},
      {"reshape([7, -1])", "reshape: shape (20, 30, 3) has 1800 values, which do not fit (7, -1)"},
      {"onehot(3, key='label')", "onehot: 'label' is 3, must be within 0 .. 2"},
      {"reshape([4000000000, 4000000000, 4000000000])",
       "reshape: shape (20, 30, 3) has 1800 values, which do not fit (4000000000, 4000000000, "
       "4000000000)"},
      {"reshape([0, -1])", "reshape: shape (20, 30, 3) has 1800 values, which do not fit (0, -1)"},
      {"choice(21, key='image')", "choice: 'image' has 20 entries, 21 are needed"},
      {"choice([25, 30], key='image')", "choice: 'image' has 20 entries, 25 are needed"},
      {"reshape([30, 60])|choice(key=['image', 'image'])|copy('image', 'x')|choice(2, ['x', "
       "'image'])"
       "|choice(inkey='x', outkey='y')|choice(3, 'x')",
       "choice: 'x' has 2 entries, 3 are needed"},
      {"resize_small(16384)",
       "resize_small: an image of 20x30 would become 16384x24576; the limits are 1 .. 65500 a side "
       "and 268435456 pixels"},
  };
  for (const auto& [pp, message] : all) {
    CAPTURE(pp);
    CHECK(run_error(Exit::data, pp, image_of({20, 30, 3})) == message);
  }
  CHECK(run_error(Exit::data, "resize_long(10)", image_of({1, 100, 1})) ==
        "resize_long: an image of 1x100 would become 0x10; the limits are 1 .. 65500 a side and "
        "268435456 pixels");
  CHECK(run_error(Exit::data, "resize(8)", image_of({0, 30, 3})) ==
        "resize: the image is empty: shape (0, 30, 3)");
  CHECK(run_error(Exit::usage, "randaug", image_of({8, 8, 1})) ==
        "t.yaml:3:9: error: randaug: 'image' must have 3 channels, has 1");
  CHECK(run_error(Exit::data, "clip_i1k_label_names", {{"label", at::full({}, 1000, at::kLong)}}) ==
        "clip_i1k_label_names: 'label' is 1000, must be within 0 .. 999");
  CHECK(run_error(Exit::data, "i21k_label_names", {{"label", at::full({2}, -1, at::kLong)}}) ==
        "i21k_label_names: 'label' is -1, must be within 0 .. 21842");
  CHECK(run_error(Exit::data, "choice(key='x')", {{"x", at::zeros({0, 2})}}) ==
        "choice: 'x' has 0 entries, 1 are needed");
  CHECK(run_error(Exit::data, "choice(key=['x', 'y'])",
                  {{"x", at::zeros({3})}, {"y", at::zeros({2})}}) ==
        "choice: 'x' has 3 entries, but 'y' has 2");
  CHECK(run_error(Exit::usage, "setdefault('x', 0.5)", {{"x", at::zeros({0}, at::kLong)}}) ==
        "t.yaml:3:9: error: setdefault: 'x' is empty and of type int64, which can't hold 0.5");
  CHECK(
      run_error(Exit::usage, "setdefault('x', 'a')", {{"x", at::zeros({0})}}) ==
      "t.yaml:3:9: error: setdefault: 'x' is empty and of type float32, which can't hold a string");
  CHECK(run_error(Exit::usage, "onehot(200)", {{"labels", text_tensor("20")}}) ==
        "t.yaml:3:9: error: onehot: 'labels' must be class numbers, is a string; the op lookup "
        "turns strings into numbers, and the sources csv and webdataset do so for class names");
  const Example list = {{"labels", at::tensor({1, -1}, at::kLong)}};
  CHECK(run_error(Exit::data, "onehot(3)", list) ==
        "onehot: 'labels' is -1, must be within 0 .. 2");
}

}  // namespace bv::test
