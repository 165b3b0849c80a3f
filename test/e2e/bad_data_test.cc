// Data that does not fit its config, with the real binary (bad_input.h): labels out of range
// anywhere in the data, wrong types and shapes, unequal counts.
#include <ATen/ATen.h>

#include <cmath>

#include "lib/ckpt/formats/npz.h"
#include "test/e2e/bad_input.h"

namespace bv::test {
namespace {

at::Tensor images(int64_t n) {
  return at::arange(n * 64).remainder(251).to(at::kByte).view({n, 8, 8, 1});
}
at::Tensor labels(int64_t n) { return at::arange(n).remainder(10); }

at::Tensor with(at::Tensor values, int64_t row, double value) {
  values = values.clone();
  values.index_put_({at::tensor(row)}, at::scalar_tensor(value, values.options()));
  return values;
}

// Returns the digits config with the rows of an npz file as its data.
struct BadNpz : Bad {
  std::string config = digits_with(kData, "data: {name: npz, fname: " + (dir / "d.npz") + "}");
  std::string line_for(const NamedTensors& arrays) {
    write_npz(dir / "d.npz", arrays);
    return line(config);
  }
};

std::string big_endian_bytes(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 255);
  return bytes;
}

std::string byte_values(const at::Tensor& values) {
  const at::Tensor bytes = values.to(at::kByte).contiguous();
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())};
}

}  // namespace

TEST_CASE("labels out of range in an npz file, in the first row or the last") {
  BadNpz bad;
  const at::Tensor image = images(100);
  CHECK(bad.line_for({{"image", image}, {"label", with(labels(100), 77, 10)}}) ==
        "c.yaml:13:7: error: input.pp: train row 77: onehot: 'label' is 10, must be within 0 .. 9 "
        "(in d.npz)\n");
  CHECK(bad.line_for({{"image", image}, {"label", with(labels(100), 77, -1)}}) ==
        "c.yaml:13:7: error: input.pp: train row 77: the label is -1, but class numbers begin at 0 "
        "(in d.npz)\n");
  CHECK(bad.line_for({{"image", image}, {"label", with(labels(100), 99, 4e9)}}) ==
        "c.yaml:13:7: error: input.pp: train row 99: onehot: 'label' is 4000000000, must be within "
        "0 .. 9 (in d.npz)\n");
  CHECK(bad.line_for({{"image", image}, {"label", labels(100).to(at::kFloat)}}) ==
        "c.yaml:13:81: error: onehot: 'label' must be integers, is float32: labels with a decimal "
        "point are regression targets, classes are integers such as 0\n");
  CHECK(bad.line_for({{"image", image}, {"label", with(labels(100).to(at::kFloat), 5, NAN)}}) ==
        "d.npz: error: array 'label' is nan in row 5\n");
  CHECK(bad.line_for({{"image", image}, {"label", labels(100).to(at::kBool)}}) ==
        "c.yaml:13:81: error: onehot: 'label' must be integers, is bool\n");
  CHECK(bad.line_for({{"image", image}, {"label", labels(99)}}) ==
        "d.npz: error: array 'image' has 100 rows, but 'label' has 99\n");
  CHECK(bad.line_for({{"image", at::zeros({100, 0, 8, 1})}, {"label", labels(100)}}) ==
        "d.npz: error: array 'image' has no values: its shape is (100, 0, 8, 1)\n");
  CHECK(bad.line_for({{"image", image}}) ==
        "c.yaml:13:81: error: onehot: no key 'label' in the example; it has: image\n");
}

