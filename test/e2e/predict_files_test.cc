// bvtrain export and predict with image files: a model in one file, images that cannot be read,
// lists on standard input, every output.
#include <ATen/ops/full.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/formats/safetensors.h"
#include "lib/ckpt/model_card.h"
#include "lib/ckpt/weights_file.h"
#include "lib/input/image/jpeg.h"
#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/support/binary.h"
#include "test/support/compare.h"
#include "test/support/golden.h"
#include "test/support/limits.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

constexpr const char* kJpegConfig = R"(
num_classes: 3
total_steps: 3
precision: auto
input:
  data: {name: image_folder, data_dir: DATA}
  batch_size: 4
  pp: decode(1)|resize(8)|value_range(-1, 1)|onehot(3, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [4], dense: 8}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.05
ema: {decay: 0.5}
log_training_steps: 3
evals:
  val: {type: classification, data: {name: image_folder, data_dir: DATA}, loss_name: softmax_xent,
        pp_fn: 'decode(1)|resize(8)|value_range(-1, 1)|onehot(3, key="label", key_result="labels")|keep("image", "labels")'}
)";

void write_jpeg(const std::string& file, int grey, int64_t side = 9) {
  const at::Tensor bytes = encode_jpeg(at::full({side, side, 1}, grey, at::kByte), 90);
  write(file, {reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()), bytes.nbytes()});
}

// A model that was trained on three classes of JPEG files, its export, and some files to predict:
// three images, then `broken.jpg`, which is cut off, and `empty.jpg`.
struct TrainedOnJpegs {
  TempFolder dir;
  const std::vector<std::string> images = {dir / "new/a.jpg", dir / "new/b.jpg", dir / "new/c.jpg"};

  TrainedOnJpegs() {
    const std::vector<std::string> classes = {"ant", "bee, \"big\"", "cat"};
    for (int i = 0; i < 12; ++i)
      write_jpeg(dir / "data/" + classes[i % 3] + "/" + std::to_string(i) + ".jpg", 20 * i);
    write(dir / "c.yaml", replace_all(kJpegConfig, "DATA", dir / "data"));
    succeed({"--config", dir / "c.yaml", "--workdir", dir / "w"});
    succeed({"export", "--workdir", dir / "w", "--output", dir / "m.safetensors"});
    for (size_t i = 0; i < images.size(); ++i) write_jpeg(images[i], 100 * static_cast<int>(i));
    write(dir / "new/broken.jpg", read_file(images[0]).substr(0, 100));
    write(dir / "new/empty.jpg", "");
  }
  Finished succeed(const std::vector<std::string>& args) const {
    Finished finished = run(args);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return finished;
  }
  // Runs `predict --weights m.safetensors` with more arguments.
  Finished predict(std::vector<std::string> more) const {
    more.insert(more.begin(), {"predict", "--weights", dir / "m.safetensors"});
    return run(more);
  }
  // Runs the same with a file as standard input.
  Finished predict_list(const std::string& list, const std::string& more) const {
    return Process("/bin/sh",
                   {"sh", "-c",
                    "exec \"$BVTRAIN\" predict --weights '" + (dir / "m.safetensors") +
                        "' --input - " + more + " < '" + dir.write("list", list) + "'"},
                   {})
        .wait();
  }
  // Returns a text with the name of the folder left out.
  std::string here(std::string text) const {
    for (size_t at; (at = text.find(dir.path() + "/")) != std::string::npos;)
      text.erase(at, dir.path().size() + 1);
    return text;
  }
};

std::vector<nlohmann::json> json_rows(const std::string& text) {
  std::vector<nlohmann::json> rows;
  for (const std::string& line : split(trim(text), '\n'))
    rows.push_back(nlohmann::json::parse(line));
  return rows;
}

}  // namespace

