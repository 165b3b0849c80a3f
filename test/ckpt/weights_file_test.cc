// The format of a weights file, where its weights are, and rejected files.
#include "lib/ckpt/weights_file.h"

#include <ATen/ATen.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <random>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/formats/npy.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/formats/zip.h"
#include "lib/util/file.h"
#include "test/ckpt/support.h"

namespace bv::test {

namespace {

std::string names(const NamedTensors& tree) {
  std::string all;
  for (const auto& [name, value] : tree) all += (all.empty() ? "" : " ") + name;
  return all;
}

const at::Tensor kOne = at::ones({2});

}  // namespace

TEST_CASE("weights: the roots of an npz file, and a subtree of each") {
  const MemoryFolder folder;
  const std::string file = folder / "w.npz";
  const auto read = [&](const std::string& suffix = "") {
    return names(read_weights(file + suffix, 0));
  };
  write_npz(file, {{"params/img/a", kOne},
                   {"params/img/b/c", kOne},
                   {"params/txt/a", kOne},
                   {"opt/target/x", kOne},
                   {"opt/count", kOne},
                   {"buffers/img/mean", kOne}});
  CHECK(read() == "buffers/img/mean img/a img/b/c txt/a");
  CHECK(read(":img") == "a b/c buffers/mean");
  CHECK(read(":img/b/") == "c");
  CHECK(read(":opt/target") == "x");
  const auto refused = [&](const std::string& suffix) {
    const std::string line = error_of([&] { read(suffix); });
    REQUIRE(line.starts_with(file + ": error: the file has nothing below '"));
    return line.substr(line.find("below ") + 6);
  };
  CHECK(refused(":im") == "'im' (did you mean 'img'?); it has buffers, img, opt, params, txt");
  CHECK(refused(":img/bb") ==
        "'img/bb' (did you mean 'img/b'?); it has buffers/img, img/b, opt/target, params/img, "
        "params/txt");
  CHECK(refused(":a/b/c/d") == "'a/b/c/d'; it has img, txt");
  CHECK(error_of([&] { read(":"); }) == file + ":: error: a name must follow the ':'");
  write_npz(file, {{"opt/target/x/y", kOne}, {"opt/state", kOne}});
  CHECK(read() == "x/y");
  CHECK(read(":x") == "y");
  write_npz(file, {{"embedding/kernel", kOne}, {"head/bias", kOne}});
  CHECK(read() == "embedding/kernel head/bias");
  CHECK(refused(":Head") == "'Head' (did you mean 'head'?); it has embedding, head");
  write_npz(file, {{"params", kOne}});
  CHECK(refused(":x") == "'x'; it has no subtrees");
  NamedTensors many;
  for (int i = 0; i < 30; ++i) many[fmt::format("block{:02}/x", i)] = kOne;
  write_npz(file, many);
  CHECK(refused(":elsewhere") ==
        "'elsewhere'; it has block00, block01, block02, block03, block04, block05, block06, "
        "block07, block08, block09, block10, block11 and 18 more");
}

TEST_CASE("weights: a safetensors file, a folder of one, and a checkpoint") {
  const MemoryFolder folder;
  write_safetensors(folder / "a.safetensors", {{"vit.x.weight", kOne}, {"head.bias", kOne}});
  CHECK(names(read_weights(folder / "a.safetensors", 0)) == "head.bias vit.x.weight");
  CHECK(names(read_weights((folder / "a.safetensors") + ":vit", 0)) == "x.weight");
  // The content determines the format, not the name.
  std::filesystem::copy(folder / "a.safetensors", folder / "weights");
  CHECK(names(read_weights(folder / "weights", 0)) == "head.bias vit.x.weight");
  CHECK_FALSE(is_checkpoint(folder / "weights"));
  write_npz(folder / "npz.safetensors", {{"params/a", kOne}});
  CHECK(names(read_weights(folder / "npz.safetensors", 0)) == "a");
  CHECK_NOTHROW(peek_weights(folder / "npz.safetensors"));
  std::filesystem::copy(folder / "a.safetensors", folder / "safetensors.npz");
  CHECK(names(read_weights(folder / "safetensors.npz", 0)) == "head.bias vit.x.weight");
  CHECK_NOTHROW(peek_weights(folder / "safetensors.npz"));

  std::filesystem::create_directory(folder / "hub");
  CHECK(is_checkpoint(folder / "hub"));
  std::filesystem::copy(folder / "a.safetensors", folder / "hub/model.safetensors");
  CHECK_FALSE(is_checkpoint(folder / "hub"));
  CHECK(names(read_weights(folder / "hub", 0)) == "head.bias vit.x.weight");

  const Workdir workdir(folder / "run");
  std::filesystem::create_directory(workdir.dir());
  Checkpointer checkpointer(workdir);
  checkpointer.save({3,
                     {{"params/a", kOne},
                      {"params/frozen", kOne},
                      {"opt/m/a", kOne},
                      {"ema/a", kOne},
                      {"ema/mean", kOne},
                      {"buffers/mean", kOne}},
                     {}},
                    false);
  checkpointer.wait();
  CHECK(names(read_weights(workdir.dir(), 0)) == "a buffers/mean frozen");
  // Frozen parameters have no average.
  CHECK(names(read_weights(workdir.dir() + ":ema", 0)) == "a buffers/mean frozen");
  CHECK(names(read_weights(workdir.ckpt().step(3), 0)) == "a buffers/mean frozen");

  // Files of others in the workdir: an export, and a manifest.json of something else.
  std::filesystem::copy(folder / "a.safetensors", folder / "run/model.safetensors");
  CHECK(is_checkpoint(workdir.dir()));
  CHECK(peek_weights(workdir.dir()) == std::nullopt);
  CHECK(names(read_weights(workdir.dir(), 0)) == "a buffers/mean frozen");
  CHECK(names(read_weights(workdir.dir() + ":ema", 0)) == "a buffers/mean frozen");
  CHECK(names(read_weights(folder / "run/model.safetensors", 0)) == "head.bias vit.x.weight");
  write(folder / "run/manifest.json", R"({"files": []})");
  CHECK_FALSE(is_checkpoint_folder(workdir.dir()));
  CHECK(is_checkpoint_folder(workdir.ckpt().step(3)));
  CHECK(Checkpointer::load(workdir.dir()).step == 3);
  CHECK(Checkpointer::peek(workdir.dir())->step == 3);
  CHECK(names(read_weights(workdir.dir(), 0)) == "a buffers/mean frozen");
}

TEST_CASE("weights: a folder of weights under other names is told from one of a run") {
  const MemoryFolder folder;
  write_safetensors(folder / "vit.safetensors", {{"head.bias", kOne}});
  write(folder / "README.md", "a model");
  const auto line = [&] { return error_of([&] { read_weights(folder.path(), 0); }); };
  const std::string begin =
      folder.path() + ": error: holds no checkpoint and no model.safetensors; ";
  CHECK(line() == begin + "give the file itself: " + (folder / "vit.safetensors"));
  write(folder / "pytorch_model.bin", "x");
  CHECK(line() == begin + "give the file itself: " + (folder / "pytorch_model.bin") + ", " +
                      (folder / "vit.safetensors"));
  write(folder / "model.safetensors.index.json", "{}");
  CHECK(line() == begin + "its weights are in several files: save them as one model.safetensors");
}

TEST_CASE("weights: pickles are refused by name and by content, with advice") {
  const MemoryFolder folder;
  const std::string advice =
      ": error: pickled weights can run code and are never loaded; convert them once in Python: "
      "safetensors.torch.save_file(torch.load(F, weights_only=True), 'F.safetensors') "
      "(docs/from-timm.md has the line for checkpoints of timm's train.py)";
  for (const char* name : {"a.pth", "a.pt", "a.bin", "a.ckpt", "a.pkl"}) {
    write(folder / name, "anything");
    CHECK(error_of([&] { read_weights(folder / name, 0); }) == (folder / name) + advice);
  }
  write(folder / "pickle", "\x80\x02}q\x01.");
  CHECK(error_of([&] { read_weights(folder / "pickle", 0); }) == (folder / "pickle") + advice);
  replace_file(folder / "zip", [](FileWriter& out) {  // as torch.save writes it
    ZipWriter zip(out);
    const std::string pickle = "\x80\x02}q\x01.";
    zip.add("archive/data.pkl", {reinterpret_cast<const uint8_t*>(pickle.data()), pickle.size()});
    zip.finish();
  });
  CHECK(error_of([&] { read_weights(folder / "zip", 0); }) == (folder / "zip") + advice);
}

TEST_CASE("weights: what is not a weights file is refused") {
  const MemoryFolder folder;
  CHECK(error_of([&] { read_weights(folder / "none.npz", 0); }) ==
        (folder / "none.npz") + ": error: no such weights file or checkpoint");
  CHECK(error_of([] { read_weights("howto-i21k-B/16", 0); }) ==
        "howto-i21k-B/16: error: no such weights file or checkpoint (big_vision's short names of "
        "published files are not looked up: download the file and give its path)");
  CHECK(error_of([] { read_weights("gs://vit_models/a.npz", 0); }).find("gs://") == 0);
  write(folder / "text", "hello, world");
  CHECK(error_of([&] { read_weights(folder / "text", 0); }) ==
        (folder / "text") +
            ": error: neither an npz nor a safetensors file nor a folder with a checkpoint");
  write(folder / "empty", "");
  CHECK(error_of([&] { read_weights(folder / "empty", 0); }) ==
        (folder / "empty") + ": error: the file is empty");
  write(folder / "pointer.npz", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  CHECK(error_of([&] { read_weights(folder / "pointer.npz", 0); }) ==
        (folder / "pointer.npz") +
            ": error: this is a git-LFS pointer, not the data itself: run 'git lfs pull' where it "
            "came from");
  write(folder / "page.safetensors", "<!DOCTYPE html><title>404</title>");
  CHECK(error_of([&] { read_weights(folder / "page.safetensors", 0); }) ==
        (folder / "page.safetensors") +
            ": error: this is an HTML page, probably an error message of a web server: download it "
            "again");
  CHECK(error_of([&] { read_weights(folder.path(), 0); }).find("holds no checkpoint") !=
        std::string::npos);
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0666) == 0);
  CHECK(error_of([&] { peek_weights(folder / "fifo"); }) ==
        (folder / "fifo") + ": error: is a pipe, not a file");
}

