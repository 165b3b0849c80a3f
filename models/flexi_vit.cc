// flexi_vit (also proj.flexi.vit): FlexiViT (Beyer et al., 2023), a ViT whose patch size can change
// from step to step: big_vision's models/proj/flexi/vit.py, class _Model.
//
// The parameters are those of vit. forward() resizes the patch kernel (pseudo-inverse of a bilinear
// resize) and the position embedding (linear interpolation) to the image and `seqhw`. Weights with
// patches of another size are resized in the same way when they are loaded.
//
// Activations: stem, with_posemb, encoder/block<NN>/{sa, +sa, mlp, +mlp}, encoder/pre_ln, encoded,
// head_input, pre_logits, pre_logits_2d, logits, logits_2d.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "lib/config/key_table.h"
#include "lib/model/layers.h"
#include "lib/model/parameter_resizer.h"
#include "lib/model/transformer/encoder.h"
#include "lib/model/transformer/map_head.h"
#include "lib/model/transformer/patches.h"
#include "lib/model/transformer/position_embedding.h"
#include "lib/model/transformer/resample.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

constexpr TableText kText = {
    "FlexiViT: a Vision Transformer that works with patches of any size, so that the same weights "
    "allow fast or accurate inference. It resizes the patch and position embeddings to the image "
    "and to `seqhw`; `flexi` trains it with a random patch size in each step.",
    "variant: S/32\nseqhw: 8\nflexi: {seqhw: {v: [5, 6, 8, 10], p: [1, 1, 1, 2]}}",
    "models/proj/flexi/vit.py _Model"};

constexpr KeyText kFlexiKeys[] = {
    {"patch_size", "[int >= 1, int >= 1]", "= [32, 32], or that of `variant`",
     "Rows and columns of pixels in a patch of the stored weights. Without `seqhw`, images are "
     "split into patches of this size; otherwise the weights are resized to the patches of "
     "`seqhw`."},
    {"posemb_size", "[int >= 1, int >= 1]", "[7, 7]",
     "Rows and columns of the stored position embedding. It is resized for images with another "
     "grid of patches.",
     "[16, 16]"},
    {"pool_type", "'gap' | 'map' | 'tok'", "gap",
     "How the tokens are pooled for the classification layer: `gap` averages them, `map` pools "
     "them by attention with a learned query, `tok` adds a learned class token and takes its "
     "output."},
    kHeadZeroinit,
    {"seqhw", "int >= 1", "= image side / patch_size",
     "Number of patches along each side of the image: a patch has height / seqhw rows and width / "
     "seqhw columns of pixels, rounded down. If the sides of the image are not multiples of "
     "`seqhw`, this rounding can give more patches, and a warning says how many. More patches are "
     "more accurate and slower. In training, `flexi` replaces this number; evaluation uses it."},
    {"flexi", "map", "none",
     "Draws a new number of patches per side in each training step, so that the model learns to "
     "work with several patch sizes. In big_vision this key is at the top level of the config.",
     "{seqhw: {v: [5, 6, 8, 10], p: [1, 1, 1, 2]}}", "-"},
};
const KeyTable flexi_vit_keys("model: flexi_vit", kText, {}, kTransformerShapeKeys, kPosembKeys,
                              kFlexiKeys);
const KeyTable keys_of_seed_name("model: proj.flexi.vit", kText, {}, kTransformerShapeKeys,
                                 kPosembKeys, kFlexiKeys);

const KeyTable choice_keys("model.flexi",
                           {"What each training step of the model flexi_vit draws at random.",
                            "seqhw: {v: [5, 6, 8, 10]}", "trainers/proj/flexi/train.py main"},
                           {{"seqhw", "map", "required",
                             "The numbers of patches per side to draw from, and how likely each of "
                             "them is."}});
const KeyTable seqhw_keys(
    "model.flexi.seqhw",
    {"The numbers of patches per side from which each training step of the model flexi_vit draws "
     "one.",
     "v: [5, 6, 8, 10]\np: [1, 1, 1, 2]", "trainers/proj/flexi/train.py main"},
    {{"v", "list of int >= 0", "required",
      "The numbers to draw from, each at most the image's side in pixels. 0 stands for patches of "
      "`patch_size`.",
      "[5, 6, 8, 10]"},
     {"p", "list of float", "= the same for all",
      "The weight of each number in `v`: one with twice the weight is drawn twice as often. They "
      "need not add up to 1; weights below 0 count as 0, and at least one must be above 0.",
      "[1, 1, 1, 2]"}});

