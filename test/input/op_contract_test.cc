// What must hold for every registered op: it can be built, is repeatable, does not change its
// input, follows its dtype rule, and is bit-identical in its batched form.
#include "lib/util/text.h"
#include "test/input/op_support.h"

namespace bv::test {
namespace {

struct Form {
  std::vector<int64_t> shape;  // of the tensor of one example; empty for a scalar
  at::ScalarType in, out;
};

struct Case {
  std::string call;
  std::string in = "image", out = "image";  // keys
  std::vector<Form> forms;
  bool batched = true;
};

// Images of several sizes and channels, uint8 and float32; `out` is their dtype if none is given.
std::vector<Form> images(std::optional<at::ScalarType> out = std::nullopt) {
  std::vector<Form> forms;
  for (const auto in : {at::kByte, at::kFloat}) {
    for (const int64_t channels : {1, 2, 3, 4})
      forms.push_back({{13, 18, channels}, in, out.value_or(in)});
    forms.push_back({{40, 21, 3}, in, out.value_or(in)});
  }
  return forms;
}

std::vector<Form> rgb_bytes() {
  return {{{13, 18, 3}, at::kByte, at::kByte}, {{40, 21, 3}, at::kByte, at::kByte}};
}

std::vector<Form> any_dtype(std::vector<int64_t> shape) {
  std::vector<Form> forms;
  for (const auto dtype : {at::kByte, at::kFloat, at::kInt, at::kLong, at::kDouble}) {
    forms.push_back({shape, dtype, dtype});
  }
  return forms;
}

std::vector<Form> label_forms(std::vector<int64_t> shape) {
  return {{shape, at::kLong, at::kFloat},
          {shape, at::kInt, at::kFloat},
          {shape, at::kByte, at::kFloat}};
}

// At least one case for each registered op.
std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&](Case c) { all.push_back(std::move(c)); };
  add({.call = "archive.randaug(3)", .forms = rgb_bytes()});
  add({.call = "central_crop", .forms = images()});
  add({.call = "central_crop(9)", .forms = any_dtype({13, 18, 3})});
  add({.call = "choice(key='list')",
       .in = "list",
       .out = "list",
       .forms = any_dtype({5, 3}),
       .batched = false});
  add({.call = "choice([1, 4], inkey='list', outkey='some')",
       .in = "list",
       .out = "some",
       .forms = any_dtype({5}),
       .batched = false});
  add({.call = "clip_i1k_label_names",
       .in = "label",
       .out = "labels",
       .forms = {{{}, at::kLong, at::kByte}, {{3}, at::kInt, at::kByte}},
       .batched = false});
  add({.call = "clip_value_range",
       .forms = {{{5, 6, 3}, at::kByte, at::kFloat}, {{5, 6, 3}, at::kFloat, at::kFloat}}});
  add({.call = "coco_captions",
       .in = "captions/text",
       .out = "captions",
       .forms = any_dtype({2, 3})});
  add({.call = "concat(['image', 'image'], axis=0)", .forms = any_dtype({3, 2})});
  add({.call = "concat(['image', 'image', 'image'], 'wide')",
       .out = "wide",
       .forms = any_dtype({3, 2})});
  add({.call = "convert_to_video(3)", .forms = images()});
  add({.call = "copy('image', 'twin')", .out = "twin", .forms = any_dtype({4, 3})});
  add({.call = "drop('other')", .forms = any_dtype({4, 3})});
  add({.call = "flatten(['captions'])", .forms = any_dtype({4, 3})});
  add({.call = "flip_lr", .forms = images()});
  add({.call = "flip_lr(alternate=True)", .forms = images()});
  add({.call = "flip_lr(inkey='image', outkey='mirror')",
       .out = "mirror",
       .forms = any_dtype({7, 33, 5})});
  add({.call = "i21k_label_names(key='label')",
       .in = "label",
       .out = "label",
       .forms = {{{}, at::kByte, at::kByte}, {{3}, at::kLong, at::kByte}},
       .batched = false});
  add({.call = "inception_crop", .forms = images(), .batched = false});
  add({.call = "inception_crop(8)", .forms = images()});
  add({.call = "inception_crop(12, area_min=30, method='bicubic', antialias=True)",
       .forms = images()});
  add({.call = "lower",
       .in = "text",
       .out = "text",
       .forms = {{{40}, at::kByte, at::kByte}, {{3, 40}, at::kByte, at::kByte}}});
  add({.call = "lower(inkey='image', outkey='low')",
       .out = "low",
       .forms = {{{60}, at::kByte, at::kByte}}});
  add({.call = "keep('image')", .forms = any_dtype({4, 3})});
  add({.call = "onehot(10)", .in = "labels", .out = "labels", .forms = label_forms({})});
  add({.call = "onehot(10, key='label', key_result='labels', on=0.9, off=0.02)",
       .in = "label",
       .out = "labels",
       .forms = {{{3}, at::kLong, at::kFloat}, {{3}, at::kInt, at::kFloat}}});
  add({.call = "onehot(10, multi=False)",
       .in = "labels",
       .out = "labels",
       .forms = label_forms({2, 3})});
  add({.call = "pad_to_shape(shape=[15, 20, 3], pad_value=7, where='both')",
       .forms = any_dtype({13, 18, 3})});
  add({.call = "pad_to_shape(shape=[-1, 20, 4], where='before')", .forms = any_dtype({13, 18, 3})});
  add({.call = "pad_to_shape(shape=[6], key='labels')",
       .in = "labels",
       .out = "labels",
       .forms = any_dtype({4})});
  add({.call = "random_affine(shift=2, rotate=20, scale=[0.8, 1.2], fill=9)", .forms = images()});
  add({.call = "random_affine(shift=0.2)", .forms = images()});
  add({.call = "randaug", .forms = rgb_bytes()});
  add({.call = "randaug(num_layers=4, magnitude=7.5)", .forms = rgb_bytes()});
  add({.call = "random_crop(9)", .forms = images()});
  for (const std::string method :
       {"nearest", "bilinear", "bicubic", "area", "lanczos3", "gaussian"}) {
    for (const std::string antialias : {"False", "True"}) {
      add({.call = fmt::format("resize(11, '{}', {})", method, antialias), .forms = images()});
    }
  }
  add({.call = "resize_long(16)", .forms = images()});
  add({.call = "resize_small(8)", .forms = images()});
  add({.call = "reshape([-1, 6])", .forms = any_dtype({9, 4, 1})});
  add({.call = "setdefault('image', 3)", .forms = any_dtype({2, 3})});
  add({.call = "setdefault('missing', -1)",
       .out = "missing",
       .forms = {{{2}, at::kByte, at::kLong}}});
  add({.call = "setdefault('image', 3)",
       .forms = {{{0, 3}, at::kByte, at::kByte}, {{2, 0}, at::kFloat, at::kFloat}}});
  add({.call = "squeeze_last_dim", .forms = any_dtype({4, 3, 1})});
  add({.call = "strfmt('{label}: {other}')",
       .in = "label",
       .out = "text",
       .forms = {{{}, at::kLong, at::kByte}, {{2, 3}, at::kFloat, at::kByte}},
       .batched = false});
  add({.call = "value_range(-1, 1)", .forms = images(at::kFloat)});
  add({.call = "value_range(0, 1, in_min=[0, 10, 20], in_max=[255, 200, 100], clip_values=True)",
       .forms = {{{9, 7, 3}, at::kByte, at::kFloat}, {{9, 7, 3}, at::kLong, at::kFloat}}});
  add({.call = "vgg_value_range",
       .forms = {{{50, 6, 3}, at::kByte, at::kFloat}, {{5, 6, 3}, at::kFloat, at::kFloat}}});
  return all;
}

