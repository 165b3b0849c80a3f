// webdataset: samples in tar files, as the Python package of that name writes and reads them.
//
// Consecutive members that share a key are one sample: 000123.jpg, 000123.cls. Samples are in the
// order of the files in `urls`, and then in the order of the tar. Nothing is unpacked:
// an index of all samples is kept in memory, and examples are read from the middle of the tars.
#include <ATen/ops/full.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "lib/config/key_table.h"
#include "lib/input/detect_data.h"
#include "lib/input/path.h"
#include "lib/input/source.h"
#include "lib/input/sources/common/file_list.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/input/sources/common/index_cache.h"
#include "lib/input/sources/common/label_order.h"
#include "lib/input/sources/common/shard_files.h"
#include "lib/input/sources/common/webdataset/webdataset_index.h"
#include "lib/input/sources/common/webdataset/webdataset_scanner.h"
#include "lib/input/sources/common/webdataset/webdataset_values.h"
#include "lib/util/descriptor.h"
#include "lib/util/file.h"
#include "lib/util/folder_entries.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable webdataset_keys(
    "input.data: webdataset",
    {"Samples in tar files (\"shards\"), as the Python package webdataset writes them. Consecutive "
     "members with the same name up to its first dot are one sample: 000123.jpg with 000123.cls. "
     "The only split is called train, or all. Without `features`, the one image of a sample (jpg, "
     "jpeg, png, webp) becomes `image`, which an op such as `decode` must decode; cls, an integer, "
     "becomes `label`; txt, text, transcript or caption becomes `text`; npy becomes an array of "
     "that name; and each key of json whose value is a number, a boolean, a string or a list of "
     "numbers becomes a feature of that name. The first sample determines the features; with "
     "`skip_errors`, the first one that can be read. A sample that lacks a feature is an error at "
     "the start, unless `skip_errors` allows it.",
     "name: webdataset\nurls: data/train-{000..127}.tar\nsplit: train"},
    {{"urls", "string | list of string", "required",
      "The tar files, on a local or mounted disk. `{000..127}` expands to these numbers, keeping "
      "leading zeros, and `{train,extra}` to its alternatives. If no file has exactly this name, "
      "`*` and `?` are wildcards. A missing file is an error. Compressed tars must be unpacked "
      "first.",
      "data/train-{000..127}.tar"},
     {"features", "map of string", "{}",
      "Which member of a sample becomes which feature; other members are not read. A member is "
      "named by what follows the first dot of its file name, such as jpg, left.jpg or cls; "
      "`json.age` is the key age of the member json.",
      "{image: left.jpg, label: cls}"},
     {"classes", "string | list of string", "none",
      "Class names in the order of their numbers, from 0: a list, or a text file with one name per "
      "line. The labels may then be names instead of numbers, all of them or none. Reports show "
      "the names, and data sets of one run match their classes by name. Any other label is an "
      "error.",
      "[cat, dog, ship]"}});

using NameList = std::vector<std::string>;

// Reads the class names from a text file, one per line.
ClassNumbers read_class_names(const std::string& file) {
  const std::string text = without_bom(read_file(file, limits::kClassNamesBytes));
  NameList lines = split(text, '\n');
  while (!lines.empty() && trim(lines.back()).empty()) lines.pop_back();
  if (lines.empty()) throw Error(Exit::usage, file, "holds no names of classes");
  for (size_t i = 0; i < lines.size(); ++i) {
    lines[i] = trim(lines[i]);
    const auto at = [&] { return fmt::format("{}:{}", file, i + 1); };
    if (lines[i].empty()) throw Error(Exit::usage, at(), "this line has no name of a class");
    if (!valid_utf8(lines[i])) throw Error(Exit::usage, at(), "this line is not UTF-8");
  }
  try {
    return ClassNumbers(std::move(lines));
  } catch (const Error& error) {
    throw Error(Exit::usage, file, error.message());
  }
}

class WebDataset : public Source {
 public:
  WebDataset(const Config& config, const SourceEnv& env)
      : urls_(config, "urls"), keep_broken_(env.keep_broken) {
    read_features(config);
    read_classes(config);
  }

  std::vector<std::string> splits() const override { return {"all", "train"}; }
  int64_t size(size_t) const override { return opened().index.size(); }
  std::vector<int64_t> shard_lengths(size_t) const override {
    return opened().index.file_lengths();
  }
  std::vector<std::string> class_names() const override { return opened().classes.names(); }
  at::Tensor labels(size_t) const override { return opened().index.labels(); }
  bool sorted_by_class(size_t) const override { return opened().sorted; }
  FileNotes file_notes(size_t) const override { return opened().index.notes(); }
  SyntheticSpec synthetic_spec() const override {
    return {.classes = std::ssize(classes_.names())};
  }

