#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "test/support/folder.h"

namespace bv::test {

// Unpacks test/data/digits_40.tar.gz (see the README beside it) and returns the folder that holds
// tfds, tfds_array_record, wds, tfrecord, train.npz and test.npz. Do not write to it: the tests of
// a process share it.
inline const std::string& digits_40() {
  static const TempFolder folder;
  static const std::string path = [] {
    const std::string archive = BV_TEST_DIR "/data/digits_40.tar.gz";
    REQUIRE(std::system(("tar xzf " + archive + " -C " + folder.path()).c_str()) == 0);
    return folder / "digits_40";
  }();
  return path;
}

}  // namespace bv::test
