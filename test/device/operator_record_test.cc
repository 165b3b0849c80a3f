#include "lib/device/operator_record.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace bv::test {

TEST_CASE("a record has the same calls for few numbers and for many, which threads share") {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  using Calls = std::vector<std::pair<std::string, double>>;
  const auto calls_of = [](int64_t numbers, bool listed) {
    const at::Tensor x = at::ones({numbers});
    const OperatorRecorder recorder(c10::kCPU);
    x.sum();
    x.zero_();
    Calls calls;
    for (const OperatorCall& call : recorder.calls())
      if (call.listed || !listed) calls.emplace_back(call.name, call.bytes);
    return calls;
  };
  // The sum first fills its result.
  const auto expected = [](double numbers) {
    return Calls{{"aten::fill_", 4}, {"aten::sum", 4 * numbers + 4}, {"aten::fill_", 4 * numbers}};
  };
  CHECK(calls_of(100, /*listed=*/false) == expected(100));
  CHECK(calls_of(100'000, /*listed=*/false) == expected(100'000));
  // LibTorch fills little memory without an operator.
  CHECK(calls_of(100, /*listed=*/true).size() == 2);
  CHECK(calls_of(100'000, /*listed=*/true).size() == 3);
  at::set_num_threads(threads);
}

TEST_CASE("a record tells the calls of the update from the others") {
  const at::Tensor x = at::ones({4});
  const OperatorRecorder recorder(c10::kCPU);
  x.add(1);
  {
    const UpdateCalls update;
    x.mul(2);
  }
  x.sub(1);
  std::vector<bool> update;
  for (const OperatorCall& call : recorder.calls()) update.push_back(call.update);
  CHECK(update == std::vector<bool>{false, true, false});
}

}  // namespace bv::test
