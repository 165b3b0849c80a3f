#include "app/arguments.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "lib/config/familiar_words.h"
#include "lib/config/load_config.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr const char* kFooter = R"(
Exit codes: 0 finished (or already finished), 2 bad usage, config or data, 3 data errors during
the run, 4 diverged, 5 storage failed, 6 out of memory, 7 another process of the run failed,
75 stopped early with a checkpoint, 130/143 stopped by SIGINT/SIGTERM after saving. Run the same
command again to continue a stopped run. Options marked (Env:...) can also be set by that
environment variable.)";

Override split_override(const std::string& text, const std::string& flag) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(Exit::usage, flag + " " + text, "expected KEY=VALUE, e.g. --set lr=0.001");
  }
  return {text.substr(0, equals), text.substr(equals + 1),
          flag + (flag.back() == '.' ? "" : " ") + text};
}

// Removes --config.a.b=v and --config.a.b v, big_vision's spelling of --set a.b=v, from `args` and
// returns them. CLI11 must not see them, because it only knows fixed names.
std::vector<Override> take_config_overrides(std::vector<std::string>& args) {
  std::vector<Override> overrides;
  std::vector<std::string> rest;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].starts_with("--config.")) {
      rest.push_back(args[i]);
      continue;
    }
    std::string text = args[i].substr(9);
    if (text.find('=') == std::string::npos) {
      if (i + 1 == args.size())
        throw Error(Exit::usage, args[i], "needs a value: " + args[i] + "=VALUE");
      text += "=" + args[++i];
    }
    overrides.push_back(split_override(text, "--config."));
  }
  args = rest;
  return overrides;
}

// Returns whether the command line has this option. (It may also come from the environment.)
bool typed(const std::vector<std::string>& args, const std::string& option) {
  return std::any_of(args.begin(), args.end(), [&](const std::string& arg) {
    return arg == option || arg.starts_with(option + "=");
  });
}

// Returns whether the program, or a subcommand that was given, has this option.
bool knows(const CLI::App& app, const std::string& name) {
  if (app.get_option_no_throw(name) != nullptr) return true;
  const auto verbs = app.get_subcommands();
  return std::any_of(verbs.begin(), verbs.end(),
                     [&](const CLI::App* verb) { return knows(*verb, name); });
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error,
                          const std::vector<std::string>& args) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
  for (size_t i = 0; i < args.size(); ++i) {
    const size_t equals = args[i].find('=');
    const std::string name = args[i].substr(0, equals);
    if (!name.starts_with("--") || name == "--" || knows(app, name)) continue;
    const bool apart = equals == std::string::npos && i + 1 < args.size() && args[i + 1][0] != '-';
    const std::string value = apart                         ? args[i + 1]
                              : equals == std::string::npos ? "VALUE"
                                                            : args[i].substr(equals + 1);
    std::string dashes = name;
    std::replace(dashes.begin(), dashes.end(), '_', '-');
    if (knows(app, dashes))
      return fmt::format("unknown option '{}' (did you mean '{}'?)", name, dashes);
    const FamiliarWord familiar = familiar_flag(name);
    if (!familiar.ours.empty())
      return fmt::format("unknown option '{}': write --set {}={}", name, familiar.ours, value);
    if (!familiar.advice.empty())
      return fmt::format("unknown option '{}': {}", name, familiar.advice);
    const std::string near = nearest(name, known);
    return fmt::format("unknown option '{}'{}; see --help", name,
                       near.empty() ? "" : " (did you mean '" + near + "'?)");
  }
  return error.what();
}

CLI::App* add_export(CLI::App& app, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* exporter =
      app.add_subcommand("export", "write the weights of the newest checkpoint for other programs");
  exporter->add_option("--workdir", out.workdir, "folder of the run")->envname("BVTRAIN_WORKDIR");
  exporter->add_option("--config", out.config, "YAML file of a model, instead of --workdir");
  exporter->add_option("--set", sets, "KEY=VALUE, e.g. model_init=F.npz")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  exporter
      ->add_option("--format", out.format,
                   "npz, safetensors, onnx or timm (safetensors with timm's names, most models); "
                   "default: what the suffix of --output says")
      ->check(CLI::IsMember({"npz", "safetensors", "timm", "onnx"}));
  exporter->add_option(
      "--image-size", out.image_size,
      "HEIGHT,WIDTH[,CHANNELS] of the model's images, if --workdir or --config does not tell");
  exporter->add_flag("--ema", out.ema, "use the averaged weights of the checkpoint");
  exporter->add_option("--output", out.output, "file to write: *.npz, *.safetensors or *.onnx")
      ->required();
  return exporter;
}