std::string op_name(const std::string& call) { return call.substr(0, call.find('(')); }

at::Tensor example_input(const Case& c, const Form& form, uint64_t index) {
  const at::Tensor values = noise(form.shape, form.in, index);
  return c.in == "image" ? values : values.remainder(10);
}

void check_form(const Case& c, const Form& form) {
  constexpr int64_t kCount = 6;
  CAPTURE(c.call, c10::toString(form.in), form.shape);
  const Pipeline pp = build_pipeline(c.call);
  CHECK(pp.has_batched() == c.batched);

  std::vector<at::Tensor> inputs, results;
  std::vector<uint32_t> draws;  // the first random number after those of the op
  for (int64_t i = 0; i < kCount; ++i) {
    const at::Tensor input = example_input(c, form, i);
    const at::Tensor original = input.clone();
    for (int repeat = 0; repeat < 2; ++repeat) {
      Example example = {{c.in, input}, {"other", at::zeros({})}};
      Rng rng(7, Purpose::augment, i);
      pp.apply(example, rng);
      REQUIRE(example.count(c.out) == 1);
      const at::Tensor result = example.at(c.out);
      CHECK(result.scalar_type() == form.out);
      CHECK(same_bits(input, original));
      if (repeat == 0) {
        results.push_back(result);
        draws.push_back(rng.bits());
      } else {
        CHECK(same_bits(result, results.back()));
      }
    }
    inputs.push_back(input);
  }
  for (int64_t i = 0; i < kCount; ++i) {
    if (draws[i] != Rng(7, Purpose::augment, i).bits()) CHECK(!pp.random_ops().empty());
  }
  if (!c.batched) return;

  Example batch = {{c.in, at::stack(inputs)}, {"other", at::zeros({kCount})}};
  const at::Tensor original = batch.at(c.in).clone(), input = batch.at(c.in);
  std::vector<Rng> rngs;
  for (int64_t i = 0; i < kCount; ++i) rngs.emplace_back(7, Purpose::augment, i);
  pp.apply_batch(batch, rngs);
  CHECK(same_bits(input, original));
  REQUIRE(batch.count(c.out) == 1);
  REQUIRE(batch.at(c.out).size(0) == kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    CAPTURE(i);
    CHECK(same_bits(batch.at(c.out)[i], results[i]));
    CHECK(rngs[i].bits() == draws[i]);
  }
}

}  // namespace

