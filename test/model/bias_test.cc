// Compares the kernels for biases with their formulas in float64.
#include "lib/model/kernels/bias.h"

#include "test/model/against_formula.h"

namespace bv::test {

TEST_CASE("the sums of rows and of columns are exact to the rounding of float32") {
  const Threads three(3);
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {1, 1, 1}, {2, 3, 5}, {7, 11, 64}, {3, 200, 129}, {4, 5, 33'000}, {700, 3, 200}}) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      INFO(shape << " in " << type);
      const at::Tensor x = noise(shape, type, 1) + 0.5, exact = x.to(at::kDouble);
      CHECK(errors({sum_rows(x)}, {exact.sum(at::IntArrayRef{0, 2})})[0] < 1e-6);
      const at::Tensor rows = x.flatten(0, 1), exact_rows = exact.flatten(0, 1);
      CHECK(errors({sum_columns(rows)}, {exact_rows.sum(0)})[0] < 1e-6);
      const at::Tensor sums = sum_columns(rows);
      CHECK(sum_columns(rows.t().contiguous().t()).equal(sums));
      const Threads one(1);
      CHECK(sum_columns(rows).equal(sums));
    }
  }
}

TEST_CASE("the bias of rows is added in float32 and rounded once") {
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{1, 1, 1}, {2, 3, 5}, {7, 11, 64}, {3, 200, 129}}) {
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      INFO(shape << " in " << type);
      const at::Tensor given = noise(shape, type, 1), bias = noise({shape[1]}, at::kFloat, 2);
      const at::Tensor y = given.clone();
      add_bias_of_rows(y, bias);
      CHECK(y.equal((given.to(at::kFloat) + bias.unsqueeze(1)).to(type)));
    }
  }
}

}  // namespace bv::test
