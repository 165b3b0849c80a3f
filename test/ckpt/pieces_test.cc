// Tensors in pieces, and checkpoints that several ranks write together.
#include "lib/ckpt/pieces.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <random>
#include <set>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/manifest.h"
#include "lib/util/error.h"
#include "lib/util/file.h"
#include "test/ckpt/support.h"
#include "test/support/clock.h"
#include "test/support/text.h"

// Called after every rename(2) of this program with the new name. It simulates another process that
// acts before the caller continues.
static std::function<void(const std::string&)> after_rename;

extern "C" int rename(const char* from, const char* to) noexcept {
  const auto result = ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
  if (result == 0 && after_rename) after_rename(to);
  return static_cast<int>(result);
}

namespace bv::test {
namespace {

namespace fs = std::filesystem;

// Returns a tensor (3, 4, 5) whose memory has the order (5, 3, 4). Each element is its place in
// memory.
at::Tensor permuted() { return at::arange(60, at::kFloat).view({5, 3, 4}).permute({1, 2, 0}); }

PiecedTensor cut(const at::Tensor& whole, const std::vector<int64_t>& bounds) {
  PiecedTensor tensor{whole.sizes().vec(), whole.strides().vec(), whole.scalar_type()};
  const at::Tensor flat = whole.as_strided({whole.numel()}, {1}, 0);
  for (size_t i = 0; i + 1 < bounds.size(); ++i)
    tensor.pieces.push_back({bounds[i], flat.narrow(0, bounds[i], bounds[i + 1] - bounds[i])});
  return tensor;
}

// Returns what rank r of 2 saves at `step`. Rank 0 has the first 20 elements.
Snapshot state_of_rank(int rank, int64_t step) {
  Snapshot snapshot;
  snapshot.step = step;
  if (rank == 0) {
    snapshot.tensors["opt/count"] = at::full({}, step, at::kLong);
    snapshot.meta = {{"step_too", step}};
  }
  PiecedTensor all = cut(permuted() + static_cast<double>(step), {0, 20, 60});
  all.pieces = {all.pieces.at(rank)};
  snapshot.pieced["params/kernel"] = all;
  PiecedTensor there = cut(at::ones({7}, at::kBFloat16), {0, 7});
  if (rank == 0) there.pieces.clear();  // rank 0 has nothing of this tensor
  snapshot.pieced["opt/mu/bias"] = there;
  return snapshot;
}

const ReadOptions kPieces = {.sharded = ShardedAs::pieces};

Writers writers(int rank, double patience = 20) { return {rank, 2, "5a", patience}; }

void save_pieces(const Workdir& workdir, int64_t step) {
  Checkpointer first(workdir, writers(0)), second(workdir, writers(1));
  first.save(state_of_rank(0, step), true);
  second.save(state_of_rank(1, step), true);
  second.wait();
  first.wait();
}

}  // namespace

TEST_CASE("pieces: names, and strides without gaps") {
  CHECK(piece_name("params/a", 640) == "params/a@640");
  CHECK(parse_piece_name("params/a@640") == std::pair<std::string, int64_t>("params/a", 640));
  for (const char* none : {"params/a", "params/a@", "params/a@-1", "params/a@1x", "@",
                           "params/a@1152921504606846976", "params/a@9223372036854775807"})
    CHECK(parse_piece_name(none).first.empty());
  CHECK(dense_strides({3, 4, 5}, {4, 1, 12}));
  CHECK(dense_strides({}, {}));
  CHECK(dense_strides({2, 1, 3}, {3, 77, 1}));  // an axis of length 1 may have any stride
  CHECK_FALSE(dense_strides({3, 4, 5}, {4, 1, 13}));
  CHECK_FALSE(dense_strides({3, 4}, {1, 1}));
  CHECK_FALSE(dense_strides({3, 4}, {4}));
  CHECK_FALSE(dense_strides({3, -4}, {4, 1}));
  CHECK_FALSE(dense_strides({0, 4}, {4, 1}));
  CHECK_FALSE(dense_strides({int64_t{1} << 40, int64_t{1} << 40}, {1, int64_t{1} << 40}));
}

TEST_CASE("pieces: any range of any cut, with any strides") {
  std::mt19937 random(4);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  const at::Tensor whole = permuted();
  const std::vector<int64_t> strides = whole.strides().vec();
  const at::Tensor flat = at::arange(60, at::kFloat);
  for (int i = 0; i < 200; ++i) {
    std::vector<int64_t> bounds = {0, 60, below(60), below(60)};
    std::sort(bounds.begin(), bounds.end());
    const PiecedTensor tensor = cut(whole, bounds);
    CHECK(assemble(tensor).equal(whole));
    CHECK(assemble(tensor).strides() == whole.strides());
    const int64_t first = below(60), count = 1 + below(60 - first);
    const at::Tensor expected = flat.narrow(0, first, count);
    at::Tensor out = at::zeros({count});
    copy_range(out, first, strides, tensor);
    CHECK(out.equal(expected));
    copy_range(out.zero_(), first, strides, whole.contiguous());
    CHECK(out.equal(expected));
    // As in a file of another build, which orders the memory differently.
    copy_range(out.zero_(), first, strides, cut(whole.contiguous(), bounds));
    CHECK(out.equal(expected));
  }
}

TEST_CASE("pieces: two writers make one checkpoint") {
  const MemoryFolder folder;
  const Workdir workdir(folder / "run");
  make_folders(folder / "run/ckpt/step-5.0b.tmp");  // left by a killed save of another start
  save_pieces(workdir, 5);
  CHECK(names_in(folder / "run/ckpt") == std::set<std::string>{"LAST", "step-5"});
  CHECK(names_in(folder / "run/ckpt/step-5") ==
        std::set<std::string>{"manifest.json", "state-00000-of-00002.safetensors",
                              "state-00001-of-00002.safetensors"});
  const Restored together = *Checkpointer::latest(workdir);
  CHECK(together.meta == nlohmann::json{{"step_too", 5}});
  CHECK(together.pieced.empty());
  CHECK(together.tensors.size() == 3);
  CHECK(together.tensors.at("params/kernel").equal(permuted() + 5));
  CHECK(together.tensors.at("opt/mu/bias").equal(at::ones({7}, at::kBFloat16)));
  for (const Restored& apart : {*Checkpointer::latest(workdir, kPieces),
                                Checkpointer::reopen(folder / "run/ckpt/step-5", kPieces)}) {
    CHECK(apart.tensors.size() == 1);
    REQUIRE(apart.pieced.size() == 2);
    CHECK(apart.pieced.at("params/kernel").pieces.size() == 2);
    CHECK(assemble(apart.pieced.at("params/kernel")).equal(permuted() + 5));
  }
}

TEST_CASE("pieces: a rank reads its slices, and checks what it reads") {
  const MemoryFolder folder;
  const Workdir workdir(folder / "run");
  save_pieces(workdir, 5);
  const std::string step = folder / "run/ckpt/step-5";
  ReadOptions options = kPieces;
  options.wanted = [](const std::string& name, const std::vector<int64_t>& shape,
                      const std::vector<int64_t>& strides) -> ElementRange {
    if (name != "params/kernel") return {0, name == "opt/count" ? 1 : 0};
    CHECK(shape == permuted().sizes().vec());
    CHECK(strides == permuted().strides().vec());
    return {15, 35};  // of both ranks' files
  };
  const at::Tensor expected = at::arange(15, 35, at::kFloat) + 5;
  for (const bool whole : {false, true}) {
    const Restored read =
        whole ? *Checkpointer::latest(workdir, options) : Checkpointer::reopen(step, options);
    CHECK(read.tensors.size() == 1);
    const PiecedTensor& kernel = read.pieced.at("params/kernel");
    REQUIRE(kernel.pieces.size() == 2);
    CHECK(kernel.pieces[0].first == 15);
    CHECK(kernel.pieces[0].values.numel() == 5);
    at::Tensor slice = at::zeros({20});
    copy_range(slice, 15, permuted().strides().vec(), kernel);
    CHECK(slice.equal(expected));
    CHECK(read.pieced.at("opt/mu/bias").pieces.empty());
    CHECK(read.pieced.at("opt/mu/bias").type == at::kBFloat16);
  }
  // One flipped bit of a weight: every rank must detect it, not only rank 0.
  const std::string file = step + "/state-00001-of-00002.safetensors";
  std::string content = read_file(file);
  content[content.size() - 20] ^= 1;
  write_file_atomically(file, content);
  const std::string other =
      ", although rank 0 has read it without a fault (do both see the same disk?)";
  CHECK(error_of([&] { Checkpointer::reopen(step, kPieces); }, Exit::storage) ==
        step + ": error: state-00001-of-00002.safetensors: checksum of chunk 0 (offset 0) differs" +
            other);
  CHECK(error_of([&] { Checkpointer::reopen(folder / "elsewhere", kPieces); }, Exit::usage) ==
        folder / "elsewhere" + ": error: manifest.json: is missing" + other);
}

TEST_CASE("pieces: the folder may be renamed as soon as the last part is written") {
  const MemoryFolder folder;
  const Workdir workdir(folder / "run");
  bool moved = false;
  after_rename = [&](const std::string& to) {  // rank 0 renames the folder at once
    if (!to.ends_with("part-1.json")) return;
    const std::string from = fs::path(to).parent_path();
    moved = ::syscall(SYS_renameat2, AT_FDCWD, from.c_str(), AT_FDCWD,
                      (folder / "run/ckpt/step-5").c_str(), 0) == 0;
  };
  Checkpointer second(workdir, writers(1));
  second.save(state_of_rank(1, 5), false);
  CHECK_NOTHROW(second.wait());
  after_rename = nullptr;
  CHECK(moved);
}

TEST_CASE("pieces: a step may be saved again before rank 0 has committed it") {
  const MemoryFolder folder;
  const Workdir workdir(folder / "run");
  std::atomic<bool> go = false;
  Checkpointer first(workdir, writers(0)), second(workdir, writers(1));
  Snapshot held = state_of_rank(0, 5);
  held.before_commit = [&] { CHECK(wait_until([&] { return go.load(); })); };
  first.save(std::move(held), false);
  for (const bool keep : {false, true}) second.save(state_of_rank(1, 5), keep);
  second.wait();  // for both saves
  go = true;
  first.save(state_of_rank(0, 5), true);
  CHECK_NOTHROW(first.wait());
  CHECK(names_in(folder / "run/ckpt") == std::set<std::string>{"LAST", "step-5"});
  CHECK(names_in(folder / "run/ckpt/step-5") ==
        std::set<std::string>{"manifest.json", "state-00000-of-00002.safetensors",
                              "state-00001-of-00002.safetensors"});
  CHECK(read_manifest(folder / "run/ckpt/step-5").keep);
  CHECK(Checkpointer::latest(workdir)->tensors.at("params/kernel").equal(permuted() + 5));
}

TEST_CASE("pieces: a rank that does not write its part ends the save with its name") {
  const MemoryFolder folder;
  const Workdir workdir(folder / "run");
  save_pieces(workdir, 5);
  Checkpointer alone(workdir, writers(0, /*patience=*/0.1));
  alone.save(state_of_rank(0, 6), false);
  CHECK(error_of([&] { alone.wait(); }, Exit::storage) ==
        folder / "run/ckpt/step-6.1.5a.tmp" +
            ": error: rank 1 has not written its part of the checkpoint within 0.1 s (do all ranks "
            "see the same workdir?)");
  CHECK(names_in(folder / "run/ckpt") == std::set<std::string>{"LAST", "step-5"});
  CHECK(Checkpointer::latest(workdir)->step == 5);
}

TEST_CASE("pieces: rank 0 waits once for all ranks that do not write, not for each") {
  const MemoryFolder folder;
  const Workdir workdir(folder / "run");
  const double patience = 0.5;
  Checkpointer alone(workdir, {0, 40, "5a", patience});
  alone.save(state_of_rank(0, 6), false);
  const auto start = std::chrono::steady_clock::now();
  CHECK(contains(error_of([&] { alone.wait(); }, Exit::storage), "rank 1 has not written"));
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  CHECK(waited.count() < 20 * patience);
}

TEST_CASE("pieces: a damaged part file of another rank ends the save") {
  const MemoryFolder folder;
  const Workdir workdir(folder / "run");
  const std::string unfinished = folder / "run/ckpt/step-6.1.5a.tmp";
  make_folders(unfinished);
  write_file_atomically(unfinished + "/part-1.json", "garbage");
  Checkpointer first(workdir, writers(0));
  first.save(state_of_rank(0, 6), false);
  CHECK(error_of([&] { first.wait(); }, Exit::storage) ==
        unfinished + ": error: part-1.json: is cut off");
  CHECK(names_in(folder / "run/ckpt").empty());
}

TEST_CASE("pieces: pieces that do not cover a tensor exactly are refused") {
  const MemoryFolder folder;
  const Workdir workdir(folder / "run");
  const auto with = [&](const std::function<void(Snapshot&)>& spoil) {
    Checkpointer first(workdir, writers(0)), second(workdir, writers(1));
    Snapshot other = state_of_rank(1, 5);
    spoil(other);
    first.save(state_of_rank(0, 5), false);
    second.save(std::move(other), false);
    second.wait();
    first.wait();
    return error_of([&] { Checkpointer::load(folder / "run/ckpt/step-5"); });
  };
  const std::string line = folder / "run/ckpt/step-5" +
                           ": error: the pieces of 'params/kernel' do not cover it exactly once";
  const auto piece = [](Snapshot& s) -> Piece& { return s.pieced["params/kernel"].pieces[0]; };
  CHECK(with([](Snapshot&) {}) == "");
  CHECK(with([&](Snapshot& s) { s.pieced["params/kernel"].pieces.clear(); }) == line);
  CHECK(with([&](Snapshot& s) { piece(s).first = 19; }) == line);
  CHECK(with([&](Snapshot& s) { piece(s).values = at::ones({41}); }) == line);
  CHECK(with([&](Snapshot& s) { piece(s).values = at::ones({40, 1}); }) == line);
  CHECK(with([&](Snapshot& s) { piece(s).values = at::ones({40}, at::kDouble); }) == line);
}

TEST_CASE("pieces: a manifest with strides that fit no shape is refused") {
  const MemoryFolder folder;
  make_folders(folder / "c");
  Manifest manifest;
  manifest.meta = nlohmann::json::object();
  manifest.pieced["params/a"] = {{3, 4}, {4, 1}};
  write_file_atomically(folder / "c/manifest.json", manifest.text());
  CHECK(read_manifest(folder / "c").pieced.at("params/a").strides == std::vector<int64_t>{4, 1});
  manifest.pieced["params/a"].strides = {5, 1};
  write_file_atomically(folder / "c/manifest.json", manifest.text());
  CHECK(error_of([&] { read_manifest(folder / "c"); }) ==
        "manifest.json: 'params/a' has strides that do not fit its shape");
}

}  // namespace bv::test
