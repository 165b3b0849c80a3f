#include "lib/predict/predict_inputs.h"

#include <ATen/ops/zeros.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "lib/ckpt/formats/npz.h"
#include "lib/input/image/image_suffix.h"
#include "lib/input/image/orientation.h"
#include "lib/input/sources/common/array_source.h"
#include "lib/input/sources/common/folder_index.h"
#include "lib/predict/file_list.h"
#include "lib/report/log.h"
#include "lib/util/file.h"
#include "lib/util/folder_entries.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStandardInput = "-";

// A file that cannot be read is a bad example, not a bad command.
std::string read_image_file(const std::string& file) {
  try {
    return read_file(file, limits::kRecordBytes);
  } catch (const Error& error) {
    throw Error(Exit::data, file, error.message());
  }
}

// Files named on standard input are not checked here: they fail when they are read.
class FileInputs : public Source {
 public:
  explicit FileInputs(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) add(path);
    if (hidden_ == 1) log::note("1 hidden image or folder is left out: {}", first_hidden_);
    if (hidden_ > 1) {
      log::note("{} hidden images and folders are left out, such as {}", hidden_, first_hidden_);
    }
    std::error_code error;
    const bool typed = std::find(paths.begin(), paths.end(), kStandardInput) == paths.end();
    if (typed && std::none_of(files_.begin(), files_.end(),
                              [&](const std::string& file) { return fs::exists(file, error); }))
      throw Error(Exit::usage, files_.front(), "no such file or folder");
    states_.resize(files_.size(), State::unread);
  }
  std::vector<std::string> splits() const override { return {"inputs"}; }
  int64_t size(size_t) const override { return std::ssize(files_); }
  Example read(size_t, int64_t index) const override {
    const std::string bytes = read_image_file(files_.at(index));
    at::Tensor image = at::zeros({std::ssize(bytes)}, at::kByte);
    if (!bytes.empty()) std::memcpy(image.mutable_data_ptr(), bytes.data(), bytes.size());
    note(index, exif_orientation({image.const_data_ptr<uint8_t>(), bytes.size()}) != 1);
    return {{"image", image}, {"label", at::zeros({}, at::kLong)}};
  }
  std::string describe(size_t, int64_t index) const override { return files_.at(index); }
  // Counts the images that have been read so far.
  FileNotes file_notes(size_t) const override {
    const std::lock_guard lock(mutex_);
    FileNotes notes = notes_;
    for (const State state : states_) {
      notes.images += state != State::unread;
      notes.turned += state == State::turned;
    }
    return notes;
  }
  SyntheticSpec synthetic_spec() const override { return {}; }

 private:
  enum class State : uint8_t { unread, upright, turned };
  using FolderId = std::pair<dev_t, ino_t>;

  void note(int64_t index, bool turned) const {
    const std::lock_guard lock(mutex_);
    states_.at(index) = turned ? State::turned : State::upright;
  }
  void add(const std::string& path) {
    std::error_code error;
    if (path == kStandardInput) {
      for (std::string& file : read_file_list(STDIN_FILENO)) files_.push_back(std::move(file));
    } else if (fs::is_directory(path, error)) {
      add_folder(path);
    } else {
      files_.push_back(path);
    }
  }

  void add_folder(const std::string& path) {
    const size_t before = files_.size();
    add_images_below(path);
    if (files_.size() == before) {
      throw Error(Exit::usage, path,
                  fmt::format("no *.jpg, *.jpeg, *.png or *.webp below this folder{}",
                              hidden_ > 0 ? ", except hidden ones" : ""));
    }
    std::sort(files_.begin() + static_cast<std::ptrdiff_t>(before), files_.end());
  }

  // Follows links to folders, after all other folders. Each folder is read once: links may lead in
  // circles, or to one folder in any number of ways.
  void add_images_below(const std::string& top) {
    std::set<FolderId> seen;
    std::set<std::string> folders = {top}, links;  // to be read; in order, so that runs are alike
    std::string again;                             // the first folder that was read before
    int64_t more = 0;
    while (!folders.empty() || !links.empty()) {
      std::set<std::string>& next = folders.empty() ? links : folders;
      const std::string folder = next.extract(next.begin()).value();
      struct stat info {};  // stays empty if the folder is gone, which for_each_entry() reports
      ::stat(folder.c_str(), &info);
      if (seen.emplace(info.st_dev, info.st_ino).second)
        add_images_in(folder, folders, links);
      else if (again.empty())
        again = folder;
      else
        ++more;
    }
    if (again.empty()) return;
    if (more == 0)
      log::note("{} is left out: its images are taken already, under another path", again);
    else
      log::note(
          "{} and {} more folders are left out: their images are taken already, under other paths",
          again, more);
  }

  // Returns whether there are images directly in a folder. False if it cannot be read.
  static bool holds_images(const std::string& folder) {
    try {
      return count_images(folder) > 0;
    } catch (const Error&) {
      return false;
    }
  }

  // Adds the images in a folder, and its folders to `folders` or `links`. A link that leads nowhere
  // is an image that cannot be read, if it is called like one. As in the data sources, hidden names
  // and the folders that macOS adds to an archive are left out.
  void add_images_in(const std::string& folder, std::set<std::string>& folders,
                     std::set<std::string>& links) {
    for_each_entry(folder, [&](const FolderEntry& entry) {
      const std::string path = fs::path(folder) / entry.name;
      const bool hidden = entry.name.starts_with('.');
      if (hidden || (entry.folder && entry.name == "__MACOSX")) {
        const bool image = (entry.file || entry.link) && has_image_suffix(entry.name);
        if ((entry.folder ? holds_images(path) : image) && hidden_++ == 0) first_hidden_ = path;
        return;
      }
      if (entry.folder)
        (entry.link ? links : folders).insert(path);
      else if (!entry.file && !entry.link)
        return;
      else if (has_image_suffix(entry.name))
        files_.push_back(path);
      else if (entry.file)
        ++notes_.other_types[suffix_of(entry.name)];
    });
  }

  std::vector<std::string> files_;
  FileNotes notes_;           // without the files counted in states_
  int64_t hidden_ = 0;        // images, and folders with images, left out for their names
  std::string first_hidden_;  // one of them
  mutable std::mutex mutex_;
  mutable std::vector<State> states_;  // by file, guarded by mutex_
};

