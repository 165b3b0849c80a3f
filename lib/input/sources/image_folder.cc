// image_folder: JPEG, PNG and WebP files, in one folder per class.
//
// The classes are the names of the class folders of all splits, sorted by bytes or in the order of
// the key `classes`. Folders and the files in them are sorted by bytes. Examples: "image" the
// encoded file as 1-d uint8, "label" int64 or another label read from the folder name
// (common/folder_labels.h). With skip_errors, a class folder without images is one unreadable
// example, "train/cat/", without a label.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>

#include "lib/config/key_table.h"
#include "lib/input/class_map.h"
#include "lib/input/detect_data.h"
#include "lib/input/path.h"
#include "lib/input/source.h"
#include "lib/input/sources/common/file_bytes.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/input/sources/common/folder_labels.h"
#include "lib/input/sources/common/folder_notes.h"
#include "lib/util/file.h"
#include "lib/util/folder_entries.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable image_folder_keys(
    "input.data: image_folder",
    {"JPEG, PNG and WebP files in one folder per class. Each example has an `image`, which an op "
     "such as `decode` must decode, and a `label`. The label is the index of the class folder, "
     "from 0, in the sorted list of the class folders of all splits; `label`, `separator` and "
     "`classes` change this. A broken file and a class folder without images are errors at the "
     "start, unless `skip_errors` allows them.",
     "name: image_folder\ndata_dir: data/flowers\nsplit: train"},
    {{"data_dir", "string", "required",
      "Folder on a local or mounted disk. If one of its folders is called train, val or test, or a "
      "variant (training, valid, validation, dev, eval, evaluation, testing), and has class "
      "folders in it, the layout is <split>/<class>/<file>, as in train/cat/1.jpg, and all folders "
      "are splits. Otherwise the layout is <class>/<file>, and the only split is train.",
      "data/flowers"},
     {"label", "'class' | 'number'", "class",
      "What a folder name means: a class, or a number such as an age, which is a regression "
      "target. `label` is then this number as float32.",
      "number"},
     {"separator", "string", "none",
      "Separator of several labels in a folder name, such as `_` in `blue_dress`. Examples then "
      "have `labels`: 1 for each of these classes and 0 for the others, or, with `label: number`, "
      "the numbers.",
      "_"},
     {"classes", "list of string", "[]",
      "Class names in the order of their numbers, from 0. The names are those of the class folders "
      "of all splits; a folder that is not listed is an error, as is a name without a folder. By "
      "default, the names are sorted.",
      "[cat2, cat10, Dog]"}});

// Reads the key `classes`. `numbers`: the names of the folders are regression targets.
std::vector<std::string> class_list(const Config& config, bool numbers) {
  const auto classes = config.get<std::vector<std::string>>("classes", {});
  if (classes.empty()) return classes;
  if (numbers) config.problem("classes", "is for classes, but `label` says that names are numbers");
  std::set<std::string> seen;
  for (const std::string& name : classes) {
    if (!seen.insert(name).second)
      config.problem("classes", fmt::format("has '{}' twice", printable(name)));
  }
  // Dataset::use_classes() takes such names for the numbers of the classes.
  if (const auto order = names_by_number(classes); !order.empty() && order != classes) {
    config.problem("classes",
                   "lists only integers, including 0, so each name is itself the class number, and "
                   "the list cannot change the order; leave `classes` out");
  }
  return classes;
}

FolderLabelKeys label_keys(const Config& config) {
  FolderLabelKeys keys;
  keys.numbers = config.word("label", "class", {"class", "number"}) == "number";
  keys.separator = config.maybe<std::string>("separator");
  if (keys.separator && keys.separator->empty()) config.problem("separator", "is empty");
  keys.label_place = config.place("label");
  keys.separator_place = config.place("separator");
  keys.classes = class_list(config, keys.numbers);
  keys.classes_place = config.place("classes");
  return keys;
}

// Returns whether the layout of `dir`, which holds the folders `top`, is <split>/<class>/<file>.
bool has_split_folders(const std::string& dir, const std::vector<std::string>& top) {
  return std::any_of(top.begin(), top.end(), [&](const std::string& name) {
    return is_split_name(name) && !list_folders(dir + "/" + name).empty();
  });
}

