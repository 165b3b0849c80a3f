// Some of the broken data sets of the catalogue (test/support/bad_data) with the real binary: it
// soon exits with 2 and one line, and writes nothing. test/input/bad_data_test.cc reads them all.
#include <algorithm>

#include "lib/util/text.h"
#include "test/e2e/bad_input.h"
#include "test/support/bad_data/all.h"
#include "test/support/limits.h"

namespace bv::test {
namespace {

const std::vector<std::string> kChosen = {
    "image_folder: a git-LFS pointer",
    "image_folder: a JPEG of 65535 x 65535 pixels",
    "image_folder: a link that names itself",
    "image_folder: a name with a line feed and an escape sequence",
    "idx: a file without its last byte",
    "idx: gzip data of few bytes that claim 4 GiB",
    "cifar: a label of 100",
    "npz: a pickled object",
    "npz: a name that leaves the folder",
    "npz: an entry that would unpack to 300 MB",
    "tfds: 200,000 lists in each other",
    "tfds: a name that stands for itself",
    "tfrecord: an HTML page",
    "webdataset: a link to /etc/passwd",
    "webdataset: a long name of 2 GiB",
    "csv: a path that leaves the folder",
    "csv: a pipe",
    "jsonl: 100,000 lists in each other",
};

// Returns the section as the value of a key: "{name: idx, data_dir: /tmp/x}".
std::string in_braces(const std::string& section) {
  return "{" + join(split(trim(section), '\n'), ", ") + "}";
}

}  // namespace

TEST_CASE("broken data files end the program with one line") {
  const BadDataTable table = all_bad_data();
  for (const std::string& name : kChosen) {
    CAPTURE(name);
    const auto row = std::find_if(table.begin(), table.end(),
                                  [&](const BadData& bad) { return bad.name == name; });
    REQUIRE(row != table.end());
    REQUIRE(row->code == Exit::usage);
    Bad bad;
    const std::string data = bad.dir / "data";
    write_bad_data(*row, data);
    const std::string before = listing_of(data);
    const Finished finished =
        bad.refuse(digits_with(kData, "data: " + in_braces(bad_data_section(*row, data))));
    const std::string text = in_bad_data(finished.err, data);
    CHECK(text.substr(0, row->text.size()) == row->text);
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
    CHECK(finished.out.empty());
    if (!kSanitized) CHECK(finished.peak_mib < 1024);
    CHECK(listing_of(data) == before);
  }
}

}  // namespace bv::test
