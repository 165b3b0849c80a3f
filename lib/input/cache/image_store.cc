#include "lib/input/cache/image_store.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/input/cache/file_lock.h"
#include "lib/util/limits.h"
#include "lib/util/rng.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::array<char, 8> kImageStoreMagic = {'B', 'V', 'I', 'M', 'A', 'G', 'E', '1'};
constexpr int64_t kPage = 4096, kAlignment = 64;
constexpr int64_t kMostProbes = 1024;  // slots that one key may be in
constexpr int64_t kProbesAtOnce = 8;
constexpr auto kPatience = std::chrono::seconds(10);  // for the lock, when the file is opened
// When reading images, it is not worth waiting longer than this for a lock.
constexpr auto kImpatience = std::chrono::milliseconds(200);

constexpr int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

template <class T>
uint64_t hash_of_object(const T& value) {
  return hash64({reinterpret_cast<const char*>(&value), sizeof(value)});
}

bool write_at(int fd, const void* data, size_t bytes, int64_t offset) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = retry_interrupted([&] { return ::pwrite(fd, from, bytes, offset); });
    if (n < 0) return false;
    from += n;
    bytes -= static_cast<size_t>(n);
    offset += n;
  }
  return true;
}

// Returns the number of bytes read: fewer than requested at the end of the file or after a failure.
size_t read_at(int fd, void* data, size_t bytes, int64_t offset) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = retry_interrupted([&] {
      return ::pread(fd, static_cast<char*>(data) + done, bytes - done,
                     offset + static_cast<int64_t>(done));
    });
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

}  // namespace

void check_cache_space(const Place& place, int64_t bytes, int64_t taken, const std::string& folder,
                       double free) {
  if (static_cast<double>(bytes - taken) <= free) return;
  throw Error(Exit::usage, place,
              fmt::format("input.cache.gib: the budget is {}, but '{}' has {} left: lower gib, or "
                          "choose another folder",
                          human_bytes(static_cast<double>(bytes)), folder,
                          human_bytes(free + static_cast<double>(taken))));
}

struct ImageStore::Header {
  std::array<char, 8> magic = kImageStoreMagic;
  uint64_t identity = 0;
  int64_t slots = 0;
  int64_t used = 0;    // bytes up to the end of the last record
  int64_t images = 0;  // slots that are taken
  int64_t opened = 0;  // how often the file was opened
  uint64_t check = 0;

  int64_t most_images() const { return slots / 8 * 7; }
  uint64_t right_check() const {
    Header copy = *this;
    copy.check = 0;
    return hash_of_object(copy);
  }
};

struct ImageStore::Slot {
  ImageKey key;
  int64_t offset = 0;  // of the record
  uint16_t height = 0, width = 0;
  uint8_t channels = 0;
  uint8_t zeros[3] = {};
  uint64_t check = 0;

  static Slot make(const ImageKey& key, const StoredShape& shape, int64_t offset) {
    Slot slot{key, offset, static_cast<uint16_t>(shape.height), static_cast<uint16_t>(shape.width),
              static_cast<uint8_t>(shape.channels)};
    slot.check = slot.right_check();
    return slot;
  }
  uint64_t right_check() const {
    Slot copy = *this;
    copy.check = 0;
    return hash_of_object(copy) | 1;
  }
  bool empty() const { return check == 0 && offset == 0; }
  bool sound() const { return check == right_check(); }
  StoredShape shape() const { return {height, width, channels}; }
  // Returns the checksum of the record with these pixels. It also covers the key and the width.
  uint64_t check_of(std::span<const uint8_t> pixels) const {
    return hash64({reinterpret_cast<const char*>(pixels.data()), pixels.size()}) ^
           hash_of_object(key) ^ static_cast<uint64_t>(width);
  }
};

struct ImageStore::Places {
  int64_t match = -1;  // the number of the slot with the key
  int64_t free = -1;   // of the first slot that is empty or damaged
  Slot slot;           // the one with the key
};

// The lock of the writers: of this process's threads, then of the file.
class ImageStore::Locked {
 public:
  Locked(const ImageStore& store, std::chrono::milliseconds patience)
      : threads_(store.mutex_), file_(store.fd_->get(), FileLock::Part::writing, patience) {}
  explicit operator bool() const { return file_.held(); }

 private:
  const std::lock_guard<std::mutex> threads_;
  const FileLock file_;
};

ImageStore::ImageStore(const ImageStoreOptions& options) : options_(options) {
  static_assert(sizeof(Slot) == 40 && sizeof(Header) == 56);
  constexpr int kTries = 100;  // another process may delete the file between our calls
  for (int i = 0; i < kTries; ++i) {
    if (try_open()) return;
  }
  throw Error(Exit::usage, options_.file, "is deleted again and again by another process");
}