TEST_CASE("weights: a zip bomb is refused before it is unpacked") {
  const MemoryFolder folder;
  const std::string file = folder / "bomb.npz";
  const std::string header = npy_header("<f4", {65 << 20});
  std::string content = header;
  content.resize(header.size() + (size_t{260} << 20));
  replace_file(file, [&](FileWriter& out) {
    ZipWriter zip(out);
    zip.add("params/a.npy", {reinterpret_cast<const uint8_t*>(content.data()), content.size()});
    zip.add("opt/b.npy", {reinterpret_cast<const uint8_t*>(content.data()), content.size()});
    zip.finish();
  });
  content.clear();
  CHECK(std::filesystem::file_size(file) < (size_t{2} << 20));
  CHECK(error_of([&] { read_weights(file, 4000); }) ==
        file +
            ": error: its arrays would unpack to 260.0 MiB, but the model's parameters take "
            "3.9 KiB");
  CHECK(names(read_weights(file, uint64_t{260} << 20)) == "a");
}

TEST_CASE("weights: damaged files give an Error, and nothing worse") {
  const MemoryFolder folder;
  const NamedTensors tree = {{"params/Transformer/encoderblock_0/a", at::arange(30, at::kFloat)},
                             {"params/head/kernel", at::ones({3, 4})},
                             {"opt/b", at::ones({5}, at::kHalf)}};
  write_npz(folder / "a.npz", tree);
  write_safetensors(folder / "a.safetensors", tree);
  std::mt19937 random(5);
  const std::string file = folder / "damaged";
  int refused = 0;
  for (const char* name : {"a.npz", "a.safetensors"}) {
    const std::string whole = read_file(folder / name);
    for (size_t bytes = 0; bytes < whole.size(); bytes += 7) {
      write(file, whole.substr(0, bytes));
      CHECK(error_of([&] { read_weights(file, 1000); }) != "");
    }
    for (int i = 0; i < 1500; ++i) {
      write(file, mutated(whole, random));
      refused +=
          error_of([&] { read_weights(file, 1000); }) != "";  // any other exception ends the test
    }
  }
  CHECK(refused > 1000);
}

}  // namespace bv::test
