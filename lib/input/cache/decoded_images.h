// DecodedImages: the training images, decoded once and kept for the next passes.
//
// An image is found by a hash of its file's bytes and by how it is decoded. As without a cache,
// every pass reads the file itself, its label and everything else. So a changed file counts as
// another image, and an image that cannot be decoded fails in every pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/input/cache/image_store.h"
#include "lib/input/example.h"
#include "lib/input/pipeline.h"

namespace bv {

class Group;

// The key `cache` of `input`.
struct ImageCacheOptions {
  std::string folder;  // where the file of the cache is kept; empty: in memory
  Place folder_place;  // in the config, for messages
  int64_t bytes = 0;   // the budget of all processes of a host together
  Place bytes_place;   // in the config, for messages
  // The largest short side of a kept image; see Pipeline::shrink_decoded(). 0: no limit.
  int64_t short_side = 0;
};

// Throws Error(Exit::usage) if a run could not open the cache now: if less memory is available than
// the budget or, for a folder, if it cannot be made or written, or if it holds no cache yet and has
// less space than the budget. Makes nothing.
void check_cache_room(const ImageCacheOptions& options);

// Thread-safe.
class DecodedImages {
 public:
  struct Data {
    // The pp of each data set. Images of one that does not begin by decoding are not kept.
    std::vector<std::shared_ptr<const Pipeline>> pps = {};
    int64_t images = 0;  // in the data sets whose images are kept
    // Of all data sets: a cache in a folder is kept for data of this size with these labels.
    uint64_t fingerprint = 0;
  };
  // Opens the cache. All ranks must call this together: those of one host share a cache. Throws
  // Error(Exit::usage) if there is less room than the budget, or the cache cannot be opened.
  DecodedImages(ImageCacheOptions options, Data data, Group& group);
  ~DecodedImages();

  // Returns the same as Pipeline::decode() for an example of data set `part`: from the cache, or
  // decoded and then kept.
  at::Tensor image(size_t part, const Example& example);

 private:
  ImageStoreOptions store_options(Group& group) const;
  ImageStore::Kept keep(const ImageKey& key, const at::Tensor& image, bool damaged);
  void count(ImageStore::Found found, ImageStore::Kept kept);
  void tell_first_pass();
  void tell_full();

  const ImageCacheOptions options_;
  const Data data_;
  int64_t pass_ = 0;  // how many images a pass of this process has
  std::unique_ptr<ImageStore> store_;
  int64_t earlier_ = 0;  // how many images a cache in a folder had when it was opened
  std::atomic<int64_t> asked_{0}, damaged_{0};
  // Of the first pass. Loader threads finish in any order, so images of the second pass may be
  // among those that are counted before the last one of the first.
  std::atomic<int64_t> found_{0}, no_room_{0}, counted_{0};
  std::atomic<bool> told_full_{false}, told_damaged_{false}, told_failure_{false};
};

}  // namespace bv
