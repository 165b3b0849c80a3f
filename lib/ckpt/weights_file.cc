#include "lib/ckpt/weights_file.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/formats/zip.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "lib/util/folder_entries.h"
#include "lib/util/json_kind.h"
#include "lib/util/limits.h"
#include "lib/util/mapped_file.h"
#include "lib/util/regular_file.h"
#include "lib/util/text.h"
#include "lib/util/wrong_file.h"

namespace bv {

namespace {

namespace fs = std::filesystem;

constexpr const char* kParams = "params/";
constexpr const char* kBuffers = "buffers/";
constexpr const char* kEma = "ema";  // the subtree of a checkpoint with the averages
constexpr const char* kOldParams = "opt/target/";
constexpr const char* kFolderFile = "/model.safetensors";
constexpr std::string_view kSeparators = "/.";
constexpr std::array<std::string_view, 5> kPickles = {".pth", ".pt", ".bin", ".ckpt", ".pkl"};

[[noreturn]] void refuse_pickle(const std::string& file) {
  throw Error(Exit::usage, file,
              "pickled weights can run code and are never loaded; convert them once in Python: "
              "safetensors.torch.save_file(torch.load(F, weights_only=True), 'F.safetensors') "
              "(docs/from-timm.md has the line for checkpoints of timm's train.py)");
}

// "file.npz:img" split in two, if a file "file.npz" exists, but no file "file.npz:img".
// "workdir:best" is a checkpoint folder, and "workdir:best:ema" a subtree of it.
struct Target {
  std::string file, subtree;
};
Target split_subtree(const std::string& path) {
  refuse_remote_path(path);
  if (const std::string whole = checkpoint_path(path); file_exists(whole)) return {whole, ""};
  const size_t colon = path.rfind(':');
  const std::string file = checkpoint_path(path.substr(0, colon));
  if (colon == std::string::npos || !file_exists(file)) {
    const bool file_name = fs::path(path).has_extension();
    throw Error(Exit::usage, path,
                fmt::format("no such weights file or checkpoint{}",
                            file_name ? ""
                                      : " (big_vision's short names of published files are not "
                                        "looked up: download the file and give its path)"));
  }
  std::string subtree = path.substr(colon + 1);
  while (subtree.ends_with('/')) subtree.pop_back();
  if (subtree.empty()) throw Error(Exit::usage, path, "a name must follow the ':'");
  return {file, subtree};
}

bool any_below(const std::vector<std::string>& names, const std::string& prefix) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.starts_with(prefix); });
}

// A selection of a file's names: those with `prefix`, which is replaced by `as`.
struct Part {
  std::string prefix, as;
};

// Returns the first `levels` parts of each name below `root` that has more.
std::set<std::string> subtrees(const std::vector<std::string>& names, const std::string& root,
                               int64_t levels) {
  std::set<std::string> found;
  for (const std::string& name : names) {
    if (!name.starts_with(root)) continue;
    size_t end = root.size();
    for (int64_t i = 0; i < levels && end != std::string::npos; ++i) {
      end = name.find_first_of(kSeparators, i == 0 ? end : end + 1);
    }
    if (end != std::string::npos) found.insert(name.substr(root.size(), end - root.size()));
  }
  return found;
}

