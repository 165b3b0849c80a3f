// The facts about a run in the report: from run.json, and added while the run goes on.
#include "lib/report/page/facts.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "lib/report/metric_writer.h"
#include "lib/report/page/report.h"
#include "test/support/folder.h"

using bv::Facts;

TEST_CASE("facts: a label is replaced in its place, and an empty text removes it") {
  Facts facts;
  bv::set_fact(facts, "a", "1");
  bv::set_fact(facts, "b", "2");
  bv::set_fact(facts, "none", "");
  bv::set_fact(facts, "a", "3");
  CHECK(facts == Facts{{"a", "3"}, {"b", "2"}});
  bv::set_fact(facts, "a", "");
  CHECK(facts == Facts{{"b", "2"}});
}

TEST_CASE("facts: run.json as a command to type, and every start") {
  nlohmann::json run = {{"argv", {"bvtrain", "--workdir", "my run", "--set", "name=it's", ""}},
                        {"version", "0.1.0"},
                        {"commit", ""},
                        {"host", "node7"},
                        {"started", "2025-11-21T09:30:01Z"},
                        {"restarts", 0}};
  CHECK(bv::run_facts(run) ==
        Facts{{"Command", "bvtrain --workdir 'my run' --set 'name=it'\\''s' ''"},
              {"Version", "0.1.0"},
              {"Host", "node7"},
              {"Started", "2025-11-21T09:30:01Z"}});
  run["commit"] = "1c5c5c8";
  run["restarts"] = 2;
  run["first_started"] = "2025-11-20T01:02:03Z";
  run["first_step"] = 400;
  const Facts facts = bv::run_facts(run);
  CHECK(facts.at(2) == std::pair<std::string, std::string>("Commit", "1c5c5c8"));
  CHECK(facts.back().second ==
        "2025-11-20T01:02:03Z; restarted 2 times, last at 2025-11-21T09:30:01Z from step 400");
  CHECK(bv::run_facts(nlohmann::json::object()).empty());
}

TEST_CASE("facts: the report shows those of the start, then the notes") {
  const bv::test::TempFolder dir;
  bv::MetricWriter::Options options;
  options.metrics_file = dir / "metrics.jsonl";
  options.report_file = dir / "report.html";
  options.facts = {{"Host", "node<7>"}};
  bv::MetricWriter writer(std::move(options));
  writer.note("Skipped files", "2");
  writer.note("Gone", "x");
  writer.note("Skipped files", "a.jpg\nb.jpg");
  writer.note("Gone", "");
  writer.write_report();
  writer.close();
  const std::string page = bv::test::read_text(dir / "report.html");
  const size_t host = page.find("<dt>Host</dt><dd>node&lt;7&gt;</dd>");
  const size_t memory = page.find("<dt>Memory</dt>");
  const size_t skipped = page.find("<dt>Skipped files</dt><dd>a.jpg\nb.jpg</dd>");
  REQUIRE(host != std::string::npos);
  CHECK(page.find("<dt>Written</dt><dd>20") != std::string::npos);
  CHECK(host < memory);
  CHECK(memory < skipped);
  CHECK(skipped != std::string::npos);
  CHECK(page.find("Gone") == std::string::npos);
}