TEST_CASE("an exported file predicts the same bits as its run, alone and in every format") {
  const TrainedOnJpegs t;
  const auto logits = [&](std::vector<std::string> args) {
    args.insert(args.begin(), "predict");
    args.insert(args.end(), t.images.begin(), t.images.end());
    args.insert(args.end(), {"--output", t.dir / "p.npz"});
    t.succeed(args);
    CHECK(read_npz_text(t.dir / "p.npz", "names") == t.images);
    return read_npz(t.dir / "p.npz");
  };
  const NamedTensors of_run = logits({"--workdir", t.dir / "w"});
  CHECK(of_run.at("logits").sizes() == at::IntArrayRef{3, 3});
  t.succeed({"export", "--workdir", t.dir / "w", "--output", t.dir / "m.npz"});
  // Neither the run nor its data exists any more.
  std::filesystem::rename(t.dir / "w", t.dir / "hidden");
  std::filesystem::remove_all(t.dir / "data");
  for (const std::string name : {"m.safetensors", "m.npz"}) {
    INFO(name);
    CHECK(same_bits(logits({"--weights", t.dir / name}), of_run));
  }
  t.succeed({"export", "--workdir", t.dir / "hidden", "--ema", "--output", t.dir / "e.npz"});
  CHECK(same_bits(logits({"--weights", t.dir / "e.npz"}),
                  logits({"--workdir", t.dir / "hidden", "--ema"})));
  CHECK_FALSE(same_bits(logits({"--weights", t.dir / "e.npz"}), of_run));

  // The file's metadata.
  const Metadata about = read_weights_metadata(t.dir / "m.safetensors");
  CHECK(about.at("bvtrain.class_names") == R"(["ant","bee, \"big\"","cat"])");
  CHECK(about.at("bvtrain.image") == "[8,8,1]");
  CHECK(about.at("bvtrain.model_name") == "cnn");
  CHECK(about.at("bvtrain.model") == R"({"widths": [4], "dense": 8})");
  CHECK(about.at("bvtrain.loss") == "softmax_xent");
  CHECK(about.at("bvtrain.step") == "3");
  CHECK(about.at("bvtrain.num_classes") == "3");
  CHECK(about.at("bvtrain.pp").starts_with("decode(1)|resize(8)|value_range(-1, 1)"));
  const std::string& precision = about.at("bvtrain.precision");
  CHECK((precision == "float32" || precision == "bf16"));
  Metadata of_npz = read_weights_metadata(t.dir / "m.npz");
  CHECK(of_npz == about);
  t.succeed({"export", "--workdir", t.dir / "hidden", "--output", t.dir / "m.onnx"});
  const std::string graph = read_file(t.dir / "m.onnx");
  for (const auto& [key, value] : about) {
    INFO(key);
    const size_t at = graph.find(key);
    REQUIRE(at != std::string::npos);
    CHECK(graph.find(value, at) - (at + key.size()) <= 4);  // protobuf's field number and length
  }

  // The precision of the training is used on every machine, unless --set says otherwise.
  const std::string other = precision == "bf16" ? "float32" : "bf16";
  const auto log_with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = more;
    args.insert(args.end(), {t.images[0], "--output", "-"});
    return t.here(t.predict(args).err);
  };
  CHECK(contains(log_with({}),
                 "Predicting with cnn of m.safetensors, precision " + precision + "\n"));
  CHECK(contains(log_with({"--set", "precision=" + other}), ", precision " + other + "\n"));
  const NamedTensors tensors = read_safetensors(t.dir / "m.safetensors");
  Metadata changed = about;
  changed["bvtrain.precision"] = other;
  write_safetensors(t.dir / "other.safetensors", tensors, changed);  // m is mapped into memory
  std::filesystem::rename(t.dir / "other.safetensors", t.dir / "m.safetensors");
  CHECK(contains(log_with({}), ", precision " + other + "\n"));
}

