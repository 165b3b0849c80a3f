// The check of an image file's beginning and end.
#include "lib/input/image/image_file_problem.h"

#include "test/fuzz/fuzz.h"

FUZZ_TARGET(image_head) {
  const bv::ImageFileCheck found = bv::check_image_file(bv::test::scratch_file("image", input));
  bv::check(found.orientation >= 1 && found.orientation <= 8, "orientation {}", found.orientation);
}
