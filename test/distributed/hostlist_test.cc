#include "lib/distributed/launch/hostlist.h"

#include <catch2/catch.hpp>

#include "lib/util/error.h"
#include "lib/util/text.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

std::string expanded(const std::string& text) { return join(parse_hostlist(text, "LIST"), " "); }

std::string refused_hostlist(const std::string& text) {
  return error_of([&] { parse_hostlist(text, "LIST"); });
}

TEST_CASE("slurm's host lists expand as scontrol show hostnames does") {
  CHECK(expanded("n1") == "n1");
  CHECK(expanded("n1,n2,login") == "n1 n2 login");
  CHECK(expanded("n[1-3]") == "n1 n2 n3");
  CHECK(expanded("n[001-003,7],gpu-a[1-2]-ib[0-1]") ==
        "n001 n002 n003 n7 gpu-a1-ib0 gpu-a1-ib1 gpu-a2-ib0 gpu-a2-ib1");
  CHECK(expanded("n[08-11]") == "n08 n09 n10 n11");
  CHECK(expanded("n[9-11]") == "n9 n10 n11");
  CHECK(expanded("n[098-101].example.org") ==
        "n098.example.org n099.example.org n100.example.org n101.example.org");
  CHECK(expanded("[1-2]a") == "1a 2a");
  CHECK(expanded("r[1-2]c[1,3]n[5]") == "r1c1n5 r1c3n5 r2c1n5 r2c3n5");
  CHECK(parse_hostlist("n[1-65536]", "LIST").size() == 65536);
}

TEST_CASE("what is not a host list is refused with one line") {
  CHECK(refused_hostlist("") == "LIST: error: '' is not a host list: it is empty");
  CHECK(refused_hostlist("n[1-3") ==
        "LIST: error: 'n[1-3' is not a host list: a bracket is not closed");
  CHECK(refused_hostlist("n[1[2]]") ==
        "LIST: error: 'n[1[2]]' is not a host list: a bracket is not closed");
  CHECK(refused_hostlist("n1]") ==
        "LIST: error: 'n1]' is not a host list: unexpected character at byte 2");
  CHECK(refused_hostlist("n1,,n2") == "LIST: error: 'n1,,n2' is not a host list: an empty name");
  CHECK(refused_hostlist("n1,") == "LIST: error: 'n1,' is not a host list: an empty name");
  CHECK(refused_hostlist("n[]") ==
        "LIST: error: 'n[]' is not a host list: '' is not a number or a range");
  CHECK(refused_hostlist("n[a-b]") ==
        "LIST: error: 'n[a-b]' is not a host list: 'a-b' is not a number or a range");
  CHECK(refused_hostlist("n[1--2]") ==
        "LIST: error: 'n[1--2]' is not a host list: '1--2' is not a number or a range");
  CHECK(refused_hostlist("n[3-1]") ==
        "LIST: error: 'n[3-1]' is not a host list: the range '3-1' runs backwards");
  CHECK(refused_hostlist("n[0-999999999]") ==
        "LIST: error: 'n[0-999999999]' is not a host list: more than 65536 hosts");
  CHECK(refused_hostlist("n[0-9999999999]") ==
        "LIST: error: 'n[0-9999999999]' is not a host list: '0-9999999999' is not a number or a "
        "range");
  CHECK(refused_hostlist("n[1-60000,1-60000]") ==
        "LIST: error: 'n[1-60000,1-60000]' is not a host list: more than 65536 hosts");
  CHECK(refused_hostlist("n[1-300][1-300]") ==
        "LIST: error: 'n[1-300][1-300]' is not a host list: more than 65536 hosts");
  CHECK(refused_hostlist("n[1-40000],m[1-40000]") ==
        "LIST: error: 'n[1-40000],m[1-40000]' is not a host list: more than 65536 hosts");
  CHECK(refused_hostlist("n 1") ==
        "LIST: error: 'n 1' is not a host list: unexpected character at byte 1");
  CHECK(refused_hostlist(std::string(2 << 20, 'n')).ends_with("longer than 1048576 bytes"));
}

TEST_CASE("slurm's counts of tasks per node") {
  CHECK(parse_counts("2(x3),1", "C") == std::vector<int>{2, 2, 2, 1});
  CHECK(parse_counts("8", "C") == std::vector<int>{8});
  for (const char* bad : {"", "0", "2(x0)", "2(x3", "2(3)", "x", "1,,2", "1(x999999999)", "-1"})
    CHECK_THROWS_WITH(parse_counts(bad, "C"),
                      "C: error: '" + std::string(bad) + "': expected counts such as 4(x2),1");
}

}  // namespace
}  // namespace bv::test
