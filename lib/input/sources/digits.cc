// digits: handwritten digits, embedded in the executable (digits/README.md).
//
// Splits: train, test. Examples: "image" (8, 8, 1) uint8, "label" int64.
#include "lib/config/key_table.h"
#include "lib/input/sources/common/array_source.h"
#include "lib/input/sources/common/idx.h"

// Each file of digits/, followed by the label of the next one. BV_EMBED_DIR is lib/input.
asm(".pushsection .rodata\n"
    "bv_digits_train_images: .incbin \"" BV_EMBED_DIR
    "/sources/digits/train-images-idx3-ubyte\"\n"
    "bv_digits_train_labels: .incbin \"" BV_EMBED_DIR
    "/sources/digits/train-labels-idx1-ubyte\"\n"
    "bv_digits_test_images: .incbin \"" BV_EMBED_DIR
    "/sources/digits/test-images-idx3-ubyte\"\n"
    "bv_digits_test_labels: .incbin \"" BV_EMBED_DIR
    "/sources/digits/test-labels-idx1-ubyte\"\n"
    "bv_digits_end:\n"
    ".popsection\n");
extern "C" {
extern const uint8_t bv_digits_train_images[] __attribute__((visibility("hidden")));
extern const uint8_t bv_digits_train_labels[] __attribute__((visibility("hidden")));
extern const uint8_t bv_digits_test_images[] __attribute__((visibility("hidden")));
extern const uint8_t bv_digits_test_labels[] __attribute__((visibility("hidden")));
extern const uint8_t bv_digits_end[] __attribute__((visibility("hidden")));
}

namespace bv {
namespace {

const KeyTable digits_keys(
    "input.data: digits",
    {"Handwritten digits, built into the program to try it without a download: "
     "grey images of 8x8 pixels, 1,437 in the split train and 360 in the split "
     "test. Examples have `image`, already decoded, and `label`.",
     "name: digits\nsplit: train"},
    {});

class Digits : public ArraySource {
 public:
  Digits(const Config& config, const SourceEnv& env) {}

  std::vector<std::string> splits() const override { return {"test", "train"}; }
  std::vector<std::string> class_names() const override {
    return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  }
  SyntheticSpec synthetic_spec() const override {
    return {.size = 1437, .height = 8, .width = 8, .channels = 1, .classes = 10, .encoded = false};
  }

 protected:
  Example load(size_t split) const override {
    const bool train = split == 1;
    const uint8_t* images = train ? bv_digits_train_images : bv_digits_test_images;
    const uint8_t* labels = train ? bv_digits_train_labels : bv_digits_test_labels;
    const uint8_t* end = train ? bv_digits_test_images : bv_digits_end;
    return {{"image", parse_idx_images({images, labels}, "embedded digits")},
            {"label", parse_idx_labels({labels, end}, "embedded digits")}};
  }
};

const Register<Source, Digits> registered_digits("digits");

}  // namespace
}  // namespace bv
