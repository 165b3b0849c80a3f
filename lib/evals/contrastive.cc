// contrastive (also proj.image_text.contrastive): the bidirectional contrastive loss of stored
// pairs of image and text embeddings. It needs no predictions. Follows big_vision's
// evaluators/proj/image_text/contrastive.py and `bidirectional_contrastive_loss` in utils.py.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <optional>

#include "lib/config/key_table.h"
#include "lib/evals/common/stored_arrays.h"
#include "lib/evals/evaluator.h"

namespace bv {
namespace {

constexpr TableText kContrastiveText = {
    "Measures how well stored embeddings match images with their texts. The metric "
    "`ncorrect_minibatch` is the fraction of images whose own text fits best, and `loss` the mean "
    "over pairs of half the sum of two cross entropies: of the text given the image, and of the "
    "image given the text. The model is not used.",
    "type: contrastive\n"
    "file: embeddings.npz",
    "evaluators/proj/image_text/contrastive.py Evaluator"};
constexpr KeyText kContrastiveKeys[] = {
    kStoredFileKey,
    {"image", "string", "zimg",
     "Name of the array with the embeddings of the images, one row each.", "", "-"},
    {"text", "string", "ztxt",
     "Name of the array with the embeddings of the texts. It has the shape of the images' array, "
     "and row i belongs to image i.",
     "", "-"},
    {"t", "float", "= the number t in the file, or 1",
     "Factor of the dot product of an image and a text: the inverse of the temperature.", "10",
     "-"},
    {"mask", "string", "mask",
     "Name of an array of integers, one per pair: pairs where it is 0 are left out. Without this "
     "key the array may be missing, and then all pairs count.",
     "", "-"},
    {"minibatch", "int >= 1", "= all pairs",
     "Number of pairs to compare with each other, in the order of the rows. Both metrics depend on "
     "it: among fewer pairs the right one is easier to find.",
     "1024", "-"},
};
const KeyTable contrastive_keys("evals.*: contrastive", kContrastiveText, {}, kContrastiveKeys);
const KeyTable contrastive_full_name_keys("evals.*: proj.image_text.contrastive", kContrastiveText,
                                          {}, kContrastiveKeys);

constexpr int64_t kLogitBlock = 1024;  // rows of logits in memory at a time

struct ContrastiveSums {
  double loss = 0;
  int64_t correct = 0, seen = 0;
};

// Adds the sums of one minibatch: zimg and ztxt are (n, d) float64, all contrasted with each other.
void contrast(const at::Tensor& zimg, const at::Tensor& ztxt, double t, ContrastiveSums& sums) {
  const int64_t n = zimg.size(0);
  at::Tensor columns = at::full({n}, -HUGE_VAL, at::kDouble);  // log-sum-exp of each column
  at::Tensor rows = at::empty({n}, at::kDouble), own = at::empty({n}, at::kDouble);
  for (int64_t begin = 0; begin < n; begin += kLogitBlock) {
    const int64_t size = std::min(kLogitBlock, n - begin);
    const at::Tensor logits = zimg.narrow(0, begin, size).mm(ztxt.t()) * t;  // (size, n)
    const at::Tensor places = at::arange(begin, begin + size, at::kLong);
    rows.narrow(0, begin, size).copy_(logits.logsumexp(1));
    own.narrow(0, begin, size).copy_(logits.gather(1, places.unsqueeze(1)).squeeze(1));
    columns = at::logaddexp(columns, logits.logsumexp(0));
    sums.correct += logits.argmax(1).eq(places).sum().item<int64_t>();
  }
  sums.loss += (0.5 * (rows + columns) - own).sum().item<double>();
  sums.seen += n;
}

class Contrastive : public Evaluator {
 public:
  Contrastive(const Config& config, const EvalEnv&)
      : arrays_(config),
        image_(config.get("image", "zimg")),
        text_(config.get("text", "ztxt")),
        mask_(config.get("mask", "mask")),
        mask_needed_(config.has("mask")),
        t_(config.maybe<double>("t")),
        minibatch_(config.maybe<int64_t>("minibatch")) {
    if (minibatch_ && *minibatch_ < 1) config.problem("minibatch", "must be positive");
  }

  Batch probe(int64_t) override {
    load();
    return {};
  }
  int64_t examples() const override { return zimg_.defined() ? zimg_.size(0) : 0; }
  uint64_t content() const override { return arrays_.content(); }
  std::string output() const override { return ""; }

  std::optional<std::vector<std::string>> metrics() const override {
    return {{"ncorrect_minibatch", "loss"}};
  }

  void run(const EvalContext& context, const Measure& emit) override {
    load();
    ContrastiveSums sums;
    const int64_t n = zimg_.size(0), step = minibatch_.value_or(n);
    for (int64_t begin = 0; begin < n; begin += step) {
      if (context.poll) context.poll();
      const int64_t size = std::min(step, n - begin);
      const at::Tensor keep = keep_.narrow(0, begin, size).nonzero().squeeze(1);
      contrast(zimg_.narrow(0, begin, size).index_select(0, keep),
               ztxt_.narrow(0, begin, size).index_select(0, keep), *t_, sums);
    }
    const auto expected = keep_.sum().item<int64_t>();
    check(sums.seen == expected, "contrastive saw {} pairs instead of {}", sums.seen, expected);
    emit("ncorrect_minibatch", static_cast<double>(sums.correct) / static_cast<double>(expected));
    emit("loss", sums.loss / static_cast<double>(expected));
  }

 private:
  void load() {
    if (zimg_.defined()) return;
    const at::Tensor zimg = arrays_.matrix(image_);
    ztxt_ = arrays_.matrix(text_);
    if (zimg.sizes() != ztxt_.sizes()) {
      arrays_.refuse(fmt::format("'{}' is ({}, {}), but '{}' is ({}, {})", image_, zimg.size(0),
                                 zimg.size(1), text_, ztxt_.size(0), ztxt_.size(1)));
    }
    const auto mask = arrays_.integers(mask_);
    if (!mask && mask_needed_) arrays_.refuse(fmt::format("there is no array '{}'", mask_));
    if (mask && mask->size(0) != zimg.size(0)) {
      arrays_.refuse(
          fmt::format("'{}' has {} entries for {} pairs", mask_, mask->size(0), zimg.size(0)));
    }
    keep_ = mask ? mask->ne(0) : at::ones({zimg.size(0)}, at::kBool);
    if (!keep_.any().item<bool>()) arrays_.refuse(fmt::format("'{}' leaves nothing", mask_));
    if (!t_) t_ = arrays_.number("t").value_or(1.0);
    zimg_ = zimg;
  }

  StoredArrays arrays_;
  const std::string image_, text_, mask_;
  const bool mask_needed_;
  std::optional<double> t_;
  const std::optional<int64_t> minibatch_;
  at::Tensor zimg_, ztxt_;  // (n, d) float64
  at::Tensor keep_;         // (n) bool
};

const Register<Evaluator, Contrastive> registered_contrastive("contrastive");
const Register<Evaluator, Contrastive> registered_contrastive_full_name(
    "proj.image_text.contrastive");

}  // namespace
}  // namespace bv
