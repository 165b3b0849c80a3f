// The images in folders on the command line.
#include "lib/predict/predict_inputs.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "lib/ckpt/formats/npz.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/logged.h"

namespace bv::test {
namespace {

std::vector<std::string> files(const std::string& folder) {
  const auto source = open_inputs({folder});
  std::vector<std::string> names;
  for (int64_t i = 0; i < source->size(0); ++i) names.push_back(source->describe(0, i));
  return names;
}

}  // namespace

TEST_CASE("the images below a folder are found, also behind links, which may lead nowhere") {
  const TempFolder folder;
  const std::string a = folder.write("a.jpg", ""), b = folder.write("in/ner/b.PNG", "");
  folder.write("notes.txt", "");
  std::filesystem::create_symlink("a.jpg", folder / "c.webp");
  for (const char* name : {"loop.jpg", "loop"})
    std::filesystem::create_symlink(name, folder / name);
  std::filesystem::create_symlink("..", folder / "in/circle");
  std::filesystem::create_symlink("nothing.jpg", folder / "gone.jpg");
  std::filesystem::create_symlink("nothing.txt", folder / "gone.txt");
  const TempFolder other;
  other.write("d.png", "");
  std::filesystem::create_symlink(folder.path(), other / "back");
  std::filesystem::create_symlink(other.path(), folder / "in/linked");
  CHECK(files(folder.path()) == std::vector<std::string>{a, folder / "c.webp", folder / "gone.jpg",
                                                         folder / "in/linked/d.png", b,
                                                         folder / "loop.jpg"});
  CHECK(error_of([&] { open_inputs({folder.path()})->read(0, 2); }, Exit::data) != "");
  CHECK(files(folder.path() + "/").at(0) == a);
  CHECK(open_inputs({folder.path()})->file_notes(0).other_types.at(".txt") == 1);
  folder.make("empty");
  CHECK(error_of([&] { files(folder / "empty"); }) ==
        folder / "empty" + ": error: no *.jpg, *.jpeg, *.png or *.webp below this folder");
}

TEST_CASE("hidden files and folders are left out, as in a data set, unless they are named") {
  const TempFolder folder;
  const std::string image = folder.write("in/a.jpg", "");
  CHECK(logged([&] { files(folder / "in"); }).empty());
  const std::string copy = folder.write("in/.copies/a-checkpoint.jpg", "");
  folder.write("in/__MACOSX/a.jpg", "");
  folder.write("in/.DS_Store", "");
  const std::string said =
      logged([&] { CHECK(files(folder / "in") == std::vector<std::string>{image}); });
  CHECK_THAT(said, Catch::Contains("2 hidden images and folders are left out, such as " +
                                   (folder / "in/")));
  CHECK(open_inputs({folder / "in"})->file_notes(0).other_types.empty());
  CHECK(files(folder / "in/.copies") == std::vector<std::string>{copy});
  CHECK(files(copy) == std::vector<std::string>{copy});
  folder.write("one/a.jpg", "");
  const std::string hidden = folder.write("one/.b.jpg", "");
  CHECK_THAT(logged([&] { files(folder / "one"); }),
             Catch::Contains("1 hidden image or folder is left out: " + hidden));
  folder.write("all/._0.jpg", "");
  CHECK(error_of([&] { files(folder / "all"); }) ==
        folder / "all" +
            ": error: no *.jpg, *.jpeg, *.png or *.webp below this folder, except "
            "hidden ones");
}

TEST_CASE("a folder to which many links lead is read once") {
  const TempFolder folder;
  constexpr int kDeepest = 30;  // 2^30 ways lead to the image
  for (int i = 0; i < kDeepest; ++i) {
    const std::string here = fmt::format("d{}", i), below = fmt::format("../d{}", i + 1);
    folder.make(here);
    for (const char* link : {"/a", "/b"})
      std::filesystem::create_symlink(below, folder / (here + link));
  }
  const std::string image = folder.write(fmt::format("d{}/x.jpg", kDeepest), "");
  const std::string said = logged([&] { CHECK(files(folder / "d0").size() == 1); });
  CHECK_THAT(said, Catch::Contains("29 more folders are left out: their images are taken already"));
  // The way without links counts.
  CHECK(files(folder.path()) == std::vector<std::string>{image});
  CHECK(logged([&] { files(folder / fmt::format("d{}", kDeepest)); }).empty());
}

TEST_CASE("an npz file must have as many labels as images") {
  const TempFolder folder;
  const std::string file = folder / "in.npz";
  write_npz(file, {{"image", at::zeros({3, 4, 4, 1})}, {"label", at::zeros({2}, at::kLong)}});
  CHECK(error_of([&] { open_inputs({file}); }) ==
        file + ": error: the array 'label' has the shape (2), but 'image' has 3 rows");
  write_npz(file, {{"image", at::zeros({3, 4, 4, 1})}, {"label", at::arange(3)}});
  CHECK(open_inputs({file})->labels(0).equal(at::arange(3)));
  const at::Tensor column = at::arange(3).to(at::kByte).view({3, 1});
  write_npz(file, {{"image", at::zeros({3, 4, 4, 1})}, {"label", column}});
  CHECK(open_inputs({file})->labels(0).equal(at::arange(3)));
}

}  // namespace bv::test
