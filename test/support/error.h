// The text of an error that a test expects.
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "lib/util/error.h"

namespace bv::test {

// Returns the text of the bv::Error that `call` throws, "" if it throws none. The error must have
// the exit code `code`.
template <class Call>
std::string error_of(Call&& call, Exit code = Exit::usage) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "";
}

}  // namespace bv::test
