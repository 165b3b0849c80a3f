#include "lib/input/cache/decoded_images.h"

#include <ATen/ops/empty.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "lib/distributed/group.h"
#include "lib/input/cache/cache_memory.h"
#include "lib/input/cache/file_lock.h"
#include "lib/input/image/pixel_limit.h"
#include "lib/report/log.h"
#include "lib/util/crc32c.h"
#include "lib/util/host.h"
#include "lib/util/limits.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const char* const kMemoryFolder = "/dev/shm";
constexpr std::string_view kCachePrefix = "bvtrain-images-";
// A version number. Increase it when the same file is decoded or resized to different pixels.
constexpr int kPixels = 2;

// Returns a string that is equal for processes with the same /dev/shm, and for no others.
std::string memory_place() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat info {};
  const bool known = ::stat(kMemoryFolder, &info) == 0;
  return fmt::format("{} {} {}", host_name(), boot, known ? info.st_dev : 0);
}

std::span<const uint8_t> tensor_bytes(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<uint8_t>(), static_cast<size_t>(tensor.numel())};
}

ImageKey key_of(std::span<const uint8_t> file, const Decoding& how) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  return {hash64(text) ^ hash64(how.text()),
          static_cast<uint64_t>(text.size()) << 32 | crc32c(text)};
}

// Returns the number and the size of the other caches in the folder of `file`.
std::pair<int64_t, double> other_caches(const std::string& folder, const std::string& file) {
  int64_t count = 0;
  double bytes = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(kCachePrefix) || entry->path() == file)
      continue;
    struct stat info {};
    if (::lstat(entry->path().c_str(), &info) != 0) continue;
    ++count;
    bytes += 512.0 * static_cast<double>(info.st_blocks);
  }
  return {count, bytes};
}

// Throws that the folder cannot be made. `error`: the errno of mkdir().
[[noreturn]] void refuse_folder(const ImageCacheOptions& options, int error) {
  throw Error(
      Exit::usage, options.folder_place,
      fmt::format("cannot make the folder '{}': {}", options.folder,
                  error == ENOENT ? "the folder above it does not exist" : file_error_text(error)));
}

// Does check_cache_room() for a folder.
void check_cache_folder(const ImageCacheOptions& options) {
  struct stat info {};
  const bool exists = ::stat(options.folder.c_str(), &info) == 0;
  std::string used = options.folder;  // the folder itself, or the one in which it is to be made
  if (!exists) {
    while (used.size() > 1 && used.ends_with('/')) used.pop_back();
    used = std::filesystem::path(used).parent_path().string();
    if (used.empty()) used = ".";
    if (::stat(used.c_str(), &info) != 0) refuse_folder(options, errno);
    if (!S_ISDIR(info.st_mode)) refuse_folder(options, ENOTDIR);
    if (::access(used.c_str(), W_OK | X_OK) != 0) refuse_folder(options, errno);
  } else if (!S_ISDIR(info.st_mode)) {
    throw Error(Exit::usage, options.folder_place, fmt::format("'{}' is not a folder", used));
  } else if (::access(used.c_str(), W_OK | X_OK) != 0) {
    throw Error(Exit::usage, options.folder_place,
                fmt::format("cannot write to the folder '{}': {}", used, file_error_text(errno)));
  }
  // A cache that is there may be the one of this data, and may hold all images already.
  if (exists && other_caches(options.folder, "").first > 0) return;
  struct statvfs space {};
  if (::statvfs(used.c_str(), &space) != 0) return;
  check_cache_space(options.bytes_place, options.bytes, 0, options.folder,
                    static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize));
}

}  // namespace

void check_cache_room(const ImageCacheOptions& options) {
  if (!options.folder.empty()) return check_cache_folder(options);
  const auto available = available_memory();
  const auto needed = static_cast<double>(options.bytes);
  if (!available || needed <= *available) return;
  throw Error(Exit::usage, options.bytes_place,
              fmt::format("input.cache.gib: the budget is {}, but only {} of memory is available: "
                          "lower gib, set short_side, or keep the images in a folder",
                          human_bytes(needed), human_bytes(*available)));
}

DecodedImages::DecodedImages(ImageCacheOptions options, Data data, Group& group)
    : options_(std::move(options)),
      data_(std::move(data)),
      pass_(std::max<int64_t>(data_.images / group.size(), 1)) {
  store_ = std::make_unique<ImageStore>(store_options(group));
  if (options_.folder.empty()) return;
  const ImageStore::Totals totals = store_->totals();
  earlier_ = totals.images;
  if (earlier_ > 0) {
    log::info("[input] cache: {} images in '{}' from earlier runs", human_count(earlier_),
              options_.folder);
  }
  if (earlier_ > 0 && totals.bytes > options_.bytes) {
    log::note(
        "[input] cache: they take {}, more than input.cache.gib; delete '{}' to rebuild the cache",
        human_bytes(static_cast<double>(totals.bytes)), store_->file());
  }
}

DecodedImages::~DecodedImages() = default;

