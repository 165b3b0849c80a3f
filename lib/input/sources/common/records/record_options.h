// The key `verify` of sources that read records with checksums.
#pragma once

#include "lib/config/key_table.h"
#include "lib/input/sources/common/records/records.h"

namespace bv {

constexpr KeyText verify_key() {
  return {
      "verify",
      "'first_epoch' | 'always' | 'never'",
      "first_epoch",
      "When to verify the checksum of an example: when each process reads it for the first time, "
      "whenever it reads it, or never. An example with a wrong checksum counts as unreadable.",
      "always",
      "-"};
}

inline VerifyRecords read_verify(const Config& config) {
  const std::string word = config.word("verify", "first_epoch", {"first_epoch", "always", "never"});
  return word == "always"  ? VerifyRecords::always
         : word == "never" ? VerifyRecords::never
                           : VerifyRecords::first_epoch;
}

}  // namespace bv
