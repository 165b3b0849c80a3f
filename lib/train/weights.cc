#include "lib/train/weights.h"

#include <regex>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/npz.h"
#include "lib/ckpt/safetensors.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr size_t kNamesShown = 8;

// The entries below `prefix`, without it; empty if there are none.
NamedTensors subtree(const NamedTensors& all, const std::string& prefix) {
  NamedTensors found;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), tensor);
  }
  return found;
}

NamedTensors read_any(const std::string& path) {
  const size_t npz = path.find(".npz");
  if (npz != std::string::npos) {
    const std::string file = path.substr(0, npz + 4);
    NamedTensors all = read_npz(file);
    for (const char* root : {"params/", "opt/target/"}) {
      if (NamedTensors below = subtree(all, root); !below.empty()) {
        all = std::move(below);
        break;
      }
    }
    if (path.size() == file.size()) return all;
    if (path[file.size()] != ':')
      throw Error(Exit::usage, path, "expected FILE.npz or FILE.npz:sub/tree");
    all = subtree(all, path.substr(file.size() + 1) + "/");
    if (all.empty()) throw Error(Exit::usage, path, "the file has no such subtree");
    return all;
  }
  if (path.ends_with(".safetensors")) return read_safetensors(path);
  for (const char* pickle : {".pth", ".pt", ".bin", ".pkl"}) {
    if (path.ends_with(pickle)) {
      throw Error(Exit::usage, path,
                  "pickled weights can run code and are not read; convert them in Python: "
                  "safetensors.torch.save_file(torch.load(F, weights_only=True), 'F.safetensors')");
    }
  }
  return subtree(Checkpointer::load(path).tensors, "params/");
}

std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> shown(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesShown)));
  std::string text = join(shown, ", ");
  if (names.size() > shown.size()) text += fmt::format(" and {} more", names.size() - shown.size());
  return text;
}

}  // namespace

void load_weights(const std::string& path, const FlatParams& params,
                  const std::vector<std::string>& dont_load) {
  std::vector<std::regex> patterns;
  for (const std::string& pattern : dont_load) patterns.emplace_back(pattern);
  const auto skipped = [&](const std::string& name) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::regex& p) { return std::regex_match(name, p); });
  };
  const NamedTensors file = read_any(path);
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  std::vector<std::string> missing, unexpected, problems;
  NamedTensors wanted;
  for (auto& [name, view] : params.views(params.data(), "")) {
    wanted.emplace(name, view);
    if (skipped(name)) continue;
    const auto found = file.find(name);
    if (found == file.end()) {
      missing.push_back(name);
    } else if (found->second.sizes() != view.sizes()) {
      problems.push_back(fmt::format("{} has shape ({}) in the file but ({}) in the model", name,
                                     fmt::join(found->second.sizes(), ", "),
                                     fmt::join(view.sizes(), ", ")));
    } else {
      copies.emplace_back(view, found->second);
    }
  }
  for (const auto& [name, tensor] : file) {
    if (!wanted.count(name) && !skipped(name)) unexpected.push_back(name);
  }
  if (!missing.empty()) problems.push_back("missing in the file: " + listed(missing));
  if (!unexpected.empty()) problems.push_back("not in the model: " + listed(unexpected));
  if (!problems.empty()) {
    throw Error(
        Exit::usage, path,
        join(problems, "; ") + " (model_load: {dont_load: [PATTERN, ...]} leaves names out)");
  }
  for (auto& [view, value] : copies) view.copy_(value);
}

}  // namespace bv
