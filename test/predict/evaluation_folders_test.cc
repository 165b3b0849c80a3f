// Folders that bvtrain eval refuses, so that it writes into no folder of data.
#include "lib/predict/evaluation_folders.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "lib/ckpt/manifest.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/load_config.h"
#include "test/support/error.h"
#include "test/support/folder.h"

namespace bv::test {

TEST_CASE("eval takes no other folder for that of a run") {
  const TempFolder dir;
  const auto refusal = [&](const std::string& name, bool follow) {
    return error_of([&] { check_is_run(dir / name, follow); });
  };
  const std::string no_run =
      ": error: is not the workdir of a run: it has no run.json and no ckpt/";
  dir.write("photos/cat/1.jpg", "x");
  dir.write("text", "x");
  dir.write("rows/.lock", "");  // an earlier evaluation
  dir.write("rows/evaluated.json", "{}");
  for (const char* other : {"photos", "text", "rows"}) {
    for (const bool follow : {false, true}) CHECK(refusal(other, follow) == dir / other + no_run);
  }
  dir.make("empty");
  CHECK(refusal("empty", false) ==
        dir / "empty" + no_run + "; --follow waits for a run that starts later");
  for (const char* later : {"empty", "none"}) CHECK(refusal(later, true).empty());
  for (const char* run : {"a/run.json", "b/ckpt/step-5/manifest.json", "c/result.json"}) {
    dir.write(run, "x");
    for (const bool follow : {false, true})
      CHECK(refusal(std::string(run).substr(0, 1), follow).empty());
  }
  // The run is about to begin.
  for (const char* file : {"d/.lock", "e/config.yaml", "f/.cron.lock"}) {
    dir.write(file, "");
    const std::string name = std::string(file).substr(0, 1);
    CHECK(refusal(name, true).empty());
    CHECK(refusal(name, false) == dir / name + no_run);
  }
  // A --follow that was killed before the run began, and a launcher's log file.
  for (const char* file : {"g/eval/.lock", "g/eval/tb/events", "h/sweep.log", "h/log/1.txt"})
    dir.write(file, "");
  for (const char* name : {"g", "h"}) {
    CHECK(refusal(name, true).empty());
    CHECK(refusal(name, false) == dir / name + no_run);
  }
  for (const char* file : {"i/1.PNG", "j/eval/cat/1.jpg", "k/cat/1.jpg"}) {
    dir.write(file, "");
    dir.write(std::string(file).substr(0, 1) + "/sweep.log", "");
    CHECK(refusal(std::string(file).substr(0, 1), true) ==
          dir / std::string(file).substr(0, 1) + no_run);
  }
}

TEST_CASE("eval writes rows only to a new folder, an empty one and one of its own") {
  const TempFolder dir;
  const auto refusal = [&](const std::string& name) {
    return error_of([&] { check_rows_folder(dir / name, dir / "run"); });
  };
  dir.write("photos/cat/1.jpg", "x");
  dir.make("empty");
  for (const char* file : {"d/1.webp", "e/report.html"}) dir.write(file, "x");
  for (const char* other : {"photos", "d", "e"}) {
    CHECK(refusal(other) ==
          "--output " + dir / other +
              ": error: has images, folders or a report that bvtrain eval did not write; choose a "
              "new or empty folder");
  }
  dir.write("logged/eval.log", "");  // bvtrain eval ... > logged/eval.log
  dir.make("logged/lost+found");
  CHECK(refusal("logged").empty());
  for (const char* name : {"new", "empty"}) CHECK(refusal(name).empty());
  for (const char* file : {"a/evaluated.json", "b/metrics.jsonl", "c/.lock"}) {
    dir.write(file, "");
    dir.make(std::string(file).substr(0, 1) + "/tb");
    CHECK(refusal(std::string(file).substr(0, 1)).empty());
  }
  // A new folder would be a class of the data.
  Manifest manifest;
  manifest.step = 5;
  manifest.meta = {{"config", parse_config("input: {data: {name: image_folder, data_dir: '" +
                                               (dir / "photos") + "'}}\n",
                                           "c.yaml")
                                  .json()}};
  dir.write("run/ckpt/step-5/manifest.json", manifest.text());
  CHECK(refusal("photos/rows") ==
        "--output " + (dir / "photos/rows") + ": error: is in '" + (dir / "photos") +
            "', the data of input, where every folder is taken for a class: choose a folder "
            "outside of it");
  CHECK(refusal("new").empty());
}

TEST_CASE("eval writes no rows into the folder of a run or checkpoint, but to its own eval/") {
  const TempFolder dir;
  const std::string real = std::filesystem::canonical(dir.path()).string();
  const auto refusal = [&](const std::string& name) {
    return error_of([&] { check_rows_folder(dir / name, dir / "a"); });
  };
  const auto in = [&](const std::string& name, const std::string& folder, const char* whose) {
    return "--output " + dir / name + ": error: is in '" + real + "/" + folder +
           "', the folder of a " + whose + "; choose a folder outside of it";
  };
  const std::string shard = shard_name(0, 1);
  for (const std::string file :
       {"a/run.json", "b/run.json", "b/ckpt/step-20/manifest.json", "copy/step-20/manifest.json"})
    dir.write(file, "x");
  for (const std::string folder : {"b/ckpt/step-20/", "copy/step-20/"})
    dir.write(folder + shard, "");
  for (const std::string name :
       {"b/eval", "b/log", "b/tb", "b/rows/of/a", "b/ckpt/sub", "a/eval/sub"})
    CHECK(refusal(name) == in(name, name.substr(0, 1), "run"));
  for (const std::string name : {"b/ckpt/step-20", "b/ckpt/step-20/sub", "copy/step-20/new"}) {
    const std::string folder = name.substr(0, name.find("step-20")) + "step-20";
    CHECK(refusal(name) == in(name, folder, "checkpoint"));
  }
  std::filesystem::create_directory_symlink(dir / "b", dir / "link");
  CHECK(refusal("link/rows") == in("link/rows", "b", "run"));
  for (const std::string name : {"a/eval", "a/eval/", "rows", "copy/rows"})
    CHECK(refusal(name).empty());
}

}  // namespace bv::test
