// Pipeline: the ops of a pp string, "decode|resize(224)|value_range(-1, 1)".
//
// The grammar is that of big_vision's pp/builder.py `get_preprocess_fn`; parse_calls() in
// lib/config reads it.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/call.h"
#include "lib/input/op.h"

namespace bv {

// Thread-safe after construction.
class Pipeline {
 public:
  // Builds the ops of the pp string config[key] (no ops if the key is absent). Records unknown ops
  // and bad arguments as problems of the config.
  Pipeline(const Config& config, std::string_view key);
  // Builds the ops of a pp string that is not in a config file. Throws Error(Exit::usage) with
  // places relative to `origin`.
  Pipeline(std::string_view text, const Place& origin);

  // Returns the pp string, with numbers in place of names such as num_classes.
  const std::string& text() const { return text_; }
  // Returns the number of classes of the labels that the ops make from `label`; nullopt if they
  // make none.
  std::optional<int64_t> class_count() const;
  // Returns the feature of the data set from which the ops make the feature `key`: "label" for
  // onehot(10, key="label", key_result="labels") and the key "labels". Names joined by "+" if there
  // are several.
  std::string made_from(std::string_view key) const;
  // Returns whether the ops make the feature `key` from `label` or `labels`, the features whose
  // classes Dataset knows (names, numbers, counts).
  bool uses_data_labels(std::string_view key = "labels") const;
  // The same, but also true if they make it from such a feature and others.
  bool reads_data_labels(const std::string& key) const;
  // Returns whether all ops have a batched form.
  bool has_batched() const;
  // Returns the name of the first op that ignores_orientation(); empty if there is none.
  std::string ignores_orientation() const;
  // Returns how the ops normalize the feature 'image', in their order.
  std::vector<Normalization> normalizations() const;
  // Returns the names of the ops with is_random().
  std::vector<std::string> random_ops() const;
  // Returns the names of the ops with had_no_choice().
  std::vector<std::string> ops_without_choice() const;
  // From now on, if the first op decodes an image whose shorter side is longer than `short_side`,
  // the image is resized to it, as by the op resize_small. Call it before the pipeline is shared.
  void shrink_decoded(int64_t short_side);
  int64_t short_side() const { return short_side_; }  // 0: images are not resized
  // Leaves out the last op that normalizes 'image', from now on and for uint8 images only. Returns
  // what the op does, which the caller then has to do. Returns nullopt, and leaves out nothing, if
  // there is no such op, if an op after it may use the image, or if it normalizes more channels
  // than Normalization::kMostOnDevice. Call it before the pipeline is shared.
  std::optional<Normalization> leave_normalization();
  // Drops the ops after the last one that may read or change 'image', and then all features but
  // 'image'. This is for images without labels, because the dropped ops may ask for labels. text()
  // does not change. Call it before the pipeline is shared.
  void end_with_image();
  // Returns a pipeline of those ops that may affect the feature `key`, or a feature from which it
  // is made. Random ops draw other numbers than in this pipeline.
  Pipeline only(const std::string& key) const;
  // Returns how the first op decodes image files; nullopt if it does not.
  std::optional<Decoding> decodes() const;
  // Returns whether an op after the first one decodes image files.
  bool decodes_later() const;
  // Apply the ops in order. An Error(Exit::usage) of an op gets the place of its call.
  void apply(Example& example, Rng& rng) const;
  void apply_batch(Example& batch, std::span<Rng> rngs) const;
  // Returns the image of an example as the first op decodes it, resized if shrink_decoded() was
  // called. Returns an undefined tensor if apply() must find out what is wrong: the first op does
  // not decode, the example has no encoded image, or decoding the whole image fails. After
  // shrink_decoded(), the last case throws Error(Exit::data) instead.
  at::Tensor decode(const Example& example) const;
  // The same as apply(), if the first op decodes, with the result of decode().
  void apply_decoded(Example& example, const at::Tensor& image, Rng& rng) const;

 private:
  struct Step {
    std::string name;
    std::shared_ptr<const Op> op;
    Place place;
    bool left_out = false;  // for uint8 images, see leave_normalization()
  };
  void build(const std::vector<Call>& calls);
  void apply_from(size_t first, Example& example, Rng& rng) const;
  std::set<std::string> sources_of(const std::string& key, std::vector<Step>* ops) const;

  std::string text_;
  std::vector<Step> steps_;
  int64_t short_side_ = 0;
  std::shared_ptr<const Op> shrink_;  // null if short_side_ is 0
};

}  // namespace bv
