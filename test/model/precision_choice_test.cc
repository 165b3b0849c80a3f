#include "lib/model/precision_choice.h"

#include <catch2/catch.hpp>

namespace bv {

TEST_CASE("precision auto is bf16 where that is faster than float32") {
  const c10::Device cpu(c10::kCPU), gpu(c10::kCUDA, 0);
  CHECK(choose_precision("auto", cpu, CpuBf16::none).text() ==
        "auto: float32, because this CPU has no bf16 instructions");
  CHECK(choose_precision("auto", cpu, CpuBf16::none).precision == Precision::float32);
  CHECK(choose_precision("auto", cpu, CpuBf16::slow).text() ==
        "auto: float32, because float32 is faster than bf16 on this CPU, which has no AMX");
  CHECK(choose_precision("auto", cpu, CpuBf16::slow).precision == Precision::float32);
  CHECK(choose_precision("auto", cpu, CpuBf16::fast).text() ==
        "auto: bf16, because this CPU has fast bf16 instructions");
  CHECK(choose_precision("auto", cpu, CpuBf16::fast).precision == Precision::bf16);
  CHECK(choose_precision("auto", gpu, CpuBf16::none).text() ==
        "auto: bf16, because the device is a GPU");
  CHECK(choose_precision("auto", gpu, CpuBf16::none).word == "auto");
}

TEST_CASE("a precision that the config names is taken on every device") {
  for (const CpuBf16 bf16 : {CpuBf16::none, CpuBf16::slow, CpuBf16::fast}) {
    for (const std::string word : {"float32", "bf16"}) {
      const PrecisionChoice choice = choose_precision(word, c10::kCPU, bf16);
      CHECK_FALSE(choice.automatic);
      CHECK(choice.name() == word);
      CHECK(choice.word == word);
      CHECK(choice.text() == word);
      CHECK(choice.reason.empty() == (word == "float32" || bf16 == CpuBf16::fast));
    }
  }
  CHECK(choose_precision("bf16", c10::Device(c10::kCUDA, 0), CpuBf16::none).reason.empty());
}

}  // namespace bv
