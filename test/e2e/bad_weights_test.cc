// Hostile weights files and archives, with the real binary (bad_input.h): training, --dry-run,
// predict and export.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "lib/ckpt/file_writer.h"
#include "lib/ckpt/formats/npy.h"
#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/zip.h"
#include "test/e2e/bad_input.h"

namespace bv::test {
namespace {

// Returns a safetensors file with this JSON header and `data` bytes of data.
std::string safetensors(const std::string& json, size_t data, std::optional<uint64_t> length = {}) {
  const uint64_t bytes = length.value_or(json.size());
  return std::string(reinterpret_cast<const char*>(&bytes), 8) + json + std::string(data, '\0');
}
std::string tensor(const std::string& name, const char* dtype, const char* shape,
                   const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}

std::string zip_of(const std::string& file, const std::map<std::string, std::string>& entries) {
  {
    FileWriter out(file);
    ZipWriter zip(out);
    for (const auto& [name, content] : entries)
      zip.add(name, {reinterpret_cast<const uint8_t*>(content.data()), content.size()});
    zip.finish();
    out.finish();
  }
  return read_file(file);
}

struct BadWeights : Bad {
  const std::string config = without_evals(read_file(source_file("configs/digits_cnn.yaml")));
  // Returns the error line for a file with this content.
  std::string line_for(const std::string& name, const std::string& content) {
    write(dir / name, content);
    return line(config + "\nmodel_init: " + (dir / name) + "\n");
  }
  // Checks that --dry-run, predict and export print the same line and write nothing.
  void same_everywhere(const std::string& name) {
    const std::string text = line(config + "\nmodel_init: " + (dir / name) + "\n");
    CHECK(here(run({"--config", dir / "c.yaml", "--dry-run"}).err) == text);
    write_npz(dir / "in.npz", {{"image", at::zeros({2, 8, 8, 1})}});
    const auto verb = [&](std::vector<std::string> args) {
      args.insert(args.end(), {"--config", dir / "c.yaml", "--output", dir / "o.npz"});
      const Finished finished = run(args);
      CHECK(finished.code == 2);
      CHECK(here(finished.err) == text);
      CHECK(!exists(dir / "o.npz"));
    };
    verb({"predict", "--input", dir / "in.npz", "--pp", ""});
    verb({"export", "--format", "npz", "--image-size", "8,8,1"});
  }
};

}  // namespace

TEST_CASE("hostile safetensors files") {
  BadWeights bad;
  const auto line = [&](const std::string& content) {
    return bad.line_for("m.safetensors", content);
  };
  const std::string at = "m.safetensors @ offset ";
  const std::string a = tensor("a", "F32", "[2]", "[0,8]");
  CHECK(line("") == "m.safetensors: error: the file is empty\n");
  CHECK(line("\1\2") ==
        at + "0: error: a safetensors file begins with 8 bytes of length, this one has 2 in all\n");
  CHECK(line(safetensors("{}", 0, 1000)) ==
        at + "0: error: header length 1000 does not fit in a file of 10 bytes\n");
  CHECK(line(safetensors("{}", 0, uint64_t{1} << 63)) ==
        at + "0: error: header length 9223372036854775808 is above the limit of 8388608 bytes (is "
             "this a safetensors file?)\n");
  CHECK(line(safetensors("{", 0, 100'000'000)) ==
        at + "0: error: header length 100000000 is above the limit of 8388608 bytes (is this a "
             "safetensors file?)\n");
  CHECK(line(safetensors("{" + a + "," + tensor("b", "F32", "[2]", "[4,12]") + "}", 12)) ==
        at + "62: error: tensor 'b' begins at byte 4 of the data, before the end of the one before "
             "it at byte 8\n");
  CHECK(line(safetensors("{" + a + "," + tensor("b", "F32", "[2]", "[12,20]") + "}", 20)) ==
        at + "62: error: tensor 'b' begins at byte 12 of the data, but the one before it ends at "
             "byte 8\n");
  CHECK(
      line(safetensors(
          "{" + tensor("a", "F32", "[2]", "[4611686018427387904,4611686018427387912]") + "}", 8)) ==
      at + "9: error: tensor 'a' ends at byte 4611686018427387912 of the data, which has 8\n");
  CHECK(line(safetensors("{" + tensor("a", "F32", "[2]", "[-8,0]") + "}", 8)) ==
        at + "56: error: expected a non-negative integer, got '-'\n");
  CHECK(line(safetensors("{" + a + "," + a + "}", 8)) == at + "62: error: 'a' appears twice\n");
  CHECK(line(safetensors("{" + tensor("a", "F32", "[3]", "[0,8]") + "}", 8)) ==
        at + "9: error: tensor 'a': shape and dtype take 12 bytes, data_offsets 8\n");
  CHECK(line(safetensors("{" + tensor("a", "F7", "[2]", "[0,8]") + "}", 8)) ==
        at + "9: error: tensor 'a': unknown dtype 'F7'; known: F64, F32, F16, BF16, I64, I32, I16, "
             "I8, U8, BOOL\n");
  bad.same_everywhere("m.safetensors");
  CHECK(line(safetensors("{\"a\":" + std::string(1'000'000, '['), 8)) ==
        at + "13: error: expected '{', got '['\n");
  // The largest header that is parsed.
  std::string many;
  while (many.size() < (8 << 20) - 100)
    many += (many.empty() ? "" : ",") + tensor(std::to_string(many.size()), "F32", "[2]", "[4,12]");
  CHECK(line(safetensors("{" + many + "}", 12)) ==
        at +
            "9: error: tensor '0' begins at byte 4 of the data, but the one before it ends at byte "
            "0\n");
  CHECK(line(safetensors("{" + tensor(std::string(1'000'000, 'n'), "F32", "[2]", "[0,8]") + "}",
                         8)) ==
        "m.safetensors: error: a name has 1000000 characters: " + std::string(40, 'n') + "...\n");
  CHECK(line(safetensors("{" + a + "}", 8))
            .starts_with("m.safetensors: error: missing in the file: Conv_0/bias, "));
  bad.same_everywhere("m.safetensors");
}

TEST_CASE("hostile npz files") {
  BadWeights bad;
  const auto line = [&](const std::string& content) { return bad.line_for("m.npz", content); };
  const auto zip = [&](const std::map<std::string, std::string>& entries) {
    return zip_of(bad.dir / "z.npz", entries);
  };
  const auto npy = [](const std::string& shape, const char* descr = "'<f4'",
                      const char* order = "False") {
    const std::string text =
        fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}\n", descr, order, shape);
    return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0' + text +
           std::string(8, '\0');
  };
  const std::string good = zip({{"params/a.npy", npy("(2,)")}});
  const std::string none = "not a zip archive, or cut off: it has no end-of-directory record\n";
  CHECK(line("") == "m.npz: error: the file is empty\n");
  CHECK(line(good.substr(0, good.size() - 5)) ==
        fmt::format("m.npz @ offset {}: error: {}", good.size() - 5, none));
  CHECK(line(good.substr(0, good.size() / 2)) ==
        fmt::format("m.npz @ offset {}: error: {}", good.size() / 2, none));
  const std::string at = "m.npz @ offset 42: error: 'params/a', byte ";
  for (const auto& [shape, error] : std::map<std::string, std::string>{
           {"(4611686018427387904,)", "10: the shape is too large"},
           {"(9223372036854775807, 2)", "10: the shape is too large"},
           {"(99999999999999999999,)", "61: integer of 2^63 or more"},
           {"(-1,)", "61: expected a non-negative integer, got '-'"},
           {"(1000000000,)",
            "10: shape (1000000000) and dtype take 4000000000 bytes, but there are 8"}}) {
    CHECK(line(zip({{"params/a.npy", npy(shape)}})) == at + error + "\n");
  }
  CHECK(line(zip({{"params/a.npy", npy("(1,)", "'|O'")}})) ==
        at + "20: dtype '|O' is not supported: pickled Python objects are never loaded\n");
  // Fortran order is supported: only the name is wrong.
  CHECK(
      line(zip({{"params/a.npy", npy("(1, 2)", "'<f4'", "True")}}))
          .ends_with("; not in the model: a (model_load: {dont_load: [PATTERN, ...]} leaves names "
                     "out)\n"));
  CHECK(
      line(zip({{"params/a.pkl", "x"}})).starts_with("m.npz: error: pickled weights can run code"));

