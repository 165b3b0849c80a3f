// ImageStore: a file of decoded images that the processes of one host share.
//
// The file has a header, a hash table of slots, and records. A record is a checksum and the pixels
// of an image. A slot says where the record of a key is, and has a checksum of its own. Readers
// take no lock: they copy a record into their own memory with pread() and then verify its checksum.
// Writers hold a lock twice, for microseconds each time: to reserve space and, once the record is
// written, to write its slot. So a record that a killed process left incomplete is never found, and
// disk corruption is detected.
//
// Nothing is mapped into memory: a full disk or a truncated file is an error of a system call, not
// a signal.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "lib/util/descriptor.h"
#include "lib/util/place.h"

namespace bv {

// What identifies an encoded image and the way in which it is decoded.
struct ImageKey {
  uint64_t low = 0, high = 0;
  bool operator==(const ImageKey&) const = default;
};

struct StoredShape {
  int64_t height = 0, width = 0;  // within 1 .. limits::kImageSide
  int64_t channels = 0;           // 1 or 3
  int64_t bytes() const { return height * width * channels; }
};

struct ImageStoreOptions {
  std::string file = {};
  Place place = {};       // of the budget in the config, for messages
  int64_t bytes = 0;      // the budget: the most that the file may take
  int64_t images = 0;     // for how many images the table is made
  uint64_t identity = 0;  // what the images were made from; a file with another one is replaced
  // The file is deleted as soon as this many processes have opened it. They keep using it, and its
  // memory is freed when the last of them ends. 0: the file is kept for later runs.
  int users = 0;
};

// Throws Error(Exit::usage) at `place` if the rest of a budget of `bytes` does not fit into
// `folder`, which has `free` bytes left. A cache in it takes `taken` bytes of the budget already.
void check_cache_space(const Place& place, int64_t bytes, int64_t taken, const std::string& folder,
                       double free);

// Thread-safe.
class ImageStore {
 public:
  // Opens the file, or makes it if there is none. A file whose table is too small for the budget is
  // replaced. Throws Error(Exit::usage) if the file cannot be opened or belongs to another user, or
  // if the budget exceeds the free space.
  explicit ImageStore(const ImageStoreOptions& options);
  // Deletes the file if it holds no image and no other process uses it.
  ~ImageStore();
  ImageStore(const ImageStore&) = delete;
  ImageStore& operator=(const ImageStore&) = delete;

  enum class Found { no, yes, damaged };
  // Looks for an image. If it is there, calls `allocate` with its shape to get the memory for its
  // pixels, and fills that memory. `damaged`: the image cannot be read, or its checksum is wrong;
  // the content of the memory is then undefined.
  using Allocate = std::function<std::span<uint8_t>(const StoredShape&)>;
  Found find(const ImageKey& key, const Allocate& allocate) const;

  enum class Kept {
    yes,
    no_room,  // in the budget
    failed,   // a write failed, see failure(); no further image is kept
    busy      // other processes hold the lock for long; this image is not kept
  };
  // Keeps an image, unless another process has done so meanwhile. `damaged`: find() found the image
  // damaged, so it is replaced.
  Kept keep(const ImageKey& key, const StoredShape& shape, std::span<const uint8_t> pixels,
            bool damaged);

  struct Totals {
    int64_t images = 0, bytes = 0;  // of all processes; bytes with the table
  };
  Totals totals() const;  // zeros if the file cannot be read
  // Returns why keep() returned Kept::failed.
  std::string failure() const;
  const std::string& file() const { return options_.file; }

 private:
  struct Header;
  struct Slot;
  struct Places;  // where a key is, or may be written
  class Locked;

  bool try_open();
  int64_t slots_for_budget() const;
  void begin(Header& header);
  bool outgrown(const Header& header) const;
  void check_space(int64_t taken) const;
  bool read_header(Header& header) const;
  bool write_header(Header header) const;
  Places look_up(const ImageKey& key) const;
  bool write_record(const ImageKey& key, const StoredShape& shape, std::span<const uint8_t> pixels,
                    int64_t offset);
  Kept write_slot(const Slot& slot, bool damaged);
  Kept fail(const char* what);

  const ImageStoreOptions options_;
  std::unique_ptr<Descriptor> fd_;
  int64_t slots_ = 0;
  int64_t data_begin_ = 0;
  mutable std::mutex mutex_;  // the lock of the file excludes only other processes
  std::atomic<bool> failed_{false};
  std::string failure_;  // guarded by mutex_
};

}  // namespace bv
