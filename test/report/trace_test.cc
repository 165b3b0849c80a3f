// The span recorder and its output file.
#include "lib/report/trace.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace trace = bv::trace;
using nlohmann::json;

const trace::Event& find(const trace::Record& record, const std::string& name) {
  for (const trace::Event& event : record.events)
    if (event.name == name) return event;
  FAIL("no event " << name);
  return record.events.front();
}

bool inside(const trace::Event& inner, const trace::Event& outer) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

}  // namespace

TEST_CASE("nothing is recorded before start() and after stop()") {
  CHECK_FALSE(trace::on());
  { const trace::Span span("before"); }
  trace::Span across("across the start");
  const int64_t early = trace::now();
  trace::start();
  CHECK(trace::on());
  across.end();
  trace::add("began before", early);
  trace::Span late("ends too late");
  { const trace::Span span("within"); }
  const trace::Record record = trace::stop();
  late.end();
  { const trace::Span span("after"); }
  REQUIRE(record.events.size() == 1);
  CHECK(record.events[0].name == "within");
  trace::start();
  CHECK(trace::stop().events.empty());
}

TEST_CASE("spans nest, end once, and know their threads") {
  trace::start();
  {
    const trace::Span outer("outer ", int64_t{7});
    nap();
    {
      trace::Span inner("inner ", "one");
      nap();
      inner.end();
      inner.end();
    }
    std::thread other([] {
      ::pthread_setname_np(::pthread_self(), "worker");
      const trace::Span span("elsewhere");
      nap();
    });
    other.join();
  }
  const trace::Record record = trace::stop();
  REQUIRE(record.events.size() == 3);
  const trace::Event &outer = find(record, "outer 7"), &inner = find(record, "inner one");
  const trace::Event& elsewhere = find(record, "elsewhere");
  CHECK(inside(inner, outer));
  CHECK(inside(elsewhere, outer));
  CHECK(inner.end <= elsewhere.begin);
  CHECK(inner.end - inner.begin >= 2'000'000);
  CHECK(outer.thread == ::getpid());
  CHECK(inner.thread == outer.thread);
  CHECK(elsewhere.thread != outer.thread);
  using Threads = std::vector<std::pair<int, std::string>>;
  Threads threads = record.threads;
  std::sort(threads.begin(), threads.end());
  Threads expected = {{outer.thread, "main"}, {elsewhere.thread, "worker"}};
  std::sort(expected.begin(), expected.end());
  CHECK(threads == expected);
}

TEST_CASE("spans of many threads are all there") {
  trace::start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int64_t i = 0; i < 500; ++i) const trace::Span span("span ", i);
    });
  for (std::thread& thread : threads) thread.join();
  const trace::Record record = trace::stop();
  CHECK(record.events.size() == 2000);
  CHECK(record.threads.size() == 4);
  for (const trace::Event& event : record.events) CHECK(event.begin <= event.end);
}

TEST_CASE("the file is JSON with a row for each thread and each asynchronous event") {
  trace::Record record;
  record.events = {
      {"forward", 1'500'000'000'000'001'234, 1'500'000'000'002'001'234, 12, false},
      {"gradients \"0\"\n\xff", 1'500'000'000'001'000'000, 1'500'000'000'003'000'007, 13, true}};
  record.threads = {{12, "main"}, {13, "pt_gloo"}};
  const json file = json::parse(trace::chrome_json(record, 3));
  const json& events = file.at("traceEvents");
  REQUIRE(events.size() == 6);
  CHECK(events[0] == json({{"ph", "M"},
                           {"name", "process_name"},
                           {"pid", 3},
                           {"tid", 0},
                           {"args", {{"name", "rank 3"}}}}));
  CHECK(events[2].at("args").at("name") == "pt_gloo");
  CHECK(events[2].at("tid") == 13);
  CHECK(events[3].at("ph") == "X");
  CHECK(events[3].at("dur") == 2000.0);
  CHECK(events[3].at("ts") == 1'500'000'000'000'001.234);
  CHECK(events[4].at("ph") == "b");
  CHECK(events[5].at("ph") == "e");
  CHECK(events[4].at("name") == "gradients \"0\"\n\xef\xbf\xbd");
  CHECK(events[4].at("id2") == events[5].at("id2"));
  CHECK(events[4].at("cat") == "collective");
  CHECK(events[5].at("ts").get<double>() - events[4].at("ts").get<double>() ==
        Approx(2000.007).margin(0.5));
  CHECK(json::parse(trace::chrome_json({}, 0)).at("traceEvents").size() == 1);
}

// Times in units; by hand.
TEST_CASE("overlap: the part of communication beside computing, and not waited for") {
  const auto span = [](const char* name, int64_t begin, int64_t end) {
    return trace::Event{name, begin, end, 1, false};
  };
  const auto sent = [](const char* name, int64_t begin, int64_t end) {
    return trace::Event{name, begin, end, 2, true};
  };
  const auto part = [](const std::vector<trace::Event>& events) {
    return trace::overlap(events, "gradients", {"backward", "forward"}, "wait for ");
  };
  CHECK_FALSE(part({}));
  CHECK_FALSE(part({span("backward", 0, 10), sent("control word", 0, 5)}));
  CHECK_FALSE(part({span("gradients", 0, 10)}));  // not asynchronous
  CHECK(part({span("backward", 0, 10), sent("gradients 0", 2, 8)}) == 1.0);
  CHECK(part({span("backward", 0, 10), sent("gradients 0", 10, 18)}) == 0.0);
  CHECK(part({span("backward", 0, 10), sent("gradients 0", 5, 15)}) == 0.5);
  // Two at a time count once: [2, 8) and [4, 14) are 12 units, 8 of them before 10.
  CHECK(*part({sent("gradients 0", 2, 8), sent("gradients 1", 4, 14), span("backward", 0, 10)}) ==
        Approx(8.0 / 12));
  // What is waited for within backward hides nothing; two steps add up: (4 - 1 + 2) of 4 + 4.
  CHECK(*part({span("backward", 0, 10), sent("gradients 0", 2, 6),
               span("wait for gradients 0", 5, 6), span("forward", 20, 22),
               span("forwards", 22, 24), sent("gradients 0", 20, 24)}) == Approx(5.0 / 8));
}