  bad.same_everywhere("m.npz");

  // The directory of the archive contradicts its entries.
  const std::string two = zip({{"params/a.npy", npy("(2,)")}, {"params/b.npy", npy("(2,)")}});
  const size_t end = two.size() - 22, b = end - 58, a = b - 58;
  const auto lies = [&](size_t where, uint32_t value) {
    std::string content = two;
    std::memcpy(content.data() + where, &value, sizeof(value));
    return line(content);
  };
  CHECK(lies(a + 24, 1 << 30)
            .starts_with(
                fmt::format("m.npz @ offset {}: error: 'params/a.npy' claims to grow from ", a)));
  CHECK(lies(a + 42, 7) == "m.npz @ offset 7: error: no local header of 'params/a.npy' here\n");
  CHECK(lies(b + 42, 0) ==
        "m.npz @ offset 0: error: the local header of 'params/b.npy' does not agree with the "
        "directory\n");
  CHECK(lies(end + 8, 9 | 9 << 16) ==
        fmt::format("m.npz @ offset {}: error: 9 entries do not fit in a directory of 116 bytes\n",
                    a));
  std::string twice = two;
  for (size_t at_name = 0; (at_name = twice.find("params/b", at_name)) != std::string::npos;)
    twice[at_name + 7] = 'a';
  CHECK(line(twice) == fmt::format("m.npz @ offset {}: error: 'params/a.npy' appears twice\n", b));
}