// Returns false if the file was deleted or had to be deleted: try again.
bool ImageStore::try_open() {
  const std::string& file = options_.file;
  fd_ = std::make_unique<Descriptor>(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (!*fd_) throw_file_error(Exit::usage, file, "cannot open: ", errno);
  const struct stat info = stat_of(*fd_, file);
  if (!S_ISREG(info.st_mode)) throw Error(Exit::usage, file, kind_text(info.st_mode));
  if (info.st_uid != ::geteuid()) throw Error(Exit::usage, file, "belongs to another user");
  if (!hold_in_use(fd_->get(), kPatience))
    throw_file_error(Exit::usage, file, "cannot be locked: ", errno);
  const Locked locked(*this, kPatience);
  if (!locked) throw_file_error(Exit::usage, file, "cannot be locked: ", errno);
  // Another process may have replaced the file while this one waited for the locks.
  if (!is_still(fd_->get(), file)) return false;
  Header header;
  const struct stat now = stat_of(*fd_, file);
  if (now.st_size == 0) {
    begin(header);
  } else if (!read_header(header) || header.identity != options_.identity) {
    ::unlink(file.c_str());  // processes that have it open keep it
    return false;
  } else if (options_.users == 0 && header.images < options_.images) {
    check_space(now.st_blocks * 512);  // the file will grow
  }
  slots_ = header.slots;
  data_begin_ = round_up(kPage + slots_ * static_cast<int64_t>(sizeof(Slot)), kPage);
  // After a machine crash, the header may be older than the records that follow it.
  header.used = std::max({header.used, data_begin_, round_up(now.st_size, kAlignment)});
  if (outgrown(header)) {
    ::unlink(file.c_str());
    return false;
  }
  ++header.opened;
  if (!write_header(header)) throw_file_error(Exit::usage, file, "cannot write: ", errno);
  if (options_.users > 0 && header.opened >= options_.users) ::unlink(file.c_str());
  return true;
}

// Returns the number of slots of a new file.
int64_t ImageStore::slots_for_budget() const {
  constexpr int64_t kTableShare = 16;  // of the budget
  const auto slot = static_cast<int64_t>(sizeof(Slot));
  return std::min(options_.images + options_.images / 2 + 64,
                  std::max(options_.bytes / kTableShare / slot, int64_t{64}));
}

// Decides how a new file is divided.
void ImageStore::begin(Header& header) {
  header.identity = options_.identity;
  header.slots = slots_for_budget();
  try {
    check_space(0);
  } catch (...) {
    ::unlink(options_.file.c_str());
    throw;
  }
}

// Returns whether the file was made for a smaller budget, and its table would be full before the
// present budget is used up.
bool ImageStore::outgrown(const Header& header) const {
  const int64_t most = header.most_images();
  if (header.slots >= slots_for_budget() || most >= options_.images) return false;
  // This assumes that further images are as large as those in the file.
  const auto used = static_cast<double>(header.used - data_begin_);
  const auto room = static_cast<double>(options_.bytes - data_begin_);
  return static_cast<double>(header.images) * room >= used * static_cast<double>(most);
}

// Throws if the budget does not fit into the free space. The file already uses `taken` bytes of the
// budget.
void ImageStore::check_space(int64_t taken) const {
  struct statvfs space {};
  if (::fstatvfs(fd_->get(), &space) != 0) return;  // a write will fail if there is none
  const double free = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  check_cache_space(options_.place, options_.bytes, taken,
                    options_.file.substr(0, options_.file.rfind('/')), free);
}

ImageStore::~ImageStore() {
  if (!fd_ || !*fd_) return;
  Header header;
  const bool empty = read_header(header) && header.images == 0;
  if ((empty || options_.users > 0) && is_still(fd_->get(), options_.file))
    delete_if_unused(fd_->get(), options_.file);
}

bool ImageStore::read_header(Header& header) const {
  constexpr int64_t kMostSlots = int64_t{1} << 40;
  return read_at(fd_->get(), &header, sizeof(header), 0) == sizeof(header) &&
         header.magic == kImageStoreMagic && header.check == header.right_check() &&
         header.slots > 0 && header.slots < kMostSlots && header.used >= 0;
}

bool ImageStore::write_header(Header header) const {
  header.check = header.right_check();
  return write_at(fd_->get(), &header, sizeof(header), 0);
}

ImageStore::Places ImageStore::look_up(const ImageKey& key) const {
  Places places;
  std::array<Slot, kProbesAtOnce> some;
  const auto first = static_cast<int64_t>(key.low % static_cast<uint64_t>(slots_));
  for (int64_t probe = 0; probe < std::min(slots_, kMostProbes);) {
    const int64_t number = (first + probe) % slots_;
    const int64_t count =
        std::min({kProbesAtOnce, slots_ - number, std::min(slots_, kMostProbes) - probe});
    some.fill(Slot{});  // slots past the end of the file are empty
    read_at(fd_->get(), some.data(), static_cast<size_t>(count) * sizeof(Slot),
            kPage + number * static_cast<int64_t>(sizeof(Slot)));
    for (int64_t i = 0; i < count; ++i) {
      const bool sound = some[i].sound();
      if (sound && some[i].key == key) {
        places.match = number + i;
        places.slot = some[i];
        return places;
      }
      if (!sound && places.free < 0) places.free = number + i;
      if (some[i].empty()) return places;
    }
    probe += count;
  }
  return places;
}

ImageStore::Found ImageStore::find(const ImageKey& key, const Allocate& allocate) const {
  const Places places = look_up(key);
  if (places.match < 0) return Found::no;
  const Slot& slot = places.slot;
  const StoredShape shape = slot.shape();
  struct stat info {};
  // The size of the file bounds what is allocated.
  if (shape.bytes() < 1 || slot.offset < data_begin_ || ::fstat(fd_->get(), &info) != 0 ||
      slot.offset > info.st_size - shape.bytes() - static_cast<int64_t>(sizeof(uint64_t)))
    return Found::damaged;
  const std::span<uint8_t> pixels = allocate(shape);
  check(std::ssize(pixels) == shape.bytes(), "{} bytes for an image of {}", pixels.size(),
        shape.bytes());
  uint64_t stored = 0;
  const int64_t begin = slot.offset + static_cast<int64_t>(sizeof(stored));
  const bool whole = read_at(fd_->get(), &stored, sizeof(stored), slot.offset) == sizeof(stored) &&
                     read_at(fd_->get(), pixels.data(), pixels.size(), begin) == pixels.size();
  return whole && stored == slot.check_of(pixels) ? Found::yes : Found::damaged;
}

ImageStore::Kept ImageStore::fail(const char* what) {
  failure_ = fmt::format("{}: {}{}", options_.file, what, file_error_text(errno));
  failed_ = true;
  return Kept::failed;
}

ImageStore::Kept ImageStore::keep(const ImageKey& key, const StoredShape& shape,
                                  std::span<const uint8_t> pixels, bool damaged) {
  check(std::ssize(pixels) == shape.bytes() && shape.bytes() > 0 &&
            shape.height <= limits::kImageSide && shape.width <= limits::kImageSide &&
            (shape.channels == 1 || shape.channels == 3),
        "an image of {}x{}x{} in {} bytes", shape.height, shape.width, shape.channels,
        pixels.size());
  if (failed_) return Kept::failed;
  int64_t offset = 0;
  {
    const Locked locked(*this, kImpatience);
    if (!locked) return Kept::busy;
    Header header;
    if (!read_header(header)) {
      errno = EIO;
      return fail("the header is damaged: ");
    }
    const Places places = look_up(key);
    if (places.match >= 0 && !damaged) return Kept::yes;
    if (places.match < 0 && (places.free < 0 || header.images >= header.most_images()))
      return Kept::no_room;
    const int64_t bytes =
        round_up(static_cast<int64_t>(sizeof(uint64_t)) + shape.bytes(), kAlignment);
    if (bytes > options_.bytes - header.used) return Kept::no_room;
    offset = header.used;
    header.used += bytes;
    if (!write_header(header)) return fail("cannot write: ");
  }
  // No lock is needed: no other thread or process writes to the reserved space.
  if (!write_record(key, shape, pixels, offset)) {
    const int error = errno;
    const std::lock_guard lock(mutex_);
    errno = error;
    return fail("cannot write: ");
  }
  return write_slot(Slot::make(key, shape, offset), damaged);
}

bool ImageStore::write_record(const ImageKey& key, const StoredShape& shape,
                              std::span<const uint8_t> pixels, int64_t offset) {
  const uint64_t check = Slot::make(key, shape, offset).check_of(pixels);
  return write_at(fd_->get(), &check, sizeof(check), offset) &&
         write_at(fd_->get(), pixels.data(), pixels.size(),
                  offset + static_cast<int64_t>(sizeof(check)));
}

// Makes a record visible.
ImageStore::Kept ImageStore::write_slot(const Slot& slot, bool damaged) {
  const Locked locked(*this, kImpatience);
  if (!locked) return Kept::busy;
  const Places places = look_up(slot.key);
  if (places.match >= 0 && !damaged) return Kept::yes;
  const int64_t number = places.match >= 0 ? places.match : places.free;
  if (number < 0) return Kept::no_room;
  if (!write_at(fd_->get(), &slot, sizeof(slot),
                kPage + number * static_cast<int64_t>(sizeof(slot))))
    return fail("cannot write: ");
  Header header;
  if (places.match >= 0 || !read_header(header)) return Kept::yes;
  ++header.images;
  write_header(header);
  return Kept::yes;
}

ImageStore::Totals ImageStore::totals() const {
  Header header;
  if (!read_header(header)) return {};
  return {header.images, header.used};
}

std::string ImageStore::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace bv
