// retrieval (also proj.image_text.retrieval): recall of image-text retrieval on stored embeddings
// or distances. It needs no predictions. Follows big_vision's
// evaluators/proj/image_text/retrieval.py, class Evaluator, and image_text_retrieval.py.
// If two distances are equal, the item with the lower index counts as nearer.
#include <ATen/ops/arange.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "lib/config/key_table.h"
#include "lib/evals/common/stored_arrays.h"
#include "lib/evals/evaluator.h"

namespace bv {
namespace {

constexpr TableText kRetrievalText = {
    "Measures image-text retrieval on stored embeddings or distances. For k = 1, 5 and 10, the "
    "metric `img2txt_recall@k` is the fraction of images with one of their texts among the k "
    "nearest texts, and `txt2img_recall@k` the fraction of texts whose image is among the k "
    "nearest images. The model is not used.",
    "type: retrieval\n"
    "file: embeddings.npz",
    "evaluators/proj/image_text/retrieval.py Evaluator"};
constexpr KeyText kRetrievalKeys[] = {
    kStoredFileKey,
    {"distance", "string", "dist",
     "Name of an array of distances with one row per image and one column per text. It is used if "
     "the file has it and neither `image` nor `text` is given; these must not be given with this "
     "key.",
     "", "-"},
    {"image", "string", "zimg",
     "Name of the array with the embeddings of the images, one row each. The distance of an image "
     "and a text is the negative dot product of their embeddings.",
     "", "-"},
    {"text", "string", "ztxt",
     "Name of the array with the embeddings of the texts, one row each and as long as those of the "
     "images.",
     "", "-"},
    {"text_image_correspondence", "string", "text_image_correspondence",
     "Name of an array of integers, one per text: the row (from 0) of its image. Without it, if "
     "there are as many texts as images, text i belongs to image i.",
     "", "-"},
};
const KeyTable retrieval_keys("evals.*: retrieval", kRetrievalText, {}, kRetrievalKeys);
const KeyTable retrieval_full_name_keys("evals.*: proj.image_text.retrieval", kRetrievalText, {},
                                        kRetrievalKeys);

constexpr std::array<int64_t, 3> kRecallAt = {1, 5, 10};

class Retrieval : public Evaluator {
 public:
  Retrieval(const Config& config, const EvalEnv&)
      : arrays_(config),
        distance_(config.get("distance", "dist")),
        image_(config.get("image", "zimg")),
        text_(config.get("text", "ztxt")),
        correspondence_(config.get("text_image_correspondence", "text_image_correspondence")),
        by_distance_(config.has("distance") || !(config.has("image") || config.has("text"))) {
    if (config.has("distance") && (config.has("image") || config.has("text")))
      config.problem("distance", "is given together with image or text; give one or the other");
    by_distance_needed_ = config.has("distance");
  }

  Batch probe(int64_t) override {
    load();
    return {};
  }
  int64_t examples() const override {
    return distances_.defined() ? distances_.size(0) + distances_.size(1) : 0;
  }
  uint64_t content() const override { return arrays_.content(); }
  std::string output() const override { return ""; }

  std::optional<std::vector<std::string>> metrics() const override {
    std::vector<std::string> names;
    for (const char* direction : {"img2txt", "txt2img"}) {
      for (const int64_t k : kRecallAt) names.push_back(metric_name(direction, k));
    }
    return names;
  }

  void run(const EvalContext& context, const Measure& emit) override {
    load();
    if (context.poll) context.poll();
    recall("img2txt", image_ranks(), emit);
    if (context.poll) context.poll();
    recall("txt2img", text_ranks(), emit);
  }

