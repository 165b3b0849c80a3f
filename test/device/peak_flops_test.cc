// The peak of a GPU by its name.
#include "lib/device/peak_flops.h"

#include <catch2/catch.hpp>

namespace bv::test {

TEST_CASE("the peak of a GPU is found by its name") {
  CHECK(peak_flops("NVIDIA H100 80GB HBM3", true) == Approx(989.4e12));
  CHECK(peak_flops("NVIDIA H100 80GB HBM3", false) == Approx(66.9e12));
  CHECK(peak_flops("NVIDIA H100 PCIe", true) == 756e12);
  CHECK(peak_flops("NVIDIA H200 NVL", true) == 835.5e12);
  CHECK(peak_flops("NVIDIA GB200", true) == 2500e12);
  CHECK(peak_flops("NVIDIA RTX A4000", true) == 0);  // no A40
  CHECK(peak_flops("NVIDIA A100-SXM4-80GB MIG 1g.10gb", true) == 0);
  CHECK(peak_flops("NVIDIA H200", true) == Approx(989.4e12));
  CHECK(peak_flops("NVIDIA A100-SXM4-80GB", true) == 312e12);
  CHECK(peak_flops("NVIDIA L40S", true) == 362e12);
  CHECK(peak_flops("NVIDIA L40", true) == 181e12);
  CHECK(peak_flops("NVIDIA L4", true) == 121e12);
  CHECK(peak_flops("NVIDIA A10G", true) == 70e12);
  CHECK(peak_flops("NVIDIA GeForce RTX 4090", true) == 165.2e12);
  CHECK(peak_flops("NVIDIA GeForce RTX 4090 Laptop GPU", true) == 0);
  CHECK(peak_flops("NVIDIA GeForce RTX 3090 Ti", true) == 0);
  CHECK(peak_flops("Tesla V100-SXM2-16GB", true) == 0);
  CHECK(peak_flops("", true) == 0);
  CHECK(peak_bandwidth("NVIDIA H200") == 4.8e12);
  CHECK(peak_bandwidth("NVIDIA H100 80GB HBM3") == 3.35e12);
  CHECK(peak_bandwidth("NVIDIA A100-SXM4-40GB") == 1.555e12);
  CHECK(peak_bandwidth("NVIDIA A100-SXM4-80GB") == 2.039e12);
  CHECK(peak_bandwidth("") == 0);
}

}  // namespace bv::test
