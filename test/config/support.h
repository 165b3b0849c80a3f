// What the tests of lib/config share.
#pragma once

#include <catch2/catch.hpp>
#include <ctime>
#include <string>

#include "lib/config/config.h"

// The text of the usage error that `call` throws, "" if it throws none.
template <class Call>
std::string error_line(Call call) {
  try {
    call();
  } catch (const bv::Error& error) {
    CHECK(error.code() == bv::Exit::usage);
    return error.what();
  }
  return "";
}

// Time this process has computed: what a busy machine does not stretch.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