 private:
  void load() {
    if (distances_.defined()) return;
    if (by_distance_ && (by_distance_needed_ || arrays_.has(distance_))) {
      distances_ = arrays_.matrix(distance_);
    } else {
      const at::Tensor zimg = arrays_.matrix(image_), ztxt = arrays_.matrix(text_);
      if (zimg.size(1) != ztxt.size(1)) {
        arrays_.refuse(fmt::format("'{}' has vectors of {}, '{}' of {}", image_, zimg.size(1),
                                   text_, ztxt.size(1)));
      }
      distances_ = zimg.mm(ztxt.t()).neg();
    }
    const int64_t images = distances_.size(0), texts = distances_.size(1);
    if (const auto stored = arrays_.integers(correspondence_)) {
      owner_ = *stored;
    } else if (images == texts) {
      owner_ = at::arange(texts, at::kLong);
    } else {
      arrays_.refuse(
          fmt::format("no array '{}' with the image of each text, for {} images and {} texts",
                      correspondence_, images, texts));
    }
    if (owner_.size(0) != texts) {
      arrays_.refuse(
          fmt::format("'{}' has {} entries for {} texts", correspondence_, owner_.size(0), texts));
    }
    for (int64_t j = 0; j < texts; ++j) {
      const int64_t owner = owner_.const_data_ptr<int64_t>()[j];
      if (owner < 0 || owner >= images) {
        arrays_.refuse(fmt::format("'{}'[{}] is {}, but there are {} images", correspondence_, j,
                                   owner, images));
      }
    }
  }

  // Returns for each image the number of texts that are nearer than the nearest of its own; for an
  // image without texts, the largest integer, so that it never counts as found.
  std::vector<int64_t> image_ranks() const {
    const int64_t images = distances_.size(0), texts = distances_.size(1);
    const int64_t* owner = owner_.const_data_ptr<int64_t>();
    std::vector<int64_t> ranks(images, std::numeric_limits<int64_t>::max());
    for (int64_t i = 0; i < images; ++i) {
      const double* row = distances_.const_data_ptr<double>() + i * texts;
      int64_t own = -1;
      for (int64_t j = 0; j < texts; ++j) {
        if (owner[j] == i && (own < 0 || row[j] < row[own])) own = j;
      }
      if (own < 0) continue;
      ranks[i] = 0;
      for (int64_t j = 0; j < texts; ++j)
        ranks[i] += std::pair(row[j], j) < std::pair(row[own], own);
    }
    return ranks;
  }

  // Returns for each text the number of images that are nearer than its own.
  std::vector<int64_t> text_ranks() const {
    const int64_t images = distances_.size(0), texts = distances_.size(1);
    const int64_t* owner = owner_.const_data_ptr<int64_t>();
    const double* all = distances_.const_data_ptr<double>();
    std::vector<int64_t> ranks(texts, 0);
    for (int64_t i = 0; i < images; ++i) {
      for (int64_t j = 0; j < texts; ++j) {
        const double own = all[owner[j] * texts + j];
        ranks[j] += std::pair(all[i * texts + j], i) < std::pair(own, owner[j]);
      }
    }
    return ranks;
  }

  static std::string metric_name(const char* direction, int64_t k) {
    return fmt::format("{}_recall@{}", direction, k);
  }

  static void recall(const char* direction, const std::vector<int64_t>& ranks,
                     const Measure& emit) {
    for (const int64_t k : kRecallAt) {
      const auto found =
          std::count_if(ranks.begin(), ranks.end(), [&](int64_t r) { return r < k; });
      emit(metric_name(direction, k),
           static_cast<double>(found) / static_cast<double>(ranks.size()));
    }
  }

  StoredArrays arrays_;
  const std::string distance_, image_, text_, correspondence_;
  const bool by_distance_;
  bool by_distance_needed_ = false;
  at::Tensor distances_;  // (images, texts) float64
  at::Tensor owner_;      // (texts) int64
};

const Register<Evaluator, Retrieval> registered_retrieval("retrieval");
const Register<Evaluator, Retrieval> registered_retrieval_full_name("proj.image_text.retrieval");

}  // namespace
}  // namespace bv