  std::string describe(size_t, int64_t i) const override {
    const Opened& data = opened();
    const std::string offset = describe_unread(0, i);
    try {
      TarReader reader(data.files.name(data.index.file_of(i)), data.index.begin(i));
      TarMember member;
      if (reader.next(member)) {
        if (const std::optional<SampleName> name = sample_name(member.name))
          return fmt::format("{} (key {})", offset, name->key);
      }
    } catch (const Error&) {
      // The file is gone or has changed, which read() reports. The offset also names the example.
    }
    return offset;
  }
  std::string describe_unread(size_t, int64_t i) const override {
    const Opened& data = opened();
    return fmt::format("{} @ offset {}", data.files.name(data.index.file_of(i)),
                       data.index.begin(i));
  }

  Example read(size_t split, int64_t i) const override {
    const Opened& data = opened();
    try {
      if (data.index.is_broken(i)) throw_problem(data, i);
      std::vector<at::Tensor> contents;
      for (size_t member = 0; member < data.plan.stored; ++member)
        contents.push_back(read_member(data, i, member));
      Example example = planned_features(data.plan, contents, data.index.fractional());
      if (data.plan.label)
        example["label"] =
            at::full({}, data.index.labels().const_data_ptr<int64_t>()[i], at::kLong);
      return example;
    } catch (const TooManyOpenFiles&) {
      throw;
    } catch (const Error& error) {
      if (error.code() != Exit::usage && error.code() != Exit::data) throw;
      throw Error(Exit::data, describe(split, i), error.message());
    }
  }

 private:
  struct Opened {
    ShardFiles files;
    SamplePlan plan;
    ClassNumbers classes;
    SampleIndex index;
    bool sorted;
  };

  void read_features(const Config& config) {
    const Config features = config.section("features");
    for (const std::string& name : features.keys()) {
      const auto member = features.maybe<std::string>(name);
      if (!member) continue;
      if (const std::string problem = chosen_problem(*member); !problem.empty())
        features.fail(name, problem);
      features_[name] = *member;
    }
  }

  void read_classes(const Config& config) {
    if (!config.is_list("classes")) {
      classes_file_ = maybe_path(config, "classes").value_or("");
      return;
    }
    try {
      classes_ = ClassNumbers(config.get<NameList>("classes"));
    } catch (const Error& error) {
      if (!error.needs_place()) throw;
      config.fail("classes", error.message());
    }
    if (classes_.names().empty()) config.fail("classes", "holds no names");
  }

  // Returns everything that the index depends on besides the files.
  std::string settings(const ClassNumbers& classes) const {
    std::string text;
    for (const auto& [name, member] : features_) text += name + '\n' + member + '\n';
    for (const std::string& name : classes.names()) text += '\n' + name;
    return text;
  }

  std::unique_ptr<const Opened> open() const {
    const NameList files = urls_.existing();
    ClassNumbers classes = classes_file_.empty() ? classes_ : read_class_names(classes_file_);
    SamplePlan plan = make_plan(features_, files.at(0), keep_broken_);
    SampleIndex index(files, plan, classes, settings(classes), keep_broken_);
    const bool sorted = in_order_of_classes(index.labels());
    return std::unique_ptr<const Opened>(new Opened{ShardFiles(files), std::move(plan),
                                                    std::move(classes), std::move(index), sorted});
  }

  const Opened& opened() const {
    const std::lock_guard lock(mutex_);
    if (!opened_) opened_ = open();
    return *opened_;
  }

  // Returns the content of a member as (n,) uint8. Also reads its header, which shows whether the
  // file is still the one that was indexed.
  static at::Tensor read_member(const Opened& data, int64_t i, size_t member) {
    const auto [block, size] = data.index.place(i, member);
    const uint64_t header = (uint64_t{block} - 1) * kTarBlock;
    const at::Tensor bytes = data.files.read(data.index.file_of(i), header, size + kTarBlock);
    if (!is_tar_header_of({bytes.const_data_ptr<uint8_t>(), kTarBlock}, size)) {
      throw Error::bare(Exit::data,
                        fmt::format("the file has changed since it was opened: there is no member "
                                    "of {} bytes @ offset {}",
                                    size, header));
    }
    return bytes.narrow(0, kTarBlock, size);
  }

  // Determines again why a sample cannot be read.
  [[noreturn]] static void throw_problem(const Opened& data, int64_t i) {
    SampleScanner scanner(data.files.name(data.index.file_of(i)), data.plan, data.classes,
                          data.index.begin(i));
    ScannedSample sample;
    if (scanner.next(sample) && !sample.problem.empty())
      throw Error::bare(Exit::data, sample.problem);
    throw Error::bare(Exit::data, "the file has changed since it was opened");
  }