// Returns " (did you mean 'img'?); it has img, txt": the subtrees at the level of `subtree`.
std::string subtrees_near(const std::string& subtree, const std::vector<std::string>& names,
                          const std::string& root) {
  constexpr size_t kMany = 12;
  const auto separators = std::count_if(subtree.begin(), subtree.end(), [](char c) {
    return kSeparators.find(c) != std::string_view::npos;
  });
  std::set<std::string> all = subtrees(names, root, separators + 1);
  if (all.empty()) all = subtrees(names, root, 1);
  all.merge(subtrees(names, "", separators + 1));
  if (all.empty()) return "; it has no subtrees";
  std::vector<std::string> known(all.begin(), all.end());
  const std::string near = nearest(subtree, known);
  const size_t more = known.size() - std::min(known.size(), kMany);
  known.resize(known.size() - more);
  return fmt::format("{}; it has {}{}", near.empty() ? "" : " (did you mean '" + near + "'?)",
                     join(known, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

std::vector<Part> parts_of(const std::vector<std::string>& names, const Target& target) {
  std::vector<Part> roots;
  if (any_below(names, kParams)) {
    roots = {{kParams, ""}, {kBuffers, kBuffers}};
  } else if (any_below(names, kOldParams)) {
    roots = {{kOldParams, ""}};
  } else {
    roots = {{"", ""}};
  }
  if (target.subtree.empty()) return roots;
  for (const std::string& root : {roots[0].prefix, std::string()}) {
    for (const char* separator : {"/", "."}) {
      const std::string prefix = root + target.subtree + separator;
      if (!any_below(names, prefix)) continue;
      std::vector<Part> parts = {{prefix, ""}};
      if (root == kParams) parts.push_back({kBuffers + target.subtree + separator, kBuffers});
      return parts;
    }
  }
  throw Error(Exit::usage, target.file,
              fmt::format("the file has nothing below '{}'{}", target.subtree,
                          subtrees_near(target.subtree, names, roots[0].prefix)));
}

NamedTensors select(const NamedTensors& all, const Target& target) {
  std::vector<std::string> names;
  for (const auto& [name, value] : all) names.push_back(name);
  NamedTensors selected;
  for (const Part& part : parts_of(names, target)) {
    for (const auto& [name, value] : all) {
      if (!name.starts_with(part.prefix)) continue;
      const std::string rest = name.substr(part.prefix.size());
      // The subtree ema/ of a checkpoint holds the averages of both parameters and buffers.
      const bool buffer =
          part.as.empty() && !target.subtree.empty() && all.count(kBuffers + rest) > 0;
      selected[(buffer ? kBuffers : part.as) + rest] = value;
    }
  }
  if (target.subtree != kEma) return selected;
  // Tensors that do not change have no average: frozen parameters and the target scale.
  for (const auto& [name, value] : all) {
    if (name.starts_with(kParams))
      selected.emplace(name.substr(std::string_view(kParams).size()), value);
    if (name.starts_with(kBuffers)) selected.emplace(name, value);
  }
  return selected;
}

// The entries of an npz file, and their names without ".npy".
struct ZipNames {
  std::vector<ZipEntry> entries;
  std::vector<std::string> names;
};
ZipNames read_zip_names(const std::string& file) {
  constexpr std::string_view kSuffix = ".npy";
  ZipNames zip;
  {
    const MappedFile mapping(file);
    zip.entries = read_zip_directory(mapping.bytes(), file);
  }
  for (const ZipEntry& entry : zip.entries) {
    if (entry.name.ends_with(".pkl")) refuse_pickle(file);  // a file of torch.save()
    zip.names.push_back(entry.name.substr(
        0, entry.name.size() - (entry.name.ends_with(kSuffix) ? kSuffix.size() : 0)));
  }
  return zip;
}

NamedTensors read_zip(const Target& target, uint64_t model_bytes) {
  const auto [entries, names] = read_zip_names(target.file);
  NamedTensors selected;
  uint64_t bytes = 0;
  for (const Part& part : parts_of(names, target)) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (names[i].starts_with(part.prefix)) bytes += entries[i].bytes;
    }
    const uint64_t most = limits::kWeightsBytes + limits::kWeightsPerModel * model_bytes;
    if (bytes > most) {
      const bool known = model_bytes != limits::kUnknownModelBytes;
      throw Error(Exit::usage, target.file,
                  fmt::format("its arrays would unpack to {}, {} {}",
                              human_bytes(static_cast<double>(bytes)),
                              known ? "but the model's parameters take"
                                    : "but while the model's size is not known, the limit is",
                              human_bytes(static_cast<double>(known ? model_bytes : most))));
    }
    for (auto& [name, value] : read_npz(target.file, part.prefix, NpzSize::checked)) {
      selected[part.as + name] = std::move(value);
    }
  }
  return selected;
}

// Returns the first bytes of a file, fewer if it is shorter.
std::string head_of(const std::string& file) {
  std::string head(64, '\0');
  head.resize(RegularFile(file).read(head.data(), head.size(), 0));
  return head;
}

enum class Format { safetensors, npz };

// Returns the format of the file of `target`. If that is a folder, replaces it by the file in it.
Format find_format(Target& target) {
  if (folder_exists(target.file)) target.file += kFolderFile;
  const std::string head = head_of(target.file);
  const bool pickle_name = std::any_of(kPickles.begin(), kPickles.end(), [&](std::string_view end) {
    return target.file.ends_with(end);
  });
  if (pickle_name) refuse_pickle(target.file);
  if (target.file.ends_with(".onnx")) {
    throw Error(Exit::usage, target.file,
                "an ONNX file holds a graph for other programs, which is not read back; give the "
                "*.safetensors or *.npz of the same model (bvtrain export)");
  }
  if (head.size() > 8 && head[8] == '{') return Format::safetensors;
  if (head.starts_with("PK\3\4") || head.starts_with("PK\5\6")) return Format::npz;
  refuse_wrong_file(head, target.file);
  // The content does not show the format, so the file is damaged. Its name selects the reader that
  // reports that.
  if (target.file.ends_with(".safetensors")) return Format::safetensors;
  if (target.file.ends_with(".npz")) return Format::npz;
  if (head.starts_with('\x80')) refuse_pickle(target.file);
  throw Error(Exit::usage, target.file,
              "neither an npz nor a safetensors file nor a folder with a checkpoint");
}

// Returns whether the folder of the weights file `file` holds other weights, or cannot be listed.
bool has_other_weights(const fs::path& file) {
  bool any = false;
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  try {
    for_each_entry(folder, [&](const FolderEntry& entry) {
      const fs::path name = entry.name;
      const bool weights = name.extension() == ".safetensors" || name.extension() == ".npz";
      any = any || (entry.file && weights && name != file.filename());
    });
  } catch (const Error&) {
    return true;
  }
  return any;
}

// Returns whether `object`, read from a JSON file, has keys that timm or Hugging Face writes into
// config.json or preprocessor_config.json.
bool describes_weights(const nlohmann::json& object) {
  constexpr std::array<const char*, 6> kKeys = {"architecture", "architectures",
                                                "model_type",   "image_mean",
                                                "do_normalize", "image_processor_type"};
  return object.is_object() && std::any_of(kKeys.begin(), kKeys.end(),
                                           [&](const char* key) { return object.contains(key); });
}

// The file `name` next to the weights at `path`: see json_beside() and json_not_read().
struct Description {
  nlohmann::json content = nlohmann::json::object();
  std::string not_read = {};
};

Description description_beside(const std::string& path, const std::string& name) {
  const std::string file = without_subtree(path);
  const bool folder = folder_exists(file);
  if (is_checkpoint(file)) return {};
  const bool usual = folder || "/" + fs::path(file).filename().string() == kFolderFile;
  const std::string other =
      ((folder ? fs::path(file) : fs::path(file).parent_path()) / name).string();
  if (!usual && !file_exists(other)) return {};
  if (!usual && has_other_weights(file)) {
    return {.not_read =
                "the folder holds other weights too (move the two files to a folder of their own)"};
  }
  std::optional<std::string> text;
  try {
    text = read_file_if_any(other, limits::kConfigBytes);
  } catch (const Error&) {
    if (usual) throw;
    return {.not_read = "it cannot be read"};
  }
  if (!text) return {};
  Description found;
  found.content = shallow_json(*text);
  if (!usual && !describes_weights(found.content))
    return {.not_read = "it has none of the keys that timm or Hugging Face writes"};
  if (!found.content.is_object()) {
    throw Error(Exit::usage, other,
                "is not a JSON object, which should describe the weights in the same folder; "
                "download it again, or move it away");
  }
  return found;
}

}  // namespace