// How an image is divided into patches, and the matrices that resize the parameters accordingly. A
// matrix is undefined if there is nothing to resize.
struct PatchGrid {
  int64_t patch_height, patch_width;
  Constant kernel_rows, kernel_columns;
  Constant posemb_rows, posemb_columns;
};

// The key `flexi.seqhw`: values and their cumulative weights. Empty if the key is absent.
struct SeqhwChoice {
  std::vector<int64_t> values;
  std::vector<double> cumulated;

  int64_t draw(uint64_t seed, int64_t step) const {
    Rng rng(hash64(fmt::format("{}/flexi.seqhw", seed)), Purpose::dropout,
            static_cast<uint64_t>(step));
    const double at = rng.uniform() * cumulated.back();
    const auto found = std::upper_bound(cumulated.begin(), cumulated.end(), at);
    return values[std::min<size_t>(found - cumulated.begin(), values.size() - 1)];
  }
};

SeqhwChoice read_choice(const Config& config) {
  SeqhwChoice choice;
  if (!config.has("flexi")) return choice;
  const Config flexi = config.section("flexi"), seqhw = flexi.section("seqhw");
  choice.values = seqhw.get<std::vector<int64_t>>("v");
  const auto weights =
      seqhw.get<std::vector<double>>("p", std::vector<double>(choice.values.size(), 1.0));
  if (choice.values.empty()) seqhw.fail("v", "must have a value");
  if (weights.size() != choice.values.size()) {
    seqhw.fail("p", fmt::format("{} weights for {} values", weights.size(), choice.values.size()));
  }
  double sum = 0;
  for (const double weight : weights) choice.cumulated.push_back(sum += std::max(weight, 0.0));
  if (!(sum > 0) || !std::isfinite(sum)) seqhw.fail("p", "needs a weight above 0");
  seqhw.done();
  flexi.done();
  return choice;
}

class FlexiVit : public Model, public ParameterResizer {
 public:
  FlexiVit(const Config& config, const ModelEnv& env);
  at::Tensor forward(const at::Tensor& image, Pass& pass) override;
  TokenGrid position_grid() const override { return {posemb_size_[0], posemb_size_[1]}; }
  std::vector<std::string> units() const override { return encoder_.units(); }
  std::string varies() const override {
    return choice_.values.empty() ? "" : "model.flexi draws another patch size in each step";
  }
  bool takes_size(int64_t height, int64_t width) const override {
    const auto [ph, pw] = patch_sides(height, width, seqhw_);
    return ph >= 1 && pw >= 1 && height >= ph && width >= pw;
  }
  void fix_largest_step() override;
  at::Tensor resize_parameter(const std::string& name, const at::Tensor& value) const override;

 private:
  // Returns the rows and columns of pixels in a patch of such an image.
  std::pair<int64_t, int64_t> patch_sides(int64_t height, int64_t width, int64_t seqhw) const;
  const PatchGrid& grid(int64_t height, int64_t width, int64_t seqhw);
  void check_seqhw(const Config& config, const char* key, int64_t seqhw, const ModelEnv& env);
  at::Tensor position_embedding(const PatchGrid& grid, const at::Tensor& tokens) const;
  at::Tensor pool(const at::Tensor& encoded, Pass& pass) const;  // (n, D)

  const TransformerShape shape_;
  const std::string pool_type_;
  const int64_t seqhw_;  // 0 if not given
  SeqhwChoice choice_;
  const int64_t height_, width_;  // of the images
  std::vector<int64_t> posemb_size_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, PatchGrid> grids_;  // by height, width, seqhw

  Dense embedding_;                  // kernel (P, P, channels, D)
  PositionEmbedding pos_embedding_;  // (1, N, D)
  at::Tensor cls_;                   // (1, 1, D)
  Encoder encoder_;
  MapHead map_head_;
  Dense head_;
};