TEST_CASE("dense labels that are not finite, or have another number of classes") {
  BadNpz bad;
  bad.config = replaced(bad.config, "|onehot(10, key=\"label\", key_result=\"labels\")", "");
  const auto line = [&](const at::Tensor& dense) {
    return bad.line_for({{"image", images(100)}, {"labels", dense}});
  };
  CHECK(line(with(at::eye(10).repeat({10, 1}), 31, INFINITY)) ==
        "d.npz: error: array 'labels' is inf in row 31\n");
  CHECK(line(at::eye(12).repeat({9, 1}).slice(0, 0, 100)) ==
        "c.yaml:13:7: error: input.pp: gives 'labels' of 12 classes but num_classes is 10\n");
  CHECK(
      line(at::ones({100, 10}, at::kLong)) ==
      "c.yaml:13:7: error: [classify] 'labels' must be float32 (n, 10), got int64 (1, 10); if they "
      "are 0 or 1 for each class, value_range(0, 1, 0, 1, key=\"labels\") does that\n");
  CHECK(line(at::ones({100}, at::kLong)) ==
        "c.yaml:13:7: error: [classify] 'labels' must be float32 (n, 10), got int64 (1); make them "
        "with onehot(10, key=\"label\", key_result=\"labels\")\n");
}

TEST_CASE("images of the wrong type or shape") {
  BadNpz bad;
  const auto line = [&](const at::Tensor& image) {
    return bad.line_for({{"image", image}, {"label", labels(image.size(0))}});
  };
  const std::string op = "c.yaml:13:7: error: random_affine: 'image' must ";
  for (const auto& [type, name] :
       {std::pair(at::kDouble, "float64"), {at::kLong, "int64"}, {at::kBool, "bool"}}) {
    CHECK(line(images(70).to(type)) ==
          op + "be uint8 or float32, is " + name + ": put value_range(...) before this op\n");
  }
  CHECK(line(images(70).view({70, 64})) ==
        "c.yaml:13:7: error: random_affine: 'image' is still encoded (1-d uint8): put 'decode' "
        "before this op\n");
  CHECK(line(images(70).view({70, 8, 8})) ==
        op + "have shape (height, width, channels), has (8, 8)\n");
  CHECK(line(images(0)) == "c.yaml:11:9: error: split 'train' is empty: 'train' has 0 examples\n");
  CHECK(line(images(63)) ==
        "c.yaml:12:15: error: input.batch_size: 64 is more than the 63 training examples\n");
}

TEST_CASE("labels out of range in IDX files, CIFAR and generated data") {
  Bad bad;
  const std::string idx =
      without_evals(digits_with(kData, "data: {name: idx, data_dir: " + (bad.dir / "i") + "}"));
  write(bad.dir / "i/train-images-idx3-ubyte", big_endian_bytes(0x803) + big_endian_bytes(100) +
                                                   big_endian_bytes(8) + big_endian_bytes(8) +
                                                   byte_values(images(100)));
  write(bad.dir / "i/train-labels-idx1-ubyte",
        big_endian_bytes(0x801) + big_endian_bytes(100) + byte_values(with(labels(100), 77, 200)));
  CHECK(bad.line(idx) ==
        "c.yaml:13:7: error: input.pp: train row 77: onehot: 'label' is 200, must be within 0 .. 9 "
        "(in i/train-labels-idx1-ubyte)\n");
  write(bad.dir / "i/train-labels-idx1-ubyte",
        big_endian_bytes(0x801) + big_endian_bytes(99) + byte_values(labels(99)));
  CHECK(bad.line(idx) ==
        "i/train-labels-idx1-ubyte: error: 99 labels for the 100 images of "
        "i/train-images-idx3-ubyte\n");

  std::string records;
  for (int i = 0; i < 20; ++i) records += static_cast<char>(i % 10) + std::string(3072, 'x');
  for (int i = 1; i <= 5; ++i)
    write(bad.dir / ("c/data_batch_" + std::to_string(i) + ".bin"), records);
  std::string cifar =
      without_evals(digits_with(kData, "data: {name: cifar, data_dir: " + (bad.dir / "c") + "}"));
  cifar = replaced(replaced(cifar, "num_classes: 10", "num_classes: 5"), "onehot(10", "onehot(5");
  CHECK(bad.line(cifar) ==
        "c.yaml:13:7: error: input.pp: train row 9: onehot: 'label' is 9, must be within 0 .. 4\n");
  write(bad.dir / "c/data_batch_3.bin", records + static_cast<char>(200) + std::string(3072, 'x'));
  CHECK(bad.line(cifar) ==
        "c/data_batch_3.bin @ offset 61460: error: label 200 in CIFAR-10 (is this the other "
        "CIFAR?)\n");
  write(bad.dir / "c/data_batch_3.bin", records + "x");
  CHECK(bad.line(cifar) ==
        "c/data_batch_3.bin: error: 61461 bytes is not a whole number of 3073-byte CIFAR "
        "records\n");

  const std::string made =
      "data: {name: synthetic, classes: 20, image_size: 8, channels: 1, encoded: none}";
  CHECK(bad.line(digits_with(kData, made)) ==
        "c.yaml:13:7: error: input.pp: train row 19: onehot: 'label' is 19, must be within 0 .. "
        "9\n");
}

