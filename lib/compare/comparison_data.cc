#include "lib/compare/comparison_data.h"

#include "lib/util/text.h"

namespace bv {
namespace {

std::string csv_number(double value) {
  const std::string text = json_number(value);  // "nan" has quotes
  return text.front() == '"' ? text.substr(1, text.size() - 2) : text;
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::vector<std::string> quoted;
  for (const std::string& field : fields) quoted.push_back(csv_field(field));
  return join(quoted, ",") + "\n";
}

// The members of a JSON object, one per line.
class JsonObject {
 public:
  void add(const std::string& name, const std::string& json) {
    members_.push_back(json_string(name) + ": " + json);
  }
  void add(const std::string& name, int64_t value) { add(name, fmt::format("{}", value)); }
  std::string on_one_line() const { return "{" + join(members_, ", ") + "}"; }
  std::string text(const std::string& indent) const {
    const std::string inner = "\n" + indent + "  ";
    return "{" + inner + join(members_, "," + inner) + "\n" + indent + "}";
  }

 private:
  std::vector<std::string> members_;
};

std::string json_list(const std::vector<std::string>& items, const std::string& indent) {
  if (items.empty()) return "[]";
  const std::string inner = "\n" + indent + "  ";
  return "[" + inner + join(items, "," + inner) + "\n" + indent + "]";
}

std::string metrics_json(const RunRecord& run) {
  JsonObject metrics;
  for (const auto& [name, series] : run.metrics.series) {
    JsonObject one;
    const auto add = [&](const char* what, const MetricSeries::StepValue& value) {
      one.add(what, json_number(value.second));
      one.add(std::string(what) + "_step", value.first);
    };
    add("last", series.last);
    if (series.has_extremes) {
      add("min", series.min);
      add("max", series.max);
    }
    metrics.add(name, one.on_one_line());
  }
  return metrics.text("          ");
}

std::string run_json(const Comparison& all, size_t index) {
  const RunRecord& run = all.runs[index];
  JsonObject out;
  out.add("workdir", json_string(run.workdir));
  out.add("seed", run.seed.empty() ? "null" : run.seed);
  out.add("fold", run.fold.empty() ? "null" : json_string(run.fold));
  out.add("status", json_string(kind_name(run.status.kind)));
  if (run.status.code != 0) out.add("exit_code", run.status.code);
  out.add("step", run.status.step);
  out.add("total_steps", run.status.total ? fmt::format("{}", *run.status.total) : "null");
  out.add("damaged_rows", run.metrics.damaged + (run.metrics.cut_line > 0 ? 1 : 0));
  JsonObject values;
  for (size_t metric = 0; metric < all.metrics.size(); ++metric) {
    const auto* value = all.value_of(index, metric);
    values.add(all.metrics[metric].name, value == nullptr ? "null" : json_number(value->second));
  }
  out.add("values", values.on_one_line());
  out.add("metrics", metrics_json(run));
  return out.text("        ");
}

std::string group_json(const Comparison& all, const RunGroup& group, int64_t rank) {
  JsonObject out, config, spreads;
  for (size_t key = 0; key < all.keys.size(); ++key) {
    const std::string value = all.config_value(group, key);
    config.add(all.keys[key], value.empty() ? "null" : value);
  }
  for (size_t metric = 0; metric < all.metrics.size(); ++metric) {
    const Spread& spread = group.spreads[metric];
    JsonObject one;
    one.add("n", spread.n);
    one.add("mean", spread.n > 0 ? json_number(spread.mean) : "null");
    one.add("std", spread.n > 1 ? json_number(spread.deviation) : "null");
    spreads.add(all.metrics[metric].name, one.on_one_line());
  }
  std::vector<std::string> runs;
  for (const size_t run : group.runs) runs.push_back(run_json(all, run));
  out.add("rank", rank);
  out.add("config", config.on_one_line());
  out.add("finished", group.finished);
  out.add("not_finished", std::ssize(group.runs) - group.finished);
  out.add("provisional", group.provisional ? "true" : "false");
  out.add("spreads", spreads.on_one_line());
  out.add("runs", json_list(runs, "      "));
  return out.text("    ");
}

}  // namespace

std::string comparison_csv(const Comparison& all) {
  std::vector<std::string> names{"rank", "workdir"};
  names.insert(names.end(), all.keys.begin(), all.keys.end());
  for (const char* name : {"seed", "fold", "status", "step", "total_steps"})
    names.emplace_back(name);
  for (const ComparedMetric& metric : all.metrics) {
    for (const char* what : {"", " mean", " std", " n"}) names.push_back(metric.name + what);
  }
  std::string out = csv_line(names);
  int64_t rank = 0;
  for (const RunGroup& group : all.groups) {
    ++rank;
    for (const size_t index : group.runs) {
      const RunRecord& run = all.runs[index];
      std::vector<std::string> fields{fmt::format("{}", rank), run.workdir};
      for (size_t key = 0; key < all.keys.size(); ++key) {
        const std::string value = all.config_value(group, key);
        fields.push_back(value.empty() ? "" : value_text(value));
      }
      fields.push_back(run.seed.empty() ? "" : value_text(run.seed));
      fields.push_back(run.fold);
      fields.emplace_back(kind_name(run.status.kind));
      fields.push_back(fmt::format("{}", run.status.step));
      fields.push_back(run.status.total ? fmt::format("{}", *run.status.total) : "");
      for (size_t metric = 0; metric < all.metrics.size(); ++metric) {
        const auto* value = all.value_of(index, metric);
        const Spread& spread = group.spreads[metric];
        fields.push_back(value == nullptr ? "" : csv_number(value->second));
        fields.push_back(spread.n > 0 ? csv_number(spread.mean) : "");
        fields.push_back(spread.n > 1 ? csv_number(spread.deviation) : "");
        fields.push_back(fmt::format("{}", spread.n));
      }
      out += csv_line(fields);
    }
  }
  return out;
}

std::string comparison_json(const Comparison& all) {
  JsonObject out;
  if (!all.metrics.empty()) {
    JsonObject sort;
    sort.add("metric", json_string(all.metrics[0].name));
    sort.add("value", all.shows_best(0) ? "\"best\"" : "\"last\"");
    const Direction direction = all.metrics[0].direction;
    sort.add("better", direction == Direction::down ? "\"lower\""
                       : direction == Direction::up ? "\"higher\""
                                                    : "null");
    out.add("sort", sort.on_one_line());
  }
  std::vector<std::string> groups, warnings;
  for (const RunGroup& group : all.groups)
    groups.push_back(group_json(all, group, std::ssize(groups) + 1));
  for (const std::string& line : all.warnings) warnings.push_back(json_string(line));
  out.add("groups", json_list(groups, "  "));
  out.add("warnings", json_list(warnings, "  "));
  return out.text("") + "\n";
}

}  // namespace bv