TEST_CASE("images that cannot be read are skipped, listed and counted") {
  const TrainedOnJpegs t;
  const std::string broken = t.dir / "new/broken.jpg", empty = t.dir / "new/empty.jpg";
  const Finished lines = t.predict({"--input", t.dir / "new", "--output", t.dir / "p.jsonl"});
  CHECK(lines.code == 0);
  const auto rows = json_rows(read_file(t.dir / "p.jsonl"));
  REQUIRE(rows.size() == 5);
  std::set<std::string> bad;
  for (const auto& row : rows) {
    if (!row.contains("error")) {
      CHECK(row.at("top").size() == 3);
      continue;
    }
    CHECK_FALSE(row.contains("top"));
    bad.insert(row.at("file"));
    CHECK(contains(lines.err, "skipped " + row.at("file").get<std::string>() + ": " +
                                  row.at("error").get<std::string>() + "\n"));
  }
  CHECK(bad == std::set<std::string>{broken, empty});
  CHECK(contains(lines.err, "2 of 5 images could not be read\n"));
  CHECK(contains(lines.err, "Wrote predictions for 3 examples to "));

  // More than 20 bad ones in front, and a file that is not there. The table has only good ones.
  std::vector<std::string> many(30, broken);
  many.insert(many.end(), {t.dir / "none.jpg", t.images[1]});
  const Finished table = t.predict(many);
  CHECK(table.code == 0);
  CHECK(table.out.starts_with(t.images[1] + "   predicted "));
  CHECK(count(table.out, "\n") == 1);
  CHECK(contains(table.err, "skipped " + (t.dir / "none.jpg") + ": no such file\n"));
  CHECK(contains(table.err, "31 of 32 images could not be read\n"));

  // The arrays contain only the good ones, and their names show which these are.
  const Finished arrays =
      t.predict({broken, t.images[2], empty, t.images[0], "--output", t.dir / "p.npz"});
  CHECK(arrays.code == 0);
  CHECK(read_npz(t.dir / "p.npz").at("logits").size(0) == 2);
  CHECK(read_npz_text(t.dir / "p.npz", "names") ==
        std::vector<std::string>{t.images[2], t.images[0]});

  // Bad files of an evaluator's data are skipped too.
  write(t.dir / "data/ant/0.jpg", "x");
  const Finished eval = run({"predict", "--workdir", t.dir / "w", "--eval", "val"});
  CHECK(eval.code == 0);
  CHECK(contains(eval.out, " of 11 are right\n"));
  CHECK(contains(eval.err, "1 of 12 images could not be read\n"));

  for (const std::string name : {"x.jsonl", "x.csv", "x.npz"}) {
    const Finished none = t.predict({broken, empty, "--output", t.dir / name});
    CHECK(none.code == 3);
    CHECK(contains(none.err, "skipped " + broken + ": "));
    CHECK(contains(none.err, "skipped " + empty + ": "));
    CHECK(none.err.ends_with("bvtrain predict: error: none of the 2 images could be read\n"));
    CHECK_FALSE(exists(t.dir / name));
  }
  const Finished missing = t.predict({t.dir / "none.jpg"});
  CHECK(missing.code == 2);
  CHECK(t.here(missing.err) == "none.jpg: error: no such file or folder\n");
}

TEST_CASE("predictions go to a table, JSON lines, CSV, an npz and standard output") {
  const TrainedOnJpegs t;
  const std::string a = t.images[0], b = t.images[1];
  const Finished table = t.predict({a, b, "--top", "2"});
  CHECK(table.code == 0);
  CHECK(count(table.out, "\n") == 2);
  const std::string first = t.here(split(table.out, '\n')[0]);
  CHECK(first.starts_with("new/a.jpg   predicted "));
  CHECK((contains(first, "ant") || contains(first, "bee, \"big\"") || contains(first, "cat")));

  REQUIRE(t.predict({a, b, "--output", t.dir / "p.jsonl"}).code == 0);
  const Finished piped = t.predict({a, b, "--output", "-"});
  CHECK(piped.code == 0);
  CHECK(piped.out == read_file(t.dir / "p.jsonl"));  // nothing else is on standard output
  CHECK(json_rows(piped.out).size() == 2);

  REQUIRE(t.predict({a, b, "--output", t.dir / "p.csv", "--top", "1"}).code == 0);
  const std::string csv = read_file(t.dir / "p.csv");
  CHECK(csv.starts_with("file,class_1,name_1,probability_1,error\n" + a + ","));
  CHECK(t.predict({a, b, "--output", "-", "--format", "csv", "--top", "1"}).out == csv);
  CHECK(t.predict({a, b, "--output", t.dir / "odd.txt", "--format", "csv", "--top", "1"}).code ==
        0);
  CHECK(read_file(t.dir / "odd.txt") == csv);

  const std::string python = test_python();
  if (python.empty()) return;
  REQUIRE(t.predict({a, b, "--output", t.dir / "p.npz"}).code == 0);
  t.succeed({"export", "--workdir", t.dir / "w", "--output", t.dir / "m.npz"});
  write(t.dir / "check.py", R"(
import csv, json, sys
import numpy as np
folder = sys.argv[1]
arrays = np.load(folder + "/p.npz", allow_pickle=False)
rows = list(csv.DictReader(open(folder + "/p.csv", newline="")))
lines = [json.loads(line) for line in open(folder + "/p.jsonl")]
assert arrays["names"].dtype.kind == "U"
assert list(arrays["names"]) == [row["file"] for row in rows] == [line["file"] for line in lines]
best = arrays["logits"].argmax(1).tolist()
assert best == [int(row["class_1"]) for row in rows] == [line["top"][0]["index"] for line in lines]
assert [row["name_1"] for row in rows] == [line["top"][0]["class"] for line in lines]
weights = dict(np.load(folder + "/m.npz", allow_pickle=False))
card = json.loads(weights.pop("__bvtrain__").item())
assert json.loads(card["bvtrain.class_names"]) == ["ant", 'bee, "big"', "cat"]
assert all(name.startswith("params/") for name in weights)
)");
  CHECK(std::system((python + " " + (t.dir / "check.py") + " " + t.dir.path()).c_str()) == 0);
}