class NpzInputs : public Source {
 public:
  explicit NpzInputs(const std::string& file) : arrays_(read_npz(file)) {
    const auto image = arrays_.find("image");
    if (image == arrays_.end())
      throw Error(Exit::usage, file, fmt::format("no array 'image', only {}", names_of(arrays_)));
    if (image->second.dim() < 1 || image->second.size(0) < 1)
      throw Error(Exit::usage, file, "the array 'image' has no rows");
    size_ = image->second.size(0);
    const auto label = arrays_.find("label");
    if (label != arrays_.end() && (label->second.dim() < 1 || label->second.size(0) != size_)) {
      throw Error(Exit::usage, file,
                  fmt::format("the array 'label' has the shape {}, but 'image' has {} rows",
                              shape_text(label->second.sizes()), size_));
    }
    std::erase_if(arrays_, [&](const auto& entry) {
      return entry.second.dim() < 1 || entry.second.size(0) != size_;
    });
    if (label != arrays_.end() &&
        is_class_column("label", label->second.sizes(), label->second.scalar_type()))
      label->second = label->second.squeeze(1).to(at::kLong);
    if (label == arrays_.end())
      arrays_["label"] = at::zeros({size_}, at::kLong);
    else if (label->second.dim() == 1 && at::isIntegralType(label->second.scalar_type(), false))
      labels_ = label->second.to(at::kLong);
  }
  std::vector<std::string> splits() const override { return {"inputs"}; }
  int64_t size(size_t) const override { return size_; }
  Example read(size_t, int64_t index) const override {
    Example example;
    for (const auto& [name, array] : arrays_) example[name] = array[index];
    return example;
  }
  at::Tensor labels(size_t) const override { return labels_; }
  std::string describe(size_t, int64_t index) const override {
    return fmt::format("row {}", index);
  }
  SyntheticSpec synthetic_spec() const override { return {}; }

 private:
  NamedTensors arrays_;
  at::Tensor labels_;
  int64_t size_ = 0;
};

}  // namespace

std::shared_ptr<const Source> open_inputs(const std::vector<std::string>& paths) {
  const auto is_npz = [](const std::string& path) { return path.ends_with(".npz"); };
  if (std::none_of(paths.begin(), paths.end(), is_npz)) return std::make_shared<FileInputs>(paths);
  if (paths.size() > 1)
    throw Error(Exit::usage, "--input", "expected a single .npz file, or image files and folders");
  return std::make_shared<NpzInputs>(paths[0]);
}

}  // namespace bv
