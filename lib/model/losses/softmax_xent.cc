// softmax_xent: -sum_c y log_softmax(z).
#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>

#include "lib/config/key_table.h"
#include "lib/model/loss.h"

namespace bv {
namespace {

const KeyTable softmax_xent_keys(
    "loss: softmax_xent",
    {"Cross-entropy of the softmax over classes: -sum(y * log(softmax(z))) with "
     "labels y and logits z. Use it if each image has exactly one class; labels "
     "may be soft, as with mixup and `label_smoothing`.",
     "loss: softmax_xent", "utils.py softmax_xent"},
    {});

class SoftmaxXent : public Loss {
 public:
  explicit SoftmaxXent(const Config&) {}
  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels) const override {
    return -(labels * at::log_softmax(logits, -1)).sum(-1);
  }
};

const Register<Loss, SoftmaxXent> registered_softmax_xent("softmax_xent");

}  // namespace
}  // namespace bv