class ImageFolder : public Source {
 public:
  ImageFolder(const Config& config, const SourceEnv& env)
      : dir_{require_path(config, "data_dir"), config.place("data_dir")},
        label_keys_(label_keys(config)),
        keep_broken_(env.keep_broken) {}

  std::vector<std::string> splits() const override {
    std::vector<std::string> names;
    for (const Split& split : layout().splits) names.push_back(split.name);
    return names;
  }
  int64_t size(size_t split) const override { return index(split).size(); }
  std::vector<std::string> class_names() const override { return layout().labels.class_names(); }
  bool sorted_by_class(size_t split) const override { return true; }
  SyntheticSpec synthetic_spec() const override {
    using Labels = SyntheticSpec::Labels;
    SyntheticSpec spec;
    spec.classes = std::ssize(label_keys_.classes);
    if (label_keys_.separator)
      spec.labels = label_keys_.numbers ? Labels::targets : Labels::classes;
    else if (label_keys_.numbers)
      spec.labels = Labels::target;
    return spec;
  }

  Example read(size_t split, int64_t i) const override {
    const Layout& all = layout();
    const FolderIndex& files = index(split);
    if (files.file(i).empty()) throw Error::bare(Exit::data, "no images in this class folder");
    const size_t folder = all.splits.at(split).folders[files.class_of(i)];
    return {{"image", file_bytes(dir_.path + "/" + describe(split, i), "can't be read")},
            {all.labels.feature(), all.labels.tensor(folder)}};
  }

  FileNotes file_notes(size_t split) const override {
    FileNotes notes = index(split).notes();
    const std::string folder = folder_of(layout().splits.at(split));
    notes.loose_images = count_images(folder);
    note_unused_list(folder, notes.remarks);
    note_hidden_folders(folder, notes.remarks);
    note_dead_links(folder, notes.remarks);
    if (folder != dir_.path) {
      note_unused_list(dir_.path, notes.remarks);
      note_dead_links(dir_.path, notes.remarks);
    }
    if (const std::string& remark = layout().labels.remark(); !remark.empty())
      notes.remarks.push_back(fmt::format("{}: {}", dir_.path, remark));
    if (is_named(layout().splits.at(split).name, kTrainingNames) || !layout().has_training())
      notes.unused_folders = layout().unused;
    return notes;
  }

  std::string describe(size_t split, int64_t i) const override {
    const Split& folders = layout().splits.at(split);
    const FolderIndex& files = index(split);
    return fmt::format("{}{}/{}", folders.prefix, folders.classes[files.class_of(i)],
                       files.file(i));
  }

  at::Tensor labels(size_t split) const override {
    const FolderLabels& labels = layout().labels;
    if (!labels.one_class()) return {};
    at::Tensor all = at::empty({size(split)}, at::kLong);
    int64_t* out = all.mutable_data_ptr<int64_t>();
    const FolderIndex& files = index(split);
    const std::vector<size_t>& folders = layout().splits.at(split).folders;
    for (int64_t i = 0; i < all.size(0); ++i)
      out[i] = files.file(i).empty() ? kNoLabel : labels.number_of(folders[files.class_of(i)]);
    return all;
  }

 private:
  struct Split {
    std::string name;
    std::string prefix;                  // "train/", or "" in the layout without splits
    std::vector<std::string> classes;    // its class folders, sorted
    std::vector<size_t> folders;         // their indices in Layout::folders
    std::unique_ptr<FolderIndex> index;  // built on first use
  };
  struct Layout {
    std::vector<Split> splits;
    std::vector<std::string> folders;  // the names of the class folders of all splits, sorted
    FolderLabels labels;               // of these folders
    std::vector<std::string> unused;   // folders next to the splits that contain images

    bool has_training() const {
      return std::any_of(splits.begin(), splits.end(),
                         [](const Split& split) { return is_named(split.name, kTrainingNames); });
    }
  };

  // Throws if the training images seem to be in class folders next to the split folders.
  static void refuse_classes_beside_splits(const FolderKey& dir, const Layout& layout) {
    if (layout.has_training() || layout.unused.size() < 2) return;
    throw Error(
        Exit::usage, dir.place,
        fmt::format("'{0}/{1}' holds images, but '{0}/{2}' holds class folders; move what is "
                    "for training into {0}/train/<class>",
                    dir.path, layout.unused[0], layout.splits[0].name));
  }