TEST_CASE("every op keeps the contract") {
  // Ops that take encoded images or a file have separate tests. Rejected ops: pp_errors_test.cc.
  std::set<std::string> tested = {"decode",     "decode_jpeg_and_inception_crop",
                                  "lookup",     "tokenize",
                                  "rag_tensor", "choice_no_replacement"};
  for (const Case& c : cases()) {
    tested.insert(op_name(c.call));
    for (const Form& form : c.forms) check_form(c, form);
  }
  for (const std::string& name : Op::Registry::names()) {
    INFO("the op '" << name << "' has no case in op_contract_test.cc");
    CHECK(tested.contains(name));
  }
}

TEST_CASE("pad_to_shape fills before, after or on both sides") {
  const at::Tensor x = noise({4, 3, 2}, at::kInt);
  const auto padded = [&](const std::string& args) {
    return run_pp("pad_to_shape(key='x', pad_value=-5, " + args + ")", {{"x", x}}).at("x");
  };
  const auto expected = [&](std::vector<int64_t> sides) {
    return at::constant_pad_nd(x, sides, -5);
  };
  CHECK(at::equal(padded("shape=[6, 3, 5]"), expected({0, 3, 0, 0, 0, 2})));
  CHECK(at::equal(padded("shape=[6, 3, 5], where='before'"), expected({3, 0, 0, 0, 2, 0})));
  CHECK(at::equal(padded("shape=[6, 6, -1], where='both'"), expected({0, 0, 1, 2, 1, 1})));
  CHECK(at::equal(padded("shape=[-1, 3, 2]"), x));
}

TEST_CASE("a pipeline names its random ops") {
  const std::vector<std::string> expected = {"decode_jpeg_and_inception_crop",
                                             "inception_crop",
                                             "random_crop",
                                             "flip_lr",
                                             "flip_lr",
                                             "randaug",
                                             "random_affine",
                                             "choice"};
  CHECK(build_pipeline("decode_jpeg_and_inception_crop(8)|inception_crop(8)|random_crop(8)|flip_lr|"
                       "flip_lr(alternate=True)|randaug|random_affine(shift=2)|choice(key='texts')")
            .random_ops() == expected);
  CHECK(
      build_pipeline("decode|resize_small(9)|central_crop(8)|random_affine|randaug(0)|value_range|"
                     "onehot(3)|keep('image')")
          .random_ops()
          .empty());
}

TEST_CASE("decode has no batched form") { CHECK_FALSE(build_pipeline("decode").has_batched()); }

TEST_CASE("the registered ops") {
  const std::vector<std::string> expected = {"archive.randaug",
                                             "central_crop",
                                             "choice",
                                             "choice_no_replacement",
                                             "clip_i1k_label_names",
                                             "clip_value_range",
                                             "coco_captions",
                                             "concat",
                                             "convert_to_video",
                                             "copy",
                                             "decode",
                                             "decode_jpeg_and_inception_crop",
                                             "drop",
                                             "flatten",
                                             "flip_lr",
                                             "i21k_label_names",
                                             "inception_crop",
                                             "keep",
                                             "lookup",
                                             "lower",
                                             "onehot",
                                             "pad_to_shape",
                                             "rag_tensor",
                                             "randaug",
                                             "random_affine",
                                             "random_crop",
                                             "reshape",
                                             "resize",
                                             "resize_long",
                                             "resize_small",
                                             "setdefault",
                                             "squeeze_last_dim",
                                             "strfmt",
                                             "tokenize",
                                             "value_range",
                                             "vgg_value_range"};
  CHECK(Op::Registry::names() == expected);
}

}  // namespace bv::test