TEST_CASE("images may be listed on standard input, and their number does not cost memory") {
  const TrainedOnJpegs t;
  const Finished two = t.predict_list(t.images[0] + "\n" + t.images[1] + "\n", "--output -");
  CHECK(two.code == 0);
  CHECK(two.out == t.predict({t.images[0], t.images[1], "--output", "-"}).out);
  using namespace std::string_literals;
  CHECK(t.predict_list(t.images[0] + "\0"s + t.images[1] + "\0"s, "--output -").out == two.out);
  // A folder in a list is not searched: `find` lists its files too.
  const Finished folder = t.predict_list(t.dir / "new" + "\n" + t.images[0] + "\n", "--output -");
  CHECK(folder.code == 0);
  const auto rows = json_rows(folder.out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("error") == "is a folder");
  const Finished none = t.predict_list("\n", "");
  CHECK(none.code == 2);
  CHECK(none.err == "standard input: error: lists no files\n");
  const Finished lost = t.predict_list(t.dir / "gone.jpg" + "\n", "--output -");
  CHECK(lost.code == 3);
  CHECK(lost.out.empty());

  // A decoded image takes 1.4 MB.
  write_jpeg(t.dir / "large.jpg", 50, 1200);
  const auto peak = [&](int images) {
    std::string list;
    for (int i = 0; i < images; ++i) list += (t.dir / "large.jpg") + "\n";
    const Finished all = t.predict_list(list, "--batch-size 4 --output " + (t.dir / "p.csv"));
    CHECK(all.code == 0);
    CHECK(count(read_file(t.dir / "p.csv"), "\n") == static_cast<size_t>(images) + 1);
    return all.peak_mib;
  };
  if (!kSanitized) CHECK(peak(160) < peak(16) + 60);
}

