// Brace expansion of file names.
#include "lib/input/sources/common/brace_expansion.h"

#include "test/fuzz/fuzz.h"

FUZZ_TARGET(braces) {
  // A million names are allowed, but take too long for fuzzing: only few digits.
  int digits = 0;
  for (const char c : input) digits += c >= '0' && c <= '9' ? 1 : 0;
  if (digits > 6 || input.size() > 60) return;
  bv::test::errors_only([&] { bv::brace_expansion(input); });
}