  const FileList urls_;
  ChosenFeatures features_;
  std::string classes_file_;  // if it is empty, classes_ counts
  ClassNumbers classes_;
  bool keep_broken_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<const Opened> opened_;  // guarded by mutex_; never changes again
};

// ---- bvtrain init

// The tar files of a folder that share a split.
struct TarGroup {
  NameList files;  // names in the folder, sorted
  NameList stems;  // what stem_of() returns for these names, each once

  // Returns `urls` of the group; "" if no pattern matches these files and no others of `all`.
  std::string urls(const std::string& folder, const NameList& all) const {
    if (files.size() == 1) return folder + "/" + files[0];
    const auto others = std::count_if(all.begin(), all.end(), [&](const std::string& name) {
      return name.starts_with(stems[0]);
    });
    if (stems.size() > 1 || others != std::ssize(files)) return "";
    return folder + "/" + stems[0] + "*.tar";
  }
};

std::string without_last_digits(std::string text) {
  while (!text.empty() && std::isdigit(static_cast<unsigned char>(text.back())) != 0)
    text.pop_back();
  return text;
}

// Returns the name of a tar file without .tar and the number before it: "train-" for
// "train-007.tar" and for "train-00007-of-00128.tar".
std::string stem_of(const std::string& name) {
  constexpr std::string_view kOf = "-of-";
  const std::string stem = without_last_digits(name.substr(0, name.size() - 4));
  if (!stem.ends_with(kOf)) return stem;
  const std::string number = stem.substr(0, stem.size() - kOf.size());
  const std::string shorter = without_last_digits(number);
  return shorter == number ? stem : shorter;
}

std::map<std::string, TarGroup> grouped(const NameList& names) {
  std::map<std::string, TarGroup> groups;
  for (const std::string& name : names) {
    const std::string stem = stem_of(name);
    TarGroup& group = groups[split_of_words(stem)];
    group.files.push_back(name);
    if (group.stems.empty() || group.stems.back() != stem) group.stems.push_back(stem);
  }
  return groups;
}

// Returns whether the first sample of a tar has an image and a class.
bool is_labelled(const std::string& file) {
  return make_plan({}, file, /*keep_broken=*/false).label.has_value();
}

// The key `urls` of the source expands these characters, and cannot escape them.
void refuse_patterns(const std::string& folder) {
  if (folder.find_first_of("*?{}") == std::string::npos) return;
  throw Error(Exit::usage, folder,
              "holds tar files, but its path has *, ?, { or } in it, which `urls` would expand: "
              "rename that folder");
}

DetectedData detected(const std::string& folder, const NameList& names) {
  refuse_patterns(folder);
  const std::map<std::string, TarGroup> groups = grouped(names);
  if (groups.size() == 1) {
    const std::string urls = groups.begin()->second.urls(folder, names);
    return {"tar files (webdataset)", {{"urls", urls.empty() ? folder + "/*.tar" : urls}}};
  }
  const std::string validation = groups.contains("val") ? "val" : "test";
  const auto train = groups.find("train"), other = groups.find(validation);
  const bool clear = !groups.contains("") && train != groups.end() && other != groups.end();
  const std::string train_urls = clear ? train->second.urls(folder, names) : "";
  const std::string other_urls = clear ? other->second.urls(folder, names) : "";
  if (train_urls.empty() || other_urls.empty()) {
    throw Error(Exit::usage, folder,
                "holds several kinds of tar files, and their names do not say which are for "
                "training: expected train-000.tar, ... and val-000.tar, ...");
  }
  DetectedData data{"tar files (webdataset)", {{"urls", train_urls}}, {{"urls", other_urls}}};
  data.notes = {"training: " + train_urls, "validation: " + other_urls};
  if (groups.size() > 2) data.notes.push_back("not used: the tar files for testing");
  return data;
}

std::optional<DetectedData> detect_webdataset(const std::string& folder) {
  NameList names;
  for_each_entry(folder, [&](const FolderEntry& entry) {
    if (entry.file && entry.name.ends_with(".tar") && !entry.name.starts_with("."))
      names.push_back(entry.name);
  });
  if (names.empty()) return std::nullopt;
  std::sort(names.begin(), names.end());
  try {
    if (!is_labelled(folder + "/" + names[0])) return std::nullopt;
  } catch (const Error&) {
    // A tar next to folders of other data may be the archive of that data.
    if (!list_folders(folder).empty()) return std::nullopt;
    throw;
  }
  return detected(folder, names);
}

const Register<Source, WebDataset> registered_webdataset("webdataset");
const RegisterDetector webdataset_detector(
    "webdataset",
    "tar files whose samples have an image and a class, 000.jpg with "
    "000.cls",
    detect_webdataset);

}  // namespace
}  // namespace bv
