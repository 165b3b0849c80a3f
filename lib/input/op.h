// pp ops: one file an op in pp/, named after it. Reference section 12.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/config/registry.h"
#include "lib/input/example.h"
#include "lib/util/rng.h"

namespace bv {

// Thread-safe. Tensors of an example are replaced, never written into: they may be the source's own
// memory. What is wrong with one example is Error(Exit::data) "random_crop: ...", the loader adds
// which example; what is wrong with the kind of data (a missing key, a rank, a dtype) is
// Error(Exit::usage), to which the pipeline adds the place of the call.
class Op {
 public:
  using Registry = bv::Registry<Op>;
  static constexpr const char* kKind = "op";
  virtual ~Op() = default;

  virtual void apply(Example& example, Rng& rng) const = 0;

  // An op may also take a whole stack of examples of equal shapes; the results are the same bits as
  // apply() on each (contract test). rngs[i] belongs to example i.
  virtual bool has_batched() const { return false; }
  virtual void apply_batch(Example& batch, std::span<Rng> rngs) const;
};

// The keys an op of kind **K** works on: `key` (both), or `inkey`/`outkey`; default "image".
// Keyword-only, so read them after the op's own arguments.
struct InOut {
  InOut() = default;
  explicit InOut(const Config& args, const char* default_key = "image");
  std::string in = "image", out = "image";
};
// The tensor of `key`; Error(Exit::usage) naming the keys there are.
at::Tensor& need(Example& example, const std::string& key, const char* op);

// A pp string made into ops.
class Pipeline {
 public:
  // Parses config[key] (default: no ops); unknown ops and arguments are problems of the config.
  Pipeline(const Config& config, std::string_view key);
  // The same for a text that stands in no config file.
  Pipeline(std::string_view text, const Place& origin);

  const std::string& text() const { return text_; }
  bool has_batched() const;  // every op has
  void apply(Example& example, Rng& rng) const;
  void apply_batch(Example& batch, std::span<Rng> rngs) const;

 private:
  void build(const std::vector<Call>& calls);
  struct Step {
    std::shared_ptr<const Op> op;
    Place place;
  };
  std::string text_;
  std::vector<Step> steps_;
};

}  // namespace bv
