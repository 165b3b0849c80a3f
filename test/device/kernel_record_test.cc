#include "lib/device/kernel_record.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <catch2/catch.hpp>

namespace bv {

TEST_CASE(
    "a kernel record has the operators between its start and its stop, on the trace's clock") {
  const at::Tensor x = at::ones({64, 64});
  at::mm(x, x);
  const int64_t begin = trace::now();
  start_kernel_record(c10::kCPU);
  at::mm(x, x);
  trace::Record record;
  const int64_t busy = stop_kernel_record(c10::kCPU, record);
  const int64_t end = trace::now();
  const auto is_mm = [](const trace::Event& event) { return event.name == "aten::mm"; };
  REQUIRE(std::count_if(record.events.begin(), record.events.end(), is_mm) == 1);
  const auto event = std::find_if(record.events.begin(), record.events.end(), is_mm);
  constexpr int64_t kClocks = 1'000'000;  // nanoseconds by which two clocks may differ
  CHECK(event->begin >= begin - kClocks);
  CHECK(event->end >= event->begin);
  CHECK(event->end <= end + kClocks);
  CHECK(event->thread < 0);
  REQUIRE(record.threads.size() >= 1);
  CHECK(record.threads[0].second.starts_with("cpu stream "));
  CHECK(busy >= event->end - event->begin);
  CHECK(busy <= end - begin);
}

}  // namespace bv
