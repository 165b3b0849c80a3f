#include "lib/model/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/log_softmax.h>

namespace bv {
namespace {

// -sum_c [y log sigmoid(z) + (1 - y) log sigmoid(-z)]
class SigmoidXent : public Loss {
 public:
  explicit SigmoidXent(const Config&) {}
  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels) const override {
    return at::binary_cross_entropy_with_logits(logits, labels, {}, {}, at::Reduction::None)
        .sum(-1);
  }
};

// -sum_c y log_softmax(z)
class SoftmaxXent : public Loss {
 public:
  explicit SoftmaxXent(const Config&) {}
  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels) const override {
    return -(labels * at::log_softmax(logits, -1)).sum(-1);
  }
};

const Register<Loss, SigmoidXent> sigmoid_xent("sigmoid_xent");
const Register<Loss, SoftmaxXent> softmax_xent("softmax_xent");

}  // namespace
}  // namespace bv