FlexiVit::FlexiVit(const Config& config, const ModelEnv& env)
    : shape_(read_transformer_shape(config, /*patch=*/32)),
      pool_type_(config.word("pool_type", "gap", {"gap", "map", "tok"})),
      seqhw_(config.maybe<int64_t>("seqhw").value_or(0)),
      choice_(read_choice(config)),
      height_(env.height),
      width_(env.width),
      posemb_size_(config.get<std::vector<int64_t>>("posemb_size", {7, 7})) {
  if (posemb_size_.size() != 2 || posemb_size_[0] < 1 || posemb_size_[1] < 1) {
    config.fail("posemb_size", "must be two positive numbers [rows, columns]");
  }
  if (config.has("seqhw") && seqhw_ < 1) {
    config.fail("seqhw", fmt::format("must be positive, got {}", seqhw_));
  }
  check_seqhw(config, "seqhw", seqhw_, env);
  for (const int64_t seqhw : choice_.values) check_seqhw(config, "flexi", seqhw, env);

  const int64_t width = shape_.width;
  embedding_ = {add_parameter("embedding/kernel",
                              {shape_.patch_height, shape_.patch_width, env.channels, width},
                              normal(1.0 / std::sqrt(static_cast<double>(width))), {3, 0, 1, 2}),
                add_parameter("embedding/bias", {width}, zeros())};
  pos_embedding_ = add_position_embedding(*this, config, posemb_size_[0], posemb_size_[1], width);
  if (pool_type_ == "tok") cls_ = add_parameter("cls", {1, 1, width}, zeros());
  encoder_ = Encoder::add(*this, shape_, {});
  if (pool_type_ == "map") map_head_ = MapHead::add(*this, shape_);
  const bool zero = config.get<bool>("head_zeroinit", true);
  if (env.num_classes > 0) {
    head_ = Dense::add(*this, "head", width, env.num_classes, zero ? zeros() : lecun_normal(width));
  }
}

std::pair<int64_t, int64_t> FlexiVit::patch_sides(int64_t height, int64_t width,
                                                  int64_t seqhw) const {
  if (seqhw > 0) return {height / seqhw, width / seqhw};
  return {shape_.patch_height, shape_.patch_width};
}

void FlexiVit::check_seqhw(const Config& config, const char* key, int64_t seqhw,
                           const ModelEnv& env) {
  const auto [ph, pw] = patch_sides(env.height, env.width, seqhw);
  if (seqhw < 0 || ph < 1 || pw < 1) {
    config.fail(key, fmt::format("{} tokens per side do not fit images of {}x{}", seqhw, env.height,
                                 env.width));
  }
  const char* const patch_key = config.has("patch_size") ? "patch_size" : "variant";
  if (env.height < ph || env.width < pw) {
    config.fail(patch_key, fmt::format("patches of {}x{} are larger than the images of {}x{}", ph,
                                       pw, env.height, env.width));
  }
  const int64_t rows = env.height / ph, columns = env.width / pw;
  if (seqhw > 0 && (rows != seqhw || columns != seqhw)) {
    config.warn(key, fmt::format("images of {}x{} are divided into {}x{} patches of {}x{}, not {} "
                                 "along each side; choose sides that are multiples of {}",
                                 env.height, env.width, rows, columns, ph, pw, seqhw, seqhw));
  }
  const std::string cut_off = cut_off_text(env.height, env.width, ph, pw);
  if (!cut_off.empty()) config.warn(seqhw > 0 ? key : patch_key, cut_off);
}

const PatchGrid& FlexiVit::grid(int64_t height, int64_t width, int64_t seqhw) {
  const auto [place, added] = grids_.try_emplace({height, width, seqhw});
  PatchGrid& grid = place->second;
  if (!added) return grid;
  std::tie(grid.patch_height, grid.patch_width) = patch_sides(height, width, seqhw);
  if (grid.patch_height != shape_.patch_height || grid.patch_width != shape_.patch_width) {
    grid.kernel_rows = Constant(kernel_resize_matrix(shape_.patch_height, grid.patch_height));
    grid.kernel_columns = Constant(kernel_resize_matrix(shape_.patch_width, grid.patch_width));
  }
  const int64_t rows = height / grid.patch_height, columns = width / grid.patch_width;
  // big_vision compares only the numbers of positions and patches: for 4x4 patches it uses 2x8
  // positions without resizing them.
  if (rows != posemb_size_[0] || columns != posemb_size_[1]) {
    grid.posemb_rows = Constant(linear_resize_matrix(posemb_size_[0], rows, /*antialias=*/true));
    grid.posemb_columns =
        Constant(linear_resize_matrix(posemb_size_[1], columns, /*antialias=*/true));
  }
  return grid;
}

// The step with the most patches.
void FlexiVit::fix_largest_step() {
  int64_t most = 0;
  double before = 0;
  SeqhwChoice largest;
  for (size_t i = 0; i < choice_.values.size(); ++i) {
    const bool possible = choice_.cumulated[i] > before;
    before = choice_.cumulated[i];
    const auto [ph, pw] = patch_sides(height_, width_, choice_.values[i]);
    const int64_t patches = (height_ / ph) * (width_ / pw);
    if (!possible || patches <= most) continue;
    most = patches;
    largest = {{choice_.values[i]}, {1.0}};
  }
  choice_ = largest;
}

