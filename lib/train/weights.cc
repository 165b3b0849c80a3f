#include "lib/train/weights.h"

#include <c10/core/GradMode.h>

#include <regex>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/ckpt/weights_file.h"
#include "lib/report/log.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// Names that keep their fresh values.
class Exceptions {
 public:
  Exceptions(const std::vector<std::string>& patterns, const std::string& origin) {
    for (const std::string& pattern : patterns) {
      try {
        patterns_.push_back({pattern, std::regex(pattern), false});
      } catch (const std::regex_error&) {
        throw Error(Exit::usage, origin,
                    fmt::format("model_load.dont_load: '{}' is no regular expression", pattern));
      }
    }
  }
  bool match(const std::string& name) {
    bool any = false;
    for (Pattern& pattern : patterns_) {
      if (!std::regex_match(name, pattern.regex)) continue;
      any = pattern.used = true;
    }
    return any;
  }
  void warn_unused() const {
    for (const Pattern& pattern : patterns_) {
      if (!pattern.used) log::warn("model_load.dont_load: '{}' matches no name", pattern.text);
    }
  }

 private:
  struct Pattern {
    std::string text;
    std::regex regex;
    bool used;
  };
  std::vector<Pattern> patterns_;
};

struct Copy {
  std::string name;
  at::Tensor to, from;
};

// What the file's array must be to fill `target`; adds to `problems` where it can't be.
void plan_copy(const std::string& name, const at::Tensor& target, at::Tensor value,
               std::vector<Copy>& copies, std::vector<std::string>& problems) {
  if (!at::isFloatingType(value.scalar_type()) && at::isFloatingType(target.scalar_type())) {
    problems.push_back(
        fmt::format("{} is of type {} in the file", name, c10::toString(value.scalar_type())));
    return;
  }
  if (value.sizes() != target.sizes() && name == "pos_embedding") {
    try {
      value = resample_positions(value, target.sizes().vec(), "");
    } catch (const Error& error) {
      problems.push_back(std::string(error.what()).substr(std::string_view("error: ").size()));
      return;
    }
  }
  if (value.sizes() != target.sizes()) {
    problems.push_back(fmt::format("{} has shape {} in the file but {} in the model", name,
                                   format_shape(value.sizes()), format_shape(target.sizes())));
    return;
  }
  copies.push_back({name, target, value});
}

}  // namespace

void load_weights(const std::string& path, Model& model,
                  const std::vector<std::string>& dont_load) {
  NamedTensors targets;
  for (const auto& [name, parameter] : named_parameters(model)) targets.emplace(name, parameter);
  for (const auto& [name, buffer] : named_buffers(model)) targets["buffers/" + name] = buffer;
  Shapes wanted;
  uint64_t bytes = 0;
  for (const auto& [name, target] : targets) {
    wanted[name] = target.sizes().vec();
    bytes += target.nbytes();
  }

  Exceptions exceptions(dont_load, path);
  const NamedTensors file = adapt_layout(read_weights(path, bytes), wanted, path);
  std::vector<Copy> copies;
  std::vector<std::string> missing, unexpected, problems;
  for (const auto& [name, target] : targets) {
    if (exceptions.match(name)) continue;
    const auto found = file.find(name);
    if (found == file.end())
      missing.push_back(name);
    else
      plan_copy(name, target, found->second, copies, problems);
  }
  for (const auto& [name, value] : file) {
    if (!targets.count(name) && !exceptions.match(name)) unexpected.push_back(name);
  }
  if (!missing.empty()) problems.push_back("missing in the file: " + join(missing, ", "));
  if (!unexpected.empty()) problems.push_back("not in the model: " + join(unexpected, ", "));
  if (!problems.empty()) {
    throw Error(
        Exit::usage, path,
        join(problems, "; ") + " (model_load: {dont_load: [PATTERN, ...]} leaves names out)");
  }
  exceptions.warn_unused();
  const c10::AutoGradMode no_grad(false);
  for (Copy& copy : copies) {
    copy.to.copy_(copy.from);
    const at::Tensor& old = file.at(copy.name);
    if (old.sizes() != copy.to.sizes())
      log::info("{} was resampled from {} to {}", copy.name, format_shape(old.sizes()),
                format_shape(copy.to.sizes()));
  }
}

}  // namespace bv