CLI::App* add_predict(CLI::App& app, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* predict =
      app.add_subcommand("predict", "run a trained model on images and write its outputs");
  predict->add_option("--config", out.config, "YAML file; default: that of the checkpoint or file")
      ->envname("BVTRAIN_CONFIG");
  predict->add_option("--workdir", out.workdir, "folder of the run whose newest checkpoint is used")
      ->envname("BVTRAIN_WORKDIR");
  predict->add_option("--weights", out.weights,
                      "instead of --workdir: a *.safetensors or *.npz of `bvtrain export`, or any "
                      "weights file with --config");
  predict->add_option("--set", sets, "KEY=VALUE, e.g. precision=float32")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  predict
      ->add_option("images,--input", out.inputs,
                   "images: files, folders, an npz with the array `image`, or - for a list of "
                   "files on standard input (one a line, or NUL-separated)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  predict->add_option("--eval", out.eval,
                      "instead of images: use the data and pp_fn of this evaluator of the config");
  predict->add_option("--first", out.first, "process only this many examples")
      ->check(CLI::Range(1, 1 << 30));
  predict->add_option("--pp", out.pp, "preprocessing ops; default: those of the first evaluator");
  predict->add_option(
      "--outputs", out.outputs,
      "for *.npz: logits, image (after preprocessing) or paths of activations, joined by ','");
  predict->add_option("--output", out.output,
                      "*.jsonl or *.csv for the most probable classes, *.npz for arrays, or - for "
                      "standard output; default: print a table");
  predict
      ->add_option("--format", out.format,
                   "jsonl, csv or npz; default: what the suffix of --output says, jsonl for -")
      ->check(CLI::IsMember({"jsonl", "csv", "npz"}));
  predict->add_option("--top", out.top, "classes per image; default: 5, in the table 1")
      ->check(CLI::PositiveNumber);
  predict->add_option("--batch-size", out.batch_size, "number of images computed at once")
      ->check(CLI::Range(1, 65536));
  predict->add_flag("--ema", out.ema, "use the averaged weights of the checkpoint");
  return predict;
}

CLI::Option* add_json(CLI::App& app, Arguments& out) {
  return app.add_flag("--json", out.json, "print one JSON object instead of text");
}

// Adds the options that `bench` and `bench scaling` have in common and returns them. The first is
// --config, which may come from the environment.
std::vector<CLI::Option*> add_config(CLI::App& bench, Arguments& out,
                                     std::vector<std::string>& sets) {
  return {
      bench.add_option("--config", out.config, "YAML file of the run")->envname("BVTRAIN_CONFIG"),
      bench.add_option("--set", sets, "KEY=VALUE replaces a value of the config")
          ->allow_extra_args(false)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll),
      bench.add_flag("--synthetic", out.synthetic, "use generated data"), add_json(bench, out)};
}

CLI::App* add_scaling(CLI::App& bench, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* scaling = bench.add_subcommand(
      "scaling", "predict the step time of a config on many processes (docs/scaling.md)");
  add_config(*scaling, out, sets);
  Arguments::Scaling& given = out.scaling;
  scaling->add_option("--processes", given.processes, "numbers of processes: 8,16,32")
      ->delimiter(',')
      ->check(CLI::Range(1, 65536));
  scaling
      ->add_option("--examples", given.examples,
                   "examples per process; default: batch size / processes")
      ->check(CLI::Range(1, 1 << 20));
  const auto add = [&](const char* name, double& value, const char* help) {
    return scaling->add_option(name, value, help)->check(CLI::PositiveNumber);
  };
  add("--compute-ms", given.compute_ms,
      "time of forward and backward on one device, for --examples or else the whole batch");
  add("--tflops", given.tflops,
      "instead of --compute-ms: sustained speed of a device, 10^12 operations per second");
  add("--update-ms", given.update_ms, "time of the optimizer's update of all parameters");
  add("--bandwidth-gb", given.bandwidth_gb,
      "bandwidth of a process within a host, 10^9 bytes per second")
      ->required();
  add("--latency-us", given.latency_us, "latency of a message within a host")->required();
  add("--network-gb", given.network_gb,
      "bandwidth of a process between hosts, 10^9 bytes per second");
  add("--network-us", given.network_us, "latency of a message between hosts");
  scaling->add_option("--per-host", given.per_host, "processes per host")
      ->check(CLI::Range(1, 65536));
  scaling
      ->add_option("--cores", given.cores,
                   "number of cores that the processes of a host share; default: a device each")
      ->check(CLI::Range(1, 65536));
  return scaling;
}

