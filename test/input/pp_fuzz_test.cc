// Random pp strings on random examples. Wrong ones give a one-line Error, and nothing worse; valid
// ones follow the rules of ops.
#include "lib/util/text.h"
#include "test/input/op_support.h"

namespace bv::test {
namespace {

const std::vector<std::string> kValues = {"0",
                                          "1",
                                          "2",
                                          "3",
                                          "5",
                                          "8",
                                          "13",
                                          "40",
                                          "-1",
                                          "-3",
                                          "0.5",
                                          "1e3",
                                          "2.5",
                                          "70000",
                                          "1e300",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "True",
                                          "False",
                                          "None",
                                          "'image'",
                                          "'label'",
                                          "'text'",
                                          "'list'",
                                          "'no'",
                                          "''",
                                          "'area'",
                                          "'bilinear'",
                                          "'lanczos3'",
                                          "'nearest'",
                                          "'both'",
                                          "'{label} {text}'",
                                          "'{'",
                                          "'single'",
                                          "[1, 2]",
                                          "[0, 4]",
                                          "[8, 6]",
                                          "[4, 4, 3]",
                                          "[-1, 3]",
                                          "[None, 9, 4]",
                                          "[]",
                                          "['list', 'list']",
                                          "['image', 'text']",
                                          "[0.5, 1.5]",
                                          "[1, 2, 3]",
                                          "{'a': 1}",
                                          "[[1]]",
                                          "(2, 2)",
                                          "[9223372036854775807, 2]",
                                          "[65536, 65536, 65536, 65536]"};

const std::vector<std::string> kNames = {
    "key",   "inkey", "outkey",    "size",   "method",     "antialias",   "shape", "pad_value",
    "where", "n",     "magnitude", "depth",  "num_layers", "clip_values", "vmin",  "new_shape",
    "axis",  "value", "crop_size", "in_min", "fewer_ok",   "keys",        "mean",  "std"};

// Calls that can be built; `?` stands for a small number.
const std::vector<std::string> kCalls = {"central_crop",
                                         "central_crop(?)",
                                         "choice(key='list')",
                                         "choice(?, key=['list', 'list'])",
                                         "choice([0, ?], 'text', True)",
                                         "clip_i1k_label_names",
                                         "i21k_label_names(key='label')",
                                         "clip_value_range",
                                         "concat(['list', 'list'], axis=?)",
                                         "concat(['image', 'image'])",
                                         "convert_to_video(?)",
                                         "copy('image', 'text')",
                                         "copy('label', 'list')",
                                         "decode",
                                         "decode_jpeg_and_inception_crop",
                                         "drop('label')",
                                         "flatten",
                                         "flip_lr",
                                         "flip_lr(key='list')",
                                         "inception_crop",
                                         "inception_crop(?)",
                                         "keep('image', 'list')",
                                         "lookup('/no/such', key='text')",
                                         "lower",
                                         "onehot(?, key='label')",
                                         "onehot(99, key='list', multi=False)",
                                         "pad_to_shape([9, 9, ?])",
                                         "pad_to_shape([None, 30], where='both', key='list')",
                                         "randaug",
                                         "randaug(?, ?)",
                                         "random_affine(shift=?, rotate=?, scale=[0.5, 3])",
                                         "random_crop(?)",
                                         "reshape([-1, ?])",
                                         "reshape([?, ?, ?])",
                                         "resize(?)",
                                         "resize([?, ?], 'lanczos3', True)",
                                         "resize_long(?)",
                                         "resize_small(?, 'bicubic')",
                                         "setdefault('label', ?)",
                                         "setdefault('x', 'y')",
                                         "squeeze_last_dim",
                                         "strfmt('{label} {text} {list}')",
                                         "strfmt('{text}', 'image')",
                                         "value_range(-1, 1)",
                                         "value_range(clip_values=True, key='list')",
                                         "vgg_value_range"};

template <class T>
const T& any(const std::vector<T>& all, Rng& rng) {
  return all[rng.below(std::ssize(all))];
}

std::string random_call(Rng& rng) {
  if (rng.below(4) > 0) {
    std::string call = any(kCalls, rng);
    for (size_t at = 0; (at = call.find('?')) != std::string::npos;) {
      call.replace(at, 1, fmt::format("{}", rng.below(9)));
    }
    return call;
  }
  static const std::vector<std::string> ops = Op::Registry::names();
  std::string call = any(ops, rng) + "(";
  const int64_t positional = rng.below(3), named = rng.below(3);
  for (int64_t i = 0; i < positional; ++i) call += any(kValues, rng) + ", ";
  for (int64_t i = 0; i < named; ++i) call += any(kNames, rng) + "=" + any(kValues, rng) + ", ";
  return call + ")";
}

at::Tensor random_tensor(Rng& rng) {
  static const std::vector<std::vector<int64_t>> shapes = {
      {1, 1, 3}, {1, 1, 1}, {7, 5, 3}, {4, 4, 4}, {1, 9, 3}, {9, 1, 2}, {0, 3, 3},
      {3, 0, 3}, {3, 3, 0}, {16},      {0},       {},        {3, 4},    {2, 3, 4, 3}};
  static const std::vector<at::ScalarType> types = {
      at::kByte, at::kByte,   at::kFloat, at::kLong,     at::kInt,
      at::kBool, at::kDouble, at::kHalf,  at::kBFloat16, at::kShort};
  const at::ScalarType type = any(types, rng);
  const bool bytes = type == at::kByte;
  return noise(any(shapes, rng), bytes ? at::kByte : at::kInt, rng.bits()).to(type);
}

Example random_example(Rng& rng) {
  Example example = {
      {"image", rng.below(3) == 0 ? random_tensor(rng)
                                  : noise({6, 7, 3}, rng.below(4) == 0 ? at::kFloat : at::kByte)},
      {"label", at::full({}, rng.below(9), at::kLong)},
      {"text", noise({12}, at::kByte)},
      {"list", noise({5, 2}, at::kLong)}};
  if (rng.below(3) == 0) example["label"] = random_tensor(rng);
  return example;
}

}  // namespace

TEST_CASE("random pp strings on random examples give results or errors of one line") {
  int made = 0, worked = 0, refused = 0;
  std::set<std::string> ran;  // ops that succeeded at least once
  for (uint64_t i = 0; i < 20000; ++i) {
    Rng rng(5, Purpose::synthetic, i);
    std::vector<std::string> calls = {random_call(rng)};
    while (rng.below(2) == 0) calls.push_back(random_call(rng));
    const std::string text = join(calls, "|");
    CAPTURE(text);
    std::optional<Pipeline> pp;
    try {
      pp.emplace(text, Place{"t.yaml", 3, 9});
      ++made;
    } catch (const Error& error) {
      REQUIRE(error.code() == Exit::usage);
      continue;
    }
    Example example = random_example(rng);
    std::map<std::string, at::Tensor> originals;
    for (const auto& [key, tensor] : example) originals[key] = tensor.clone();
    const Example inputs = example;
    try {
      Rng draws(5, Purpose::augment, i);
      pp->apply(example, draws);
      ++worked;
      for (const std::string& call : calls) ran.insert(call.substr(0, call.find('(')));
    } catch (const Error& error) {
      INFO(error.what());
      REQUIRE((error.code() == Exit::usage || error.code() == Exit::data));
      REQUIRE(std::string(error.what()).find('\n') == std::string::npos);
      ++refused;
    }
    for (const auto& [key, tensor] : inputs) REQUIRE(same_bits(tensor, originals.at(key)));
  }
  CAPTURE(made, worked, refused);
  CHECK(made > 2000);
  CHECK(worked > 1000);
  CHECK(refused > 500);
  CHECK(ran.size() > 20);
}

TEST_CASE("every op on an image of one pixel") {
  for (const std::string call :
       {"central_crop", "central_crop(1)", "flip_lr", "inception_crop", "inception_crop(3)",
        "randaug", "randaug(20, 30)", "random_affine(shift=1, rotate=9)", "random_crop(1)",
        "resize(4)", "resize(1, 'area')", "resize_small(3)", "resize_long(2, 'bicubic')",
        "resize([3, 5], 'lanczos3', antialias=True)", "value_range", "vgg_value_range",
        "clip_value_range", "pad_to_shape([2, 3, 3])", "convert_to_video(2)"}) {
    CAPTURE(call);
    for (uint64_t i = 0; i < 20; ++i) {
      const at::Tensor out = run_pp(call, {{"image", noise({1, 1, 3}, at::kByte)}}, i).at("image");
      CHECK(out.numel() >= 3);
    }
  }
}

}  // namespace bv::test