  // Throws Error(Exit::usage) with one line for each class folder whose name is not UTF-8. A
  // checkpoint cannot store such a name, so the run could not be resumed.
  void refuse_other_encodings(const Layout& layout) const {
    std::vector<Error> problems;
    for (const Split& split : layout.splits) {
      for (const std::string& name : split.classes) {
        if (valid_utf8(name)) continue;
        problems.emplace_back(Exit::usage, folder_of(split) + "/" + name,
                              "the name of this class folder is not UTF-8: rename it");
      }
    }
    if (!problems.empty()) throw Error::all(Exit::usage, std::move(problems));
  }

  // Throws Error(Exit::usage) for a hidden folder whose name is a number, such as ".5". Hidden
  // folders are ignored, so its images would be missing.
  void refuse_hidden_number(const std::string& folder) const {
    for_each_entry(folder, [&](const FolderEntry& entry) {
      const std::string& name = entry.name;
      const bool hidden_number =
          entry.folder && name.size() > 1 && name[0] == '.' && name[1] >= '0' && name[1] <= '9';
      if (!hidden_number) return;
      throw Error(Exit::usage, label_keys_.label_place,
                  fmt::format("label: number, but the folder '{0}' is hidden; call it '0{0}'",
                              printable(name)));
    });
  }

  Layout scan() const {
    const FolderKey& dir = dir_;
    dir.check_exists();
    Layout layout;
    const std::vector<std::string> top = list_folders(dir.path);
    if (has_split_folders(dir.path, top)) {
      for (const std::string& name : top) {
        std::vector<std::string> classes = list_folders(dir.path + "/" + name);
        if (!classes.empty())
          layout.splits.push_back({name, name + "/", std::move(classes), {}, {}});
        else if (count_images(dir.path + "/" + name) > 0)
          layout.unused.push_back(name);
      }
      refuse_classes_beside_splits(dir, layout);
    } else {
      layout.splits.push_back({"train", "", top, {}, {}});
    }
    std::set<std::string> all;
    for (const Split& split : layout.splits) all.insert(split.classes.begin(), split.classes.end());
    if (all.empty()) {
      throw Error(Exit::usage, dir.place,
                  fmt::format("no class folders in '{}': expected <class>/*.jpg or "
                              "<split>/<class>/*.jpg",
                              dir.path));
    }
    refuse_other_encodings(layout);
    layout.folders.assign(all.begin(), all.end());
    layout.labels = FolderLabels(layout.folders, label_keys_);
    if (label_keys_.numbers) {
      for (const Split& split : layout.splits) refuse_hidden_number(folder_of(split));
    }
    for (Split& split : layout.splits) {
      for (const std::string& name : split.classes) {
        const auto found = std::lower_bound(layout.folders.begin(), layout.folders.end(), name);
        split.folders.push_back(found - layout.folders.begin());
      }
    }
    return layout;
  }

  // Returns the folder that holds the class folders of a split.
  std::string folder_of(const Split& split) const {
    return dir_.path + (split.prefix.empty() ? "" : "/" + split.name);
  }

  Layout& layout() const {
    const std::lock_guard lock(mutex_);
    if (!layout_) layout_ = std::make_unique<Layout>(scan());
    return *layout_;
  }

  const FolderIndex& index(size_t split) const {
    Split& folders = layout().splits.at(split);
    const std::lock_guard lock(mutex_);
    if (!folders.index) {
      folders.index =
          std::make_unique<FolderIndex>(folder_of(folders), folders.classes, keep_broken_);
    }
    return *folders.index;
  }

  FolderKey dir_;
  FolderLabelKeys label_keys_;
  bool keep_broken_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Layout> layout_;  // guarded by mutex_, like each Split::index in it
};

// Returns whether one of the folders `names` in `folder` holds images.
bool any_with_images(const std::string& folder, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return count_images(folder + "/" + name) > 0;
  });
}

