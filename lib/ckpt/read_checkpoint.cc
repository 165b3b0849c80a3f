#include "lib/ckpt/read_checkpoint.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <set>
#include <utility>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/checkpoint_meta.h"
#include "lib/ckpt/chunk_reader.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/util/error.h"

namespace bv {
namespace {

using Chunks = ChunkReader::Chunks;

// The row-major strides of a dense tensor, as safetensors files store it.
std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  return strides;
}

// One piece of a sharded tensor in a checkpoint's files, whether it is read or not.
struct StoredPiece {
  int64_t first = 0, count = 0;
  at::ScalarType type = at::kFloat;
  bool flat = true;  // has one dimension
};

// Throws unless the pieces cover the tensor exactly once and have one type, which is returned.
at::ScalarType check_pieces(const std::string& name, const PiecedTensor& tensor,
                            std::vector<StoredPiece> pieces) {
  std::sort(pieces.begin(), pieces.end(),
            [](const StoredPiece& a, const StoredPiece& b) { return a.first < b.first; });
  int64_t end = 0;
  bool good = !pieces.empty();
  for (const StoredPiece& piece : pieces) {
    good = good && piece.flat && piece.first == end && piece.type == pieces[0].type;
    end = piece.first + piece.count;
  }
  if (!good || end != tensor.numel()) {
    throw Error::bare(Exit::usage,
                      fmt::format("the pieces of '{}' do not cover it exactly once", name));
  }
  return pieces[0].type;
}

// Reads the files of one checkpoint.
class CheckpointReader {
 public:
  CheckpointReader(const std::string& folder, Manifest manifest, const ReadOptions& options)
      : folder_(folder), manifest_(std::move(manifest)), options_(options) {}

  Restored read(Chunks chunks) {
    restored_ = {manifest_.step, folder_, {}, std::move(manifest_.meta), {}, manifest_.keep};
    for (const auto& [name, layout] : manifest_.pieced)
      restored_.pieced[name] = {layout.shape, layout.strides};
    for (const Manifest::File& file : manifest_.files) {
      with_file(folder_, file, [&](const ChunkReader& reader, const std::string& path) {
        read_file(reader, path, chunks);
      });
    }
    for (const auto& [name, layout] : manifest_.pieced) finish_pieces(name);
    if (options_.sharded == ShardedAs::whole) assemble_all();
    return std::move(restored_);
  }

 private:
  using Ranges = std::vector<ChunkReader::Range>;

  void read_file(const ChunkReader& reader, const std::string& path, Chunks chunks) {
    Ranges ranges;
    for (const StoredTensor& stored : read_safetensors_index(reader, path)) {
      const auto [whole, first] = parse_piece_name(stored.name);
      if (manifest_.pieced.contains(whole)) {
        add_piece(whole, first, stored, ranges);
      } else if (names_.insert(stored.name).second && !manifest_.pieced.contains(stored.name)) {
        add_tensor(stored, ranges);
      } else {
        throw Error(Exit::usage, path,
                    fmt::format("tensor '{}' is in the checkpoint twice", stored.name));
      }
    }
    reader.read(std::move(ranges), chunks);
    for (const auto& [name, values, begin] : std::exchange(bools_, {}))
      check_bools(values, name, begin, path);
  }

  // Returns which elements of the tensor to read: at most [first, first + count).
  ElementRange wanted(const std::string& name, const std::vector<int64_t>& shape,
                      const std::vector<int64_t>& strides, int64_t first, int64_t count) const {
    if (!options_.wanted) return {first, first + count};
    const ElementRange range = options_.wanted(name, shape, strides);
    const int64_t begin = std::max(range.begin, first);
    return {begin, std::max(begin, std::min(range.end, first + count))};
  }

  void add_tensor(const StoredTensor& stored, Ranges& ranges) {
    const std::vector<int64_t> strides = row_major(stored.shape);
    const int64_t count = stored.count();
    const ElementRange range = wanted(stored.name, stored.shape, strides, 0, count);
    if (range.end - range.begin == count) {
      at::Tensor tensor = at::empty(stored.shape, stored.type);
      note_range(stored, tensor, 0, ranges);
      restored_.tensors.emplace(stored.name, std::move(tensor));
      return;
    }
    if (options_.sharded == ShardedAs::whole) return;  // not wanted
    PiecedTensor& tensor = restored_.pieced[stored.name];
    tensor = {stored.shape, strides, stored.type};
    add_range(tensor, stored, range, 0, ranges);
  }

  void add_piece(const std::string& whole, int64_t first, const StoredTensor& stored,
                 Ranges& ranges) {
    PiecedTensor& tensor = restored_.pieced.at(whole);
    pieces_[whole].push_back({first, stored.count(), stored.type, stored.shape.size() == 1});
    add_range(tensor, stored, wanted(whole, tensor.shape, tensor.strides, first, stored.count()),
              first, ranges);
  }

  void note_range(const StoredTensor& stored, at::Tensor& to, int64_t first, Ranges& ranges) {
    ranges.push_back(stored.range(to, first));
    if (stored.type == at::kBool) bools_.push_back({stored.name, to, ranges.back().begin});
  }

  // `first` is the index in the tensor of `stored`'s first element.
  void add_range(PiecedTensor& tensor, const StoredTensor& stored, const ElementRange& range,
                 int64_t first, Ranges& ranges) {
    if (range.begin == range.end) return;
    at::Tensor values = at::empty({range.end - range.begin}, stored.type);
    note_range(stored, values, range.begin - first, ranges);
    tensor.pieces.push_back({range.begin, std::move(values)});
  }

  void finish_pieces(const std::string& name) {
    PiecedTensor& tensor = restored_.pieced.at(name);
    tensor.type = check_pieces(name, tensor, std::move(pieces_[name]));
    std::sort(tensor.pieces.begin(), tensor.pieces.end(),
              [](const Piece& a, const Piece& b) { return a.first < b.first; });
  }

  void assemble_all() {
    for (const auto& [name, tensor] : restored_.pieced) {
      if (!tensor.pieces.empty()) restored_.tensors[name] = assemble(tensor);
    }
    restored_.pieced.clear();
  }

  const std::string& folder_;
  Manifest manifest_;
  const ReadOptions& options_;
  Restored restored_;
  std::set<std::string> names_;                             // of unsharded tensors
  std::map<std::string, std::vector<StoredPiece>> pieces_;  // of each sharded tensor
  struct Bools {
    std::string name;
    at::Tensor values;
    uint64_t begin = 0;  // in the file
  };
  std::vector<Bools> bools_;  // read from the current file as bool
};

Restored read_folder(const std::string& folder, const ReadOptions& options, Chunks chunks) {
  return read_whole(folder, [&] {
    Manifest manifest = read_manifest(folder);
    if (options.resumes) check_resumable(manifest.meta);
    return CheckpointReader(folder, std::move(manifest), options).read(chunks);
  });
}

}  // namespace

Manifest verify_checkpoint(const std::string& folder) {
  return read_whole(folder, [&] {
    Manifest manifest = read_manifest(folder);
    for (const Manifest::File& file : manifest.files) verify_file(folder, file);
    return manifest;
  });
}

Restored read_checkpoint(const std::string& folder, const ReadOptions& options) {
  return read_folder(folder, options, Chunks::all);
}

Restored read_wanted(const std::string& folder, const ReadOptions& options) {
  return read_folder(folder, options, Chunks::needed);
}

}  // namespace bv