TEST_CASE("zip bombs, as weights and as data") {
  BadWeights bad;
  const int64_t floats = int64_t{300} << 18;  // 300 MiB
  const std::string bomb = zip_of(
      bad.dir / "z.npz", {{"image.npy", npy_header("<f4", {floats}) +
                                            std::string(static_cast<size_t>(4 * floats), '\0')}});
  CHECK(bad.line_for("m.npz", bomb) ==
        "m.npz: error: its arrays would unpack to 300.0 MiB, but the model's parameters take 340.5 "
        "KiB\n");
  const std::string data =
      replaced(bad.config, kData, "data: {name: npz, fname: " + (bad.dir / "m.npz") + "}");
  const std::string line = bad.line(data);
  CHECK(line.starts_with("m.npz: error: its "));
  CHECK(line.ends_with(" KiB would unpack to 300.0 MiB: a zip bomb, or damaged\n"));
}

TEST_CASE("a weights file that is missing, or is something else") {
  BadWeights bad;
  const auto line = [&](const std::string& key, const std::string& path) {
    const std::string with = bad.config + "\n" + key + ": " + path + "\n";
    const std::string text = bad.line(with);
    CHECK(bad.line(with, {"--dry-run"}) == text);
    CHECK(bad.line(with, {"--dry-run", "--synthetic"}) == text);
    return text;
  };
  CHECK(line("model_init", bad.dir / "no.npz") ==
        "no.npz: error: no such weights file or checkpoint\n");
  CHECK(line("resume", bad.dir / "no.npz") ==
        "no.npz: error: no such weights file or checkpoint\n");
  write(bad.dir / "x.pth", "\x80\x02");
  CHECK(line("model_init", bad.dir / "x.pth") ==
        "x.pth: error: pickled weights can run code and are never loaded; convert them once in "
        "Python: safetensors.torch.save_file(torch.load(F, weights_only=True), 'F.safetensors') "
        "(docs/from-timm.md has the line for checkpoints of timm's train.py)\n");
  write(bad.dir / "t.txt", "hello");
  CHECK(line("model_init", bad.dir / "t.txt") ==
        "t.txt: error: neither an npz nor a safetensors file nor a folder with a checkpoint\n");
  std::filesystem::create_directory(bad.dir / "empty");
  CHECK(line("resume", bad.dir / "empty") ==
        bad.here(bad.dir / "empty") +
            ": error: holds no checkpoint (neither manifest.json nor step-<n>/ nor "
            "ckpt/step-<n>/)\n");
  write_npz(bad.dir / "a.npz", {{"params/img/a", at::ones({2})}});
  CHECK(line("model_init", (bad.dir / "a.npz") + ":txt") ==
        "a.npz: error: the file has nothing below 'txt'; it has img, params\n");
}

}  // namespace bv::test