// Resizes patch kernels of other sizes, as `load` in models/proj/flexi/vit.py does.
at::Tensor FlexiVit::resize_parameter(const std::string& name, const at::Tensor& value) const {
  constexpr int64_t kLargest = 1024;  // maximum side of a patch that is resized
  const at::Tensor& own = embedding_.kernel;
  if (name != "embedding/kernel" || value.dim() != 4 || value.size(2) != own.size(2) ||
      value.size(3) != own.size(3)) {
    return value;
  }
  const int64_t height = value.size(0), width = value.size(1);
  if (height < 1 || width < 1 || height > kLargest || width > kLargest) return value;
  return resize_grid(value.to(at::kFloat), kernel_resize_matrix(height, own.size(0)),
                     kernel_resize_matrix(width, own.size(1)));
}

// Returns the embedding of `tokens` (n, rows, columns, D): (1, rows * columns, D) float32.
at::Tensor FlexiVit::position_embedding(const PatchGrid& grid, const at::Tensor& tokens) const {
  const at::TensorOptions options = tokens.options().dtype(at::kFloat);
  const at::Tensor stored = pos_embedding_.on(options);
  if (!grid.posemb_rows.defined()) return stored;
  return resize_grid(stored.view({posemb_size_[0], posemb_size_[1], shape_.width}),
                     grid.posemb_rows.on(options), grid.posemb_columns.on(options))
      .view({1, tokens.size(1) * tokens.size(2), shape_.width});
}

at::Tensor FlexiVit::pool(const at::Tensor& encoded, Pass& pass) const {
  if (pool_type_ == "gap") return encoded.mean(1);
  return pool_type_ == "tok" ? encoded.select(1, 0) : map_head_(encoded, pass);
}

at::Tensor FlexiVit::forward(const at::Tensor& image, Pass& pass) {
  const bool drawn = pass.train && !choice_.values.empty();
  const PatchGrid& cut =
      grid(image.size(1), image.size(2), drawn ? choice_.draw(pass.seed, pass.step) : seqhw_);
  at::Tensor kernel = embedding_.kernel;
  if (cut.kernel_rows.defined()) {
    kernel = resize_grid(kernel, cut.kernel_rows.on(kernel.options()),
                         cut.kernel_columns.on(kernel.options()));
  }
  at::Tensor x = Dense{kernel.flatten(0, 2), embedding_.bias}(
      patches(to_compute(image, pass), cut.patch_height, cut.patch_width), pass);
  pass.keep("stem", x);
  const int64_t rows = x.size(1), columns = x.size(2);
  const at::Tensor posemb = position_embedding(cut, x);
  x = x.flatten(1, 2).to(at::kFloat) + posemb;
  pass.keep("with_posemb", x);
  if (pool_type_ == "tok") {
    x = at::cat({cls_.expand({x.size(0), 1, shape_.width}), x}, 1);
  }
  x = encoder_(x, pass);
  pass.keep("encoded", x);
  if (pass.wants("pre_logits_2d") || pass.wants("logits_2d")) {
    Pass aside = pass;
    aside.macs = nullptr;
    const at::Tensor tokens =
        (pool_type_ == "tok" ? x.slice(1, 1) : x).unflatten(1, {rows, columns});
    pass.keep("pre_logits_2d", tokens);
    if (head_.kernel.defined() && pass.wants("logits_2d"))
      pass.keep("logits_2d", head_.head(tokens, aside));
  }
  x = pool(x, pass);
  pass.keep("head_input", x);
  pass.keep("pre_logits", x);
  if (!head_.kernel.defined()) return x;
  x = head_.head(x, pass);
  pass.keep("logits", x);
  return x;
}

const Register<Model, FlexiVit> registered_flexi_vit("flexi_vit");
const Register<Model, FlexiVit> registered_seed_name("proj.flexi.vit");

std::vector<NamedVariant> flexi_vit_sizes() {
  std::vector<NamedVariant> all;
  for (const char* size : {"Ti", "S", "B", "L"}) {
    all.push_back({fmt::format("{}/32", size), fmt::format("{{variant: {}/32}}", size)});
  }
  return all;
}
const RegisterVariants flexi_vit_variants("flexi_vit", flexi_vit_sizes());
const RegisterVariants variants_of_seed_name("proj.flexi.vit", flexi_vit_sizes());

}  // namespace
}  // namespace bv