// Returns the names of the CSV files in `folder`, except metadata.csv, which FileNotes is about.
std::vector<std::string> csv_files(const std::string& folder) {
  std::vector<std::string> files = list_files(folder, kCsvSuffixes);
  std::erase(files, "metadata.csv");
  return files;
}

// Returns whether the names are those of different splits, such as train_images and test_images.
bool are_splits(const std::vector<std::string>& names) {
  std::set<std::string> splits;
  for (const std::string& name : names) splits.insert(split_of_words(name));
  return splits.size() > 1 && !splits.contains("");
}

// Returns what to do if a split folder has a list of its images, as image folders of Hugging Face
// (metadata.csv) and Roboflow (_classes.csv) have; "" if none has. Prefers the training images.
std::string list_in_split(const std::string& folder, const std::vector<std::string>& names) {
  std::string found;
  for (const std::string& name : names) {
    const std::string split = folder + "/" + name;
    std::vector<std::string> lists = csv_files(split);
    if (file_exists(split + "/metadata.csv")) lists.insert(lists.begin(), "metadata.csv");
    if (lists.empty() || (!found.empty() && split_of_words(name) != kTrainingNames[0])) continue;
    found = fmt::format("; if {} has the labels, use that folder: bvtrain init {}",
                        printable(name + "/" + lists[0]), shell_word(split));
  }
  return found;
}

// Throws if the images are in split folders without class folders: "train" and "test" would be read
// as classes. A single class among others may have such a name.
void refuse_splits_without_classes(const std::string& folder, std::vector<std::string> names) {
  std::erase_if(names, [&](const auto& name) { return count_images(folder + "/" + name) == 0; });
  const bool all = are_splits(names);
  const auto middle =
      all ? names.end() : std::stable_partition(names.begin(), names.end(), is_split_name);
  const bool others = middle != names.end();
  names.erase(middle, names.end());
  if (names.empty() || (names.size() == 1 && others)) return;
  const std::vector<std::string> lists = csv_files(folder);
  std::string hint = list_in_split(folder, names);
  if (hint.empty() && !lists.empty()) {
    hint = fmt::format(
        "; if {} has the classes, write a config with `name: csv` and its keys `path`, `label` and "
        "`folder`",
        join(lists, " or "));
  }
  throw Error(
      Exit::usage, folder,
      fmt::format("has images directly in {}, without class folders: move the images of each class "
                  "into a separate folder, {}/<class>/*.jpg{}",
                  join(names, ", "), is_split_name(names[0]) ? names[0] : split_of_words(names[0]),
                  hint));
}

// Returns a note if CSV files in `folder` may hold labels.
std::vector<std::string> unused_lists(const std::string& folder) {
  std::vector<std::string> files = csv_files(folder);
  if (files.empty()) return {};
  constexpr size_t kMost = 4;
  const size_t more = files.size() > kMost ? files.size() - kMost : 0;
  files.resize(files.size() - more);
  return {fmt::format("not used: {}{}; the labels come from the folder names", join(files, ", "),
                      more > 0 ? fmt::format(" and {} more", more) : "")};
}

std::optional<DetectedData> detect_image_folder(const std::string& folder) {
  const std::vector<std::string> top = list_folders(folder);
  if (has_split_folders(folder, top)) {
    for (const std::string& split : top) {
      const std::string path = folder + "/" + split;
      if (any_with_images(path, list_folders(path)))
        return DetectedData{.kind = "image folder, <split>/<class>/<file>",
                            .train = {{"data_dir", folder}},
                            .notes = unused_lists(folder)};
    }
    return std::nullopt;
  }
  if (!any_with_images(folder, top)) return std::nullopt;
  refuse_splits_without_classes(folder, top);
  DetectedData data{.kind = "image folder, <class>/<file>",
                    .train = {{"data_dir", folder}},
                    .notes = unused_lists(folder)};
  // A single folder of images may belong to a CSV file that names these images.
  data.weak = std::count_if(top.begin(), top.end(), [&](const std::string& name) {
                return count_images(folder + "/" + name) > 0;
              }) < 2;
  return data;
}

const Register<Source, ImageFolder> registered_image_folder("image_folder");
const RegisterDetector image_folder_detector(
    "image_folder", "one folder of JPEG, PNG or WebP images for each class", detect_image_folder);

}  // namespace
}  // namespace bv