TEST_CASE("predict refuses weights files that do not tell their model, by exact messages") {
  const TrainedOnJpegs t;
  const std::string image = t.images[0];
  const auto refused = [&](const std::string& file, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"predict", "--weights", t.dir / file, image};
    args.insert(args.end(), more.begin(), more.end());
    const Finished finished = run(args);
    CHECK(finished.code == 2);
    CHECK(finished.out.empty());
    return t.here(finished.err);
  };
  const NamedTensors tensors = read_safetensors(t.dir / "m.safetensors");
  const Metadata about = read_weights_metadata(t.dir / "m.safetensors");
  const auto with = [&](const Metadata& metadata) {
    write_safetensors(t.dir / "x.safetensors", tensors, metadata);
    return refused("x.safetensors");
  };
  const std::string plain =
      "x.safetensors: error: has no metadata of `bvtrain export` that describes its model; give "
      "--config C with its model_name, model and num_classes too\n";
  CHECK(with({}) == plain);
  CHECK(with({{"format", "pt"}}) == plain);
  // With a config, such a file will do.
  write(t.dir / "m.yaml",
        "model_name: cnn\nmodel: {widths: [4], dense: 8}\nnum_classes: 3\nloss: softmax_xent\n"
        "precision: " +
            about.at("bvtrain.precision") + "\n");
  const Finished helped =
      run({"predict", "--weights", t.dir / "x.safetensors", "--config", t.dir / "m.yaml", "--pp",
           about.at("bvtrain.pp"), image, "--output", "-", "--top", "1"});
  INFO(helped.err);
  CHECK(helped.code == 0);
  const auto direct = json_rows(t.predict({image, "--output", "-", "--top", "1"}).out);
  CHECK(json_rows(helped.out)[0].at("top")[0].at("probability") ==
        direct[0].at("top")[0].at("probability"));

  Metadata bad = about;
  bad.erase("bvtrain.num_classes");
  CHECK(with(bad) ==
        "x.safetensors: error: its metadata has no 'bvtrain.num_classes'; export the file again, "
        "or give --config with the keys of the model\n");
  bad = about;
  bad["bvtrain.class_names"] = R"(["ant"])";
  CHECK(with(bad) ==
        "x.safetensors: error: its metadata 'bvtrain.class_names' has 1 names, but "
        "'bvtrain.num_classes' is 3\n");
  bad = about;
  bad["bvtrain.model"] = R"({"widths":[4],"dense":9})";
  CHECK(contains(with(bad),
                 "x.safetensors: error: Dense_0/bias has shape (8) in the file but (9) "
                 "in the model"));
  bad["bvtrain.model"] = R"({"widths":[4],"dense":8,"dnese":1})";
  CHECK(contains(with(bad), "unknown key 'model.dnese' (did you mean 'dense'?)\n"));
  bad["bvtrain.model"] = R"({"widths":"${HOME}"})";  // a file cannot read the environment
  CHECK(contains(with(bad), "got '${HOME}'\n"));
  bad = about;
  bad["bvtrain.model_name"] = "cnnn";
  CHECK(contains(with(bad), "error: unknown model 'cnnn' (did you mean 'cnn'?)"));
  bad = about;
  bad.erase("bvtrain.pp");
  CHECK(contains(with(bad), "no evaluator has a pp_fn; give --pp"));

  const std::string whole = read_file(t.dir / "m.safetensors");
  write(t.dir / "cut.safetensors", whole.substr(0, 300));
  CHECK(contains(refused("cut.safetensors"), "cut.safetensors @ offset 0: error: header length "));
  t.succeed({"export", "--workdir", t.dir / "w", "--output", t.dir / "m.onnx"});
  CHECK(refused("m.onnx") ==
        "m.onnx: error: an ONNX file holds a graph for other programs, which is not read back; "
        "give the *.safetensors or *.npz of the same model (bvtrain export)\n");
  write(t.dir / "m.pth", "x");
  CHECK(contains(refused("m.pth"), "pickled weights can run code"));
  CHECK(refused("w") == "--weights w: error: is a folder of a run; give --workdir\n");
  CHECK(refused("none.npz") == "none.npz: error: no such weights file or checkpoint\n");
  CHECK(refused("m.safetensors", {"--ema"}) == "--ema: error: needs a --workdir\n");
  CHECK(refused("m.safetensors", {"--workdir", t.dir / "w"}) ==
        "bvtrain predict: error: give either --workdir or --weights\n");
  CHECK(refused("m.safetensors", {"--set", "model_init=x"}) ==
        "--set model_init=x: error: the weights come from --workdir or --weights\n");
  // A flag wins over the environment.
  CHECK(run({"predict", "--weights", t.dir / "m.safetensors", image},
            {{"BVTRAIN_WORKDIR", t.dir / "none"}})
            .code == 0);
  CHECK(t.here(t.predict({"--eval", "val"}).err) ==
        "--eval val: error: needs the evaluator's config, which a weights file does not contain; "
        "give --config or --workdir\n");
}

}  // namespace bv::test