CLI::App* add_bench(CLI::App& app, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* bench =
      app.add_subcommand("bench", "measure the speed of the loader, the step and both together");
  std::vector<CLI::Option*> own = add_config(*bench, out, sets);
  own.erase(own.begin());
  own.push_back(bench->add_option("--seconds", out.seconds, "seconds per measurement"));
  CLI::Option* devices =
      bench
          ->add_option("--devices", out.devices, "the device to measure: auto, cpu, cuda or cuda:N")
          ->envname("BVTRAIN_DEVICES");
  CLI::App* scaling = add_scaling(*bench, out, sets);
  if (std::getenv("BVTRAIN_DEVICES") == nullptr) scaling->excludes(devices);
  CLI::App* collectives = bench->add_subcommand(
      "collectives", "measure the speed of collectives between the processes of --devices");
  collectives->add_option("--devices", out.devices, "cpu:N for N processes")
      ->envname("BVTRAIN_DEVICES");
  collectives->add_option("--most-mb", out.most_mb, "largest message, in MiB")
      ->check(CLI::Range(1, 4096));
  add_json(*collectives, out);
  // Options of `bench` itself have no meaning for its subcommands.
  for (CLI::App* part : {scaling, collectives}) {
    for (CLI::Option* option : own) part->excludes(option);
  }
  bench->require_subcommand(0, 1);
  return bench;
}

CLI::App* add_compare(CLI::App& app, Arguments& out) {
  CLI::App* compare = app.add_subcommand(
      "compare", "print a table of runs: the config keys that differ, and a metric over seeds");
  Arguments::Compare& given = out.compare;
  compare->add_option("runs", given.paths, "workdirs, folders that hold workdirs, or globs")
      ->required()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  compare->add_option("--sort", given.sort,
                      "metric that sorts the runs; default: the main metric of their evaluators");
  compare
      ->add_option("--better", given.better,
                   "higher or lower: which values come first; default: what the metric's name says")
      ->check(CLI::IsMember({"higher", "lower"}));
  CLI::Option* best =
      compare->add_flag("--best", given.best, "take the best value of all rows of a run");
  compare
      ->add_flag("--last", given.last, "take the value of the last row that has it (the default)")
      ->excludes(best);
  compare->add_option("--metrics", given.metrics, "further metrics to show, joined by ','")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  compare->add_option("--format", given.format, "text, csv or json")
      ->check(CLI::IsMember({"text", "csv", "json"}));
  compare->add_option("--html", given.html, "also write a page with the table and all curves");
  return compare;
}

void add_launch(CLI::App& app, Arguments& out) {
  app.add_option("--devices", out.devices,
                 "auto, cpu, cpu:N for N processes on this host, cuda, cuda:0,1 or cuda:all")
      ->envname("BVTRAIN_DEVICES");
  app.add_option("--launcher", out.launcher,
                 "what starts the processes: auto, none, self, env (torchrun), slurm, mpi")
      ->envname("BVTRAIN_LAUNCHER");
  app.add_option("--nnodes", out.nnodes, "number of hosts; each runs this command")
      ->envname("BVTRAIN_NNODES");
  app.add_option("--node-rank", out.node_rank, "index of this host; 0 is the host of --rendezvous")
      ->envname("BVTRAIN_NODE_RANK");
  app.add_option("--rendezvous", out.rendezvous, "HOST:PORT on node 0, where the hosts meet")
      ->envname("BVTRAIN_RENDEZVOUS");
  app.add_option("--max-restarts", out.max_restarts,
                 "how often to restart from the last checkpoint after a process failed")
      ->check(CLI::Range(0, 1000000))
      ->envname("BVTRAIN_MAX_RESTARTS");
  app.add_option("--elastic", out.elastic,
                 "MIN:MAX processes: a restart may have fewer than before")
      ->envname("BVTRAIN_ELASTIC");
}

}  // namespace