// Chooses the cache file. An in-memory cache uses a file of this run, which is unlinked as soon as
// all ranks of the host have opened it. So its memory is freed when they exit, even if they are
// killed.
ImageStoreOptions DecodedImages::store_options(Group& group) const {
  std::string made = fmt::format("{} {}", kPixels, decoder_versions());
  for (const auto& pp : data_.pps) {
    const auto how = pp->decodes();
    made += how ? fmt::format("; {}, short side {}", how->text(), pp->short_side()) : "; none";
  }
  // The limit is part of the key. Otherwise a run could find images above its own limit in the
  // cache of a run with a higher limit.
  if (max_pixels() < limits::kImagePixels) made += fmt::format("; at most {} pixels", max_pixels());
  ImageStoreOptions store{.place = options_.bytes_place,
                          .bytes = options_.bytes,
                          .images = data_.images,
                          .identity = hash64(made)};
  if (!options_.folder.empty()) {
    if (::mkdir(options_.folder.c_str(), 0777) != 0 && errno != EEXIST)
      refuse_folder(options_, errno);
    store.file = fmt::format("{}/{}{}-{:016x}", options_.folder, kCachePrefix, ::geteuid(),
                             store.identity ^ data_.fingerprint);
    const auto [count, bytes] = other_caches(options_.folder, store.file);
    if (count > 0 && group.rank() == 0) {
      log::info(
          "[input] cache: '{}' also holds {} of other data or options, {} in all; delete what "
          "you no longer need",
          options_.folder, count == 1 ? "a cache" : fmt::format("{} caches", count),
          human_bytes(bytes));
    }
    return store;
  }
  const std::string here = memory_place();
  std::random_device random;
  const uint64_t name = static_cast<uint64_t>(random()) << 32 | random();
  const auto all = group.gather_text(fmt::format("{:016x} {}", name, here), "image cache");
  const auto shares = [&](const std::string& text) { return text.substr(17) == here; };
  const auto first = std::find_if(all.begin(), all.end(), shares);
  store.users = static_cast<int>(std::count_if(all.begin(), all.end(), shares));
  const std::string mine = fmt::format("{}{}-", kCachePrefix, ::geteuid());
  if (first - all.begin() == group.rank()) {
    delete_unused_files(kMemoryFolder, mine);
    check_cache_room(options_);
  }
  store.file = fmt::format("{}/{}{}", kMemoryFolder, mine, first->substr(0, 16));
  return store;
}

at::Tensor DecodedImages::image(size_t part, const Example& example) {
  const Pipeline& pp = *data_.pps.at(part);
  const std::optional<Decoding> how = pp.decodes();
  if (!how) return {};
  const auto feature = example.find(how->key);
  if (feature == example.end() || feature->second.dim() != 1 ||
      feature->second.scalar_type() != at::kByte)
    return {};
  const at::Tensor encoded = feature->second.contiguous();
  const ImageKey key = key_of(tensor_bytes(encoded), *how);
  at::Tensor image;
  const ImageStore::Found found = store_->find(key, [&](const StoredShape& shape) {
    image = at::empty({shape.height, shape.width, shape.channels}, at::kByte);
    return std::span(image.mutable_data_ptr<uint8_t>(), static_cast<size_t>(shape.bytes()));
  });
  auto kept = ImageStore::Kept::yes;
  if (found != ImageStore::Found::yes) {
    image = pp.decode(example);
    if (!image.defined()) return {};
    kept = keep(key, image, found == ImageStore::Found::damaged);
  }
  count(found, kept);
  return image;
}

ImageStore::Kept DecodedImages::keep(const ImageKey& key, const at::Tensor& image, bool damaged) {
  if (damaged) ++damaged_;
  if (damaged && !told_damaged_.exchange(true)) {
    log::warn(
        "[input] cache: the checksum of an image in {} is wrong; this image and any other damaged "
        "one are decoded again",
        options_.folder.empty() ? "memory" : "'" + options_.folder + "'");
  }
  const StoredShape shape{image.size(0), image.size(1), image.size(2)};
  const ImageStore::Kept kept = store_->keep(key, shape, tensor_bytes(image), damaged);
  if (kept == ImageStore::Kept::no_room && !told_full_.exchange(true)) tell_full();
  if (kept == ImageStore::Kept::failed && !told_failure_.exchange(true)) {
    log::warn("[input] cache: {}; no further images are cached: they are decoded in every pass",
              store_->failure());
  }
  return kept;
}

void DecodedImages::tell_full() {
  const int64_t images = store_->totals().images;
  if (images > data_.images && !options_.folder.empty()) {
    log::note(
        "[input] cache: full: its {} images are not only those of this run, which has {}; images "
        "that are not in it are decoded in every pass; delete '{}' to rebuild the cache",
        human_count(images), human_count(data_.images), store_->file());
    return;
  }
  // More images than the run has: their files have changed during the run.
  const int64_t own = std::min(images, data_.images);
  log::note(
      "[input] cache: full: {} of {} images fit into {} ({:.0f}%), the others are decoded in "
      "every pass{}",
      human_count(own), human_count(data_.images), human_bytes(static_cast<double>(options_.bytes)),
      100.0 * static_cast<double>(own) / static_cast<double>(data_.images),
      earlier_ > 0 ? fmt::format("; if the images have changed since earlier runs, delete '{}' to "
                                 "rebuild the cache",
                                 store_->file())
                   : "");
}

void DecodedImages::count(ImageStore::Found found, ImageStore::Kept kept) {
  if (asked_++ >= pass_) return;
  if (found == ImageStore::Found::yes) ++found_;
  if (kept == ImageStore::Kept::no_room) ++no_room_;
  if (++counted_ == pass_) tell_first_pass();
}

void DecodedImages::tell_first_pass() {
  const ImageStore::Totals totals = store_->totals();
  const auto percent = [&](int64_t part) {
    return 100 * static_cast<double>(part) / static_cast<double>(pass_);
  };
  std::string more;
  if (100 * found_ >= pass_)
    more += fmt::format("; {:.0f}% of the first pass came from it", percent(found_));
  if (no_room_ > 0) more += fmt::format("; {:.0f}% did not fit", percent(no_room_));
  if (damaged_ > 0) more += fmt::format("; {} were damaged", human_count(damaged_));
  log::info("[input] cache: {} images in {} of {}{}", human_count(totals.images),
            human_bytes(static_cast<double>(totals.bytes)),
            human_bytes(static_cast<double>(options_.bytes)), more);
}

}  // namespace bv