TEST_CASE("more class folders than num_classes; images of unequal size that no op resizes") {
  const std::string jpeg = golden_file("pp/img1.jpg"), other = golden_file("pp/img0.jpg");
  if (jpeg.empty() || other.empty()) return;
  Bad bad;
  std::string config = without_evals(
      digits_with(kData, "data: {name: image_folder, data_dir: " + (bad.dir / "f") + "}"));
  config = replaced(config, "pp: random_affine(shift=0.08, rotate=10, scale=[0.9, 1.1])|",
                    "pp: decode|resize(8)|");
  config = replaced(replaced(config, "num_classes: 10", "num_classes: 2"), "onehot(10", "onehot(2");
  config = replaced(config, "batch_size: 64", "batch_size: 2");
  for (const char* name : {"a", "b", "c"})
    write(bad.dir / (std::string("f/") + name + "/1.jpg"), read_file(jpeg));
  CHECK(bad.line(config) ==
        "c.yaml:7:14: error: num_classes: 2 is less than the 3 classes of the training data (a, b, "
        "c); set it to 3 or to auto\n");
  config = replaced(replaced(config, "num_classes: 2", "num_classes: 3"), "onehot(2", "onehot(3");
  config = replaced(config, "|resize(8)", "");
  write(bad.dir / "f/b/1.jpg", read_file(other));
  CHECK(bad.line(config) ==
        "c.yaml:13:7: error: input.pp: b/1.jpg: feature 'image' has shape (500, 375, 3), but (180, "
        "240, 3) in other examples: add an op such as resize or random_crop to pp that makes all "
        "shapes equal\n");
}

TEST_CASE("what the model or an evaluator cannot take is refused before the run") {
  Bad bad;
  const std::string pp =
      "onehot(10, key=\"label\", key_result=\"labels\")|keep(\"image\", \"labels\")\n\n";
  CHECK(bad.line(digits_with(pp, "keep(\"image\")\n\n")) ==
        "c.yaml:13:7: error: [classify] a batch has no 'labels', only image; make them with "
        "onehot(C, key=\"label\", key_result=\"labels\") and list them in keep(\"image\", "
        "\"labels\")\n");
  const std::string eval = "pp_fn: value_range(-1, 1)|onehot(10";
  CHECK(bad.line(digits_with(eval, "pp_fn: value_range(-1, 1)|onehot(12")) ==
        "c.yaml:32:12: error: evals.test.pp_fn: evaluator 'test': 'labels' has 12 classes, but "
        "num_classes is 10\n");
  CHECK(bad.line(digits_with(eval, "pp_fn: value_range(-1, 1)|onehot(5")) ==
        "c.yaml:32:12: error: evals.test.pp_fn: test row 0: onehot: 'label' is 6, must be within "
        "0 .. 4 (class '6')\n");
  CHECK(
      bad.line(digits_with(eval, "pp_fn: resize(16)|value_range(-1, 1)|onehot(10")) ==
      "c.yaml:32:12: error: gives images of 16x16x1, but the model was built for 8x8x1 and cannot "
      "take them\n");
  CHECK(bad.line(digits_with(eval, "pp_fn: onehot(10")) ==
        "c.yaml:32:12: error: gives an 8-bit 'image'; add value_range(-1, 1)\n");
  CHECK(bad.line(digits_with("loss: softmax_xent\n", "loss: weighted_softmax_xent\n")) ==
        "c.yaml:18:7: error: loss 'weighted_softmax_xent': it needs the class number and weight of "
        "every token of a sequence, which no task supplies; to classify images, use softmax_xent "
        "or sigmoid_xent\n");
}

}  // namespace bv::test
