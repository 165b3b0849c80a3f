#include "lib/model/remat.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <utility>

namespace bv {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What backward needs besides the inputs: the function, and the state of the pass before the call.
struct Recomputation : torch::CustomClassHolder {
  Recomputation(RematFunction function, const Pass& pass)
      : function(std::move(function)), pass(pass) {
    // These point to the caller's objects, which may no longer exist in backward.
    this->pass.features = nullptr;
    this->pass.wanted = nullptr;
    this->pass.macs = nullptr;
  }
  const RematFunction function;
  Pass pass;
};

class Remat : public torch::autograd::Function<Remat> {
 public:
  static at::Tensor forward(AutogradContext* context, at::TensorList inputs,
                            const c10::intrusive_ptr<Recomputation>& recipe, Pass* pass) {
    context->save_for_backward(inputs.vec());
    context->saved_data["recipe"] = c10::IValue::make_capsule(recipe);
    return recipe->function(inputs.vec(), *pass);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto recipe = c10::static_intrusive_pointer_cast<Recomputation>(
        context->saved_data["recipe"].toCapsule());
    variable_list inputs = context->get_saved_variables(), wanted;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool wants = context->needs_input_grad(i);
      inputs[i] = inputs[i].detach().requires_grad_(wants);
      if (wants) wanted.push_back(inputs[i]);
    }
    Pass pass = recipe->pass;
    at::Tensor y;
    {
      const c10::AutoGradMode grad_mode(true);
      y = recipe->function(inputs, pass);
    }
    const variable_list found = torch::autograd::grad({y}, wanted, {grads[0]},
                                                      /*retain_graph=*/false,
                                                      /*create_graph=*/false,
                                                      /*allow_unused=*/true);
    variable_list all;
    size_t next = 0;
    for (const at::Tensor& input : inputs) {
      all.push_back(input.requires_grad() ? found[next++] : at::Tensor());
    }
    all.resize(all.size() + 2);  // `recipe` and `pass` have no gradients
    return all;
  }
};

}  // namespace

at::Tensor remat(const RematFunction& function, const std::vector<at::Tensor>& inputs, Pass& pass) {
  const bool wanted = std::any_of(inputs.begin(), inputs.end(),
                                  [](const at::Tensor& input) { return input.requires_grad(); });
  if (pass.features || !wanted || !c10::GradMode::is_enabled()) return function(inputs, pass);
  return Remat::apply(at::TensorList(inputs), c10::make_intrusive<Recomputation>(function, pass),
                      &pass);
}

}  // namespace bv
