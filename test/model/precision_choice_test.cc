#include "lib/model/precision_choice.h"

#include <catch2/catch.hpp>

namespace bv {

TEST_CASE("precision auto is bf16 where the device computes it") {
  const c10::Device cpu(c10::kCPU), gpu(c10::kCUDA, 0);
  CHECK(choose_precision("auto", cpu, false).text() ==
        "auto: float32, because this CPU has no bf16 instructions");
  CHECK(choose_precision("auto", cpu, false).precision == Precision::float32);
  CHECK(choose_precision("auto", cpu, true).text() ==
        "auto: bf16, because this CPU has bf16 instructions");
  CHECK(choose_precision("auto", cpu, true).precision == Precision::bf16);
  CHECK(choose_precision("auto", gpu, false).text() == "auto: bf16, because the device is a GPU");
  CHECK(choose_precision("auto", gpu, false).config() == "auto");
}

TEST_CASE("a precision that the config names is taken on every device") {
  for (const bool native : {false, true}) {
    for (const char* word : {"float32", "bf16"}) {
      const PrecisionChoice choice = choose_precision(word, c10::kCPU, native);
      CHECK_FALSE(choice.automatic);
      CHECK(choice.name() == word);
      CHECK(choice.config() == word);
      CHECK(choice.text() == word);
    }
  }
}

}  // namespace bv