bool parse_arguments(int argc, char** argv, Arguments& out) {
  out.argv.assign(argv, argv + argc);
  std::vector<std::string> args(out.argv.begin() + 1, out.argv.end());
  std::vector<Override> spelled = take_config_overrides(args);

  CLI::App app{"bvtrain: trains image models from a YAML file", "bvtrain"};
  app.footer(kFooter);
  app.set_help_flag("--help,-h", "print this help and exit");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  std::vector<std::string> sets;
  std::string dry_run;
  app.add_option("--config", out.config, "YAML file that says what to train")
      ->envname("BVTRAIN_CONFIG");
  app.add_option("--workdir", out.workdir, "folder of the run: checkpoints, metrics, report")
      ->envname("BVTRAIN_WORKDIR");
  app.add_option("--set", sets,
                 "KEY=VALUE (a.b.c=v) replaces a value of the config; may be repeated")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_launch(app, out);
  auto* dry = app.add_flag(
      "--dry-run{quick}", dry_run,
      "build and check everything, print sizes, write nothing; =full uses the whole batch");
  app.add_flag("--synthetic", out.synthetic,
               "replace all data by generated data of the right shape")
      ->envname("BVTRAIN_SYNTHETIC");
  app.add_flag("--cleanup", out.cleanup, "remove the workdir after the last step")
      ->envname("BVTRAIN_CLEANUP");
  app.add_flag("--accept-changes", out.accept_changes,
               "continue the run in --workdir although its config has changed since");
  app.add_option("--list", out.list,
                 "print the names of: models sources ops optimizers schedules losses tasks evals");
  app.add_flag("--explain", out.explain,
               "print every key that is read: its value, its origin and the line that reads it");
  app.add_flag("--json", out.json,
               "with --list and --dry-run: print one JSON object instead of text");
  app.add_flag("--version", out.version, "print the version");

  CLI::App* exporter = add_export(app, out, sets);
  CLI::App* bench = add_bench(app, out, sets);
  CLI::App* predict = add_predict(app, out, sets);
  CLI::App* compare = add_compare(app, out);
  app.require_subcommand(0, 1);

  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());  // CLI11 pops from the back
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* about = &app;
    for (const CLI::App* sub : {exporter, predict, bench, compare})
      about = sub->parsed() ? sub : about;
    for (const CLI::App* sub : bench->get_subcommands()) about = sub;
    std::fputs(about->help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    throw Error(Exit::usage, "bvtrain", usage_message(app, error, args));
  }
  if (exporter->parsed()) out.verb = Arguments::Verb::export_weights;
  if (predict->parsed()) out.verb = Arguments::Verb::predict;
  if (bench->parsed()) out.verb = Arguments::Verb::bench;
  if (compare->parsed()) out.verb = Arguments::Verb::compare;
  for (const CLI::App* part : bench->get_subcommands()) out.bench = part->get_name();
  if (!out.weights.empty()) {  // a flag wins over the environment
    if (!typed(args, "--workdir")) out.workdir.clear();
    if (!typed(args, "--config")) out.config.clear();
  }
  for (const std::string& text : sets) out.overrides.push_back(split_override(text, "--set"));
  out.overrides.insert(out.overrides.end(), spelled.begin(), spelled.end());
  if (dry->count() > 0) {
    if (dry_run == "full")
      out.dry_run = DryRun::full;
    else if (dry_run == "quick" || dry_run == "true")
      out.dry_run = DryRun::quick;
    else
      throw Error(Exit::usage, "--dry-run=" + dry_run, "expected --dry-run or --dry-run=full");
  }
  const bool prints = !out.list.empty() || dry->count() > 0 || bench->parsed();
  if (out.json && !prints)
    throw Error(Exit::usage, "--json", "works with --list, --dry-run and bench only");
  return true;
}

}  // namespace bv
