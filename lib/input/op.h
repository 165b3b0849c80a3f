// Op: one preprocessing step of a pp string. Each op is one file in ops/, named after the op.
//
// Names, arguments and results follow big_vision's ops (pp/ops_general.py, pp/ops_image.py,
// pp/ops_text.py, pp/archive/randaug.py).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/config/registry.h"
#include "lib/input/example.h"
#include "lib/input/image/decoding.h"
#include "lib/input/image/normalize.h"
#include "lib/util/rng.h"

namespace bv {

// Thread-safe: worker threads share one object.
//
// An op replaces the tensors of an example and never writes into them, because they may be the
// source's own memory. Its results depend on the example and on the random numbers it draws, and on
// nothing else.
//
// Errors: Error(Exit::data) "random_crop: ..." if this one example is at fault; the loader adds the
// name of the example. LabelError (label_error.h) if its label is out of range, which skip_errors
// never covers. Error(Exit::usage) if the op can't work on this kind of data (a missing key, a
// wrong rank or dtype); the pipeline adds the place of the call in the config.
class Op {
 public:
  using Registry = bv::Registry<Op>;
  static constexpr const char* kKind = "op";
  virtual ~Op() = default;

  // Changes the keys of `example`, drawing from `rng`.
  virtual void apply(Example& example, Rng& rng) const = 0;

  // For an op that makes vectors of the class numbers in `label`: the length of the vectors, which
  // is the number of classes that it can tell apart.
  virtual std::optional<int64_t> class_count() const { return std::nullopt; }

  // For an op that decodes an image file before it draws any random number: how it decodes. The
  // cache of decoded images (cache/decoded_images.h) may then decode in its place.
  virtual std::optional<Decoding> decodes() const { return std::nullopt; }
  // Applies an op with decodes() to an example whose file is decoded already: `image`,
  // (height, width, channels) uint8. The result is bit-identical to that of apply().
  virtual void apply_decoded(Example& example, const at::Tensor& image, Rng& rng) const;

  // Returns how the op normalizes the feature `key`; nullopt if it does anything else.
  virtual std::optional<Normalization> normalizes(std::string_view key) const {
    return std::nullopt;
  }
  // Returns true only if the op neither reads nor changes nor removes the feature `key`.
  virtual bool leaves(std::string_view key) const { return false; }

  // For an op that makes the feature `key` from another one: the name of the other; names joined by
  // "+" if it joins several. nullopt if the op leaves `key`, or changes it in place.
  virtual std::optional<std::string> makes_from(std::string_view key) const { return std::nullopt; }

  // Returns whether the op decodes images without turning them as their EXIF orientation says.
  virtual bool ignores_orientation() const { return false; }

  // Returns whether the results depend on random numbers.
  virtual bool is_random() const { return false; }
  // Returns whether the op cuts random parts out of images, but each image so far had the size of
  // the part, so that nothing was random.
  virtual bool had_no_choice() const { return false; }

  // Returns whether apply_batch() works.
  virtual bool has_batched() const { return false; }
  // Applies the op to a stack of examples of equal shapes, with results bit-identical to those of
  // apply() on each of them (test/input/op_contract_test.cc). rngs[i] belongs to example i.
  virtual void apply_batch(Example& batch, std::span<Rng> rngs) const;
};

}  // namespace bv