std::string without_subtree(const std::string& path) { return split_subtree(path).file; }

bool is_checkpoint(const std::string& given) {
  const std::string path = checkpoint_path(given);
  if (!folder_exists(path)) return false;
  if (!file_exists(path + kFolderFile)) return true;
  // The file may be an export of the run: its checkpoints count, which may be newer.
  return holds_checkpoint(path) || !CkptFolder::at(path).steps().empty();
}

std::string advice_for_weights_in(const std::string& path) {
  if (!folder_exists(path) || is_checkpoint_folder(path) || !CkptFolder::at(path).steps().empty())
    return "";
  if (file_exists(path + kFolderFile + ".index.json"))
    return "its weights are in several files: save them as one model.safetensors";
  std::vector<std::string> files;
  for_each_entry(path, [&](const FolderEntry& entry) {
    const std::string suffix = fs::path(entry.name).extension().string();
    const bool weights = suffix == ".safetensors" || suffix == ".npz" ||
                         std::find(kPickles.begin(), kPickles.end(), suffix) != kPickles.end();
    if (entry.file && weights) files.push_back((fs::path(path) / entry.name).string());
  });
  std::sort(files.begin(), files.end());
  return files.empty() ? "" : "give the file itself: " + short_list(files);
}

NamedTensors read_weights(const std::string& path, uint64_t model_bytes) {
  Target target = split_subtree(path);
  if (is_checkpoint(target.file)) {
    const Wanted wanted = wanted_weights(/*averages=*/!target.subtree.empty());
    return select(Checkpointer::load(target.file, {.wanted = wanted}).tensors, target);
  }
  if (find_format(target) == Format::npz) return read_zip(target, model_bytes);
  return select(read_safetensors(target.file), target);
}

std::optional<uint64_t> peek_weights(const std::string& path) {
  Target target = split_subtree(path);
  if (is_checkpoint(target.file)) return std::nullopt;
  std::vector<std::string> names;
  uint64_t bytes = 0;
  if (find_format(target) == Format::npz) {
    ZipNames zip = read_zip_names(target.file);
    for (const ZipEntry& entry : zip.entries) bytes += entry.bytes;
    names = std::move(zip.names);
  } else {
    for (const auto& entry : read_safetensors_header(target.file).entries) {
      names.push_back(entry.name);
      bytes += entry.end - entry.begin;
    }
  }
  parts_of(names, target);
  return bytes;
}

nlohmann::json json_beside(const std::string& path, const std::string& name) {
  return description_beside(path, name).content;
}

std::string json_not_read(const std::string& path, const std::string& name) {
  return description_beside(path, name).not_read;
}

Metadata read_weights_metadata(const std::string& path) {
  Target target = split_subtree(path);
  if (is_checkpoint(target.file)) return {};
  if (find_format(target) == Format::safetensors)
    return read_safetensors_header(target.file).metadata;
  const auto texts = read_npz_text(target.file, kModelCardArray);
  if (!texts) return {};
  if (texts->size() != 1) {
    throw Error(
        Exit::usage, target.file,
        fmt::format("its array '{}' holds {} strings, expected 1", kModelCardArray, texts->size()));
  }
  return parse_metadata_json(texts->front(), target.file);
}

}  // namespace bv
