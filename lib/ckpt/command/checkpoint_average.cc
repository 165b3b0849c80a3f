#include "lib/ckpt/command/checkpoint_average.h"

#include <map>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/tensor_form.h"
#include "lib/util/error.h"

namespace bv {
namespace {

using Forms = std::map<std::string, std::string>;  // by tensor name

Forms forms_of(const NamedTensors& tensors) {
  Forms forms;
  for (const auto& [name, tensor] : tensors) forms[name] = tensor_form(tensor);
  return forms;
}

// Throws unless the checkpoints have tensors of the same names and forms.
void require_same(const Forms& first, const std::string& first_folder, const Forms& forms,
                  const std::string& folder) {
  Forms all = first;
  all.insert(forms.begin(), forms.end());
  const auto form = [](const Forms& in, const std::string& name) {
    const auto found = in.find(name);
    return found == in.end() ? "missing" : found->second;
  };
  for (const auto& [name, unused] : all) {
    if (form(first, name) == form(forms, name)) continue;
    throw Error(Exit::usage, folder,
                fmt::format("does not fit {}: '{}' is {} here, and {} there", first_folder, name,
                            form(forms, name), form(first, name)));
  }
}

// Whether a tensor is part of a regression's target scale (lib/model/target_scale.h), or the
// average of one.
bool is_target_scale(const std::string& name) {
  return name.starts_with("buffers/targets/") || name.starts_with("ema/targets/");
}

// Throws unless the checkpoints have the same target scale. The last layer learns values in units
// of its scale, so the mean of last layers with different scales is meaningless.
void require_same_scale(const NamedTensors& first, const std::string& first_folder,
                        const NamedTensors& tensors, const std::string& folder) {
  for (const auto& [name, tensor] : tensors) {
    if (!is_target_scale(name) || tensor.equal(first.at(name))) continue;
    throw Error(Exit::usage, folder,
                fmt::format("does not fit {}: '{}' has other values, so the last layers predict in "
                            "different units and cannot be averaged",
                            first_folder, name));
  }
}

}  // namespace

Restored average_checkpoints(const std::vector<std::string>& folders, bool ema) {
  check(!folders.empty(), "the mean of no checkpoints");
  ReadOptions options;
  options.wanted = wanted_weights(/*averages=*/ema);
  Restored last;
  Forms forms;
  NamedTensors sums, scale;
  for (const std::string& folder : folders) {
    last = Checkpointer::load(folder, options);
    if (forms.empty()) {
      forms = forms_of(last.tensors);
      for (const auto& [name, tensor] : last.tensors)
        if (is_target_scale(name)) scale.emplace(name, tensor);
    }
    require_same(forms, folders.front(), forms_of(last.tensors), folder);
    require_same_scale(scale, folders.front(), last.tensors, folder);
    for (const auto& [name, tensor] : last.tensors) {
      if (!at::isFloatingType(tensor.scalar_type()) || is_target_scale(name)) continue;
      const at::Tensor values = tensor.to(at::kDouble);
      at::Tensor& sum = sums[name];
      sum = sum.defined() ? sum.add(values) : values;
    }
  }
  for (const auto& [name, sum] : sums) {
    at::Tensor& mean = last.tensors.at(name);
    mean = sum.div(static_cast<double>(folders.size())).to(mean.scalar_type());
  }
  return last;
}

}  // namespace bv
