#include "app/arguments.h"

#include <CLI/CLI.hpp>

#include <cstdio>

#include "lib/util/text.h"

namespace bv {
namespace {

constexpr const char* kFooter = R"(
Exit codes: 0 finished (or already finished), 2 bad usage, config or data, 3 data errors during
the run, 4 diverged, 5 storage failed, 6 out of memory, 75 stopped early with a checkpoint,
130/143 stopped by SIGINT/SIGTERM after saving. A run that was stopped goes on when the same
command is given again. Every option may also come from the environment as BVTRAIN_<OPTION>.)";

Override split_override(const std::string& text, const std::string& flag) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(Exit::usage, flag + " " + text, "expected KEY=VALUE, e.g. --set lr=0.001");
  }
  return {text.substr(0, equals), text.substr(equals + 1),
          flag + (flag.back() == '.' ? "" : " ") + text};
}

// --config.a.b=v and --config.a.b v: big_vision's spelling of --set a.b=v. Taken out of `args`
// before CLI11 sees them, since their names are not known beforehand.
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

std::string usage_message(const CLI::App& app, const CLI::ParseError& error,
                          const std::vector<std::string>& args) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
  for (const std::string& arg : args) {
    const std::string name = arg.substr(0, arg.find('='));
    if (!name.starts_with("--") || name == "--") continue;
    bool is_known = std::find(known.begin(), known.end(), name) != known.end();
    for (const CLI::App* sub : app.get_subcommands())
      is_known |= sub->get_option_no_throw(name) != nullptr;
    const std::string near = nearest(name, known);
    if (!is_known) {
      return fmt::format("unknown option '{}'{}; see --help", name,
                         near.empty() ? "" : " (did you mean '" + near + "'?)");
    }
  }
  return error.what();
}

CLI::App* add_export(CLI::App& app, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* exporter =
      app.add_subcommand("export", "write the newest checkpoint's weights for other programs");
  exporter->add_option("--workdir", out.workdir, "folder of the run")->envname("BVTRAIN_WORKDIR");
  exporter->add_option("--config", out.config, "YAML file of a model, in place of --workdir");
  exporter->add_option("--set", sets, "KEY=VALUE, e.g. model_init=F.npz")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  exporter->add_option("--format", out.format, "npz, safetensors, onnx, timm (most models)")
      ->check(CLI::IsMember({"npz", "safetensors", "timm", "onnx"}));
  exporter->add_option(
      "--image-size", out.image_size,
      "HEIGHT,WIDTH[,CHANNELS] of the model's images, where nothing else tells it");
  exporter->add_flag("--ema", out.ema, "the checkpoint's averaged weights");
  exporter->add_option("--output", out.output, "file to write")->required();
  return exporter;
}

CLI::App* add_predict(CLI::App& app, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* predict =
      app.add_subcommand("predict", "run a trained model over images and write its outputs");
  predict->add_option("--config", out.config, "YAML file; default: that of the checkpoint")
      ->envname("BVTRAIN_CONFIG");
  predict->add_option("--workdir", out.workdir, "folder of the run whose newest checkpoint is used")
      ->envname("BVTRAIN_WORKDIR");
  predict->add_option("--set", sets, "KEY=VALUE, e.g. model_init=F.npz")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  predict
      ->add_option("--input", out.inputs,
                   "images: files, folders, or an npz with the array `image`")
      ->required()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  predict->add_option("--pp", out.pp, "preprocessing; default: that of the first evaluator");
  predict->add_option(
      "--outputs", out.outputs,
      "for *.npz: logits, image (after preprocessing), activations by path; joined by ','");
  predict->add_option("--output", out.output, "*.npz, or *.jsonl for the most probable classes")
      ->required();
  predict->add_option("--top", out.top, "for *.jsonl: how many classes")
      ->check(CLI::PositiveNumber);
  predict->add_option("--batch-size", out.batch_size, "images at a time")
      ->check(CLI::Range(1, 65536));
  predict->add_flag("--ema", out.ema, "the checkpoint's averaged weights");
  return predict;
}

void add_launch(CLI::App& app, Arguments& out) {
  app.add_option("--devices", out.devices, "auto, cpu, or cpu:N for N processes on this host")
      ->envname("BVTRAIN_DEVICES");
  app.add_option("--launcher", out.launcher,
                 "who started the ranks: auto, none, self, env (torchrun), slurm, mpi")
      ->envname("BVTRAIN_LAUNCHER");
  app.add_option("--nnodes", out.nnodes, "hosts of the run, each with this command")
      ->envname("BVTRAIN_NNODES");
  app.add_option("--node-rank", out.node_rank, "number of this host; 0 is that of --rendezvous")
      ->envname("BVTRAIN_NODE_RANK");
  app.add_option("--rendezvous", out.rendezvous, "HOST:PORT on node 0, where the hosts meet")
      ->envname("BVTRAIN_RENDEZVOUS");
  app.add_option("--max-restarts", out.max_restarts,
                 "how often the ranks start again after a failure, from the last checkpoint")
      ->check(CLI::Range(0, 1000000))
      ->envname("BVTRAIN_MAX_RESTARTS");
  app.add_option("--elastic", out.elastic, "MIN:MAX: a restart may have fewer ranks")
      ->envname("BVTRAIN_ELASTIC");
}

}  // namespace

bool parse_arguments(int argc, char** argv, Arguments& out) {
  out.argv.assign(argv, argv + argc);
  std::vector<std::string> args(out.argv.begin() + 1, out.argv.end());
  std::vector<Override> spelled = take_config_overrides(args);

  CLI::App app{"bvtrain: trains image models from a YAML file", "bvtrain"};
  app.footer(kFooter);
  app.set_help_flag("--help,-h", "print this and leave");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  std::vector<std::string> sets;
  std::string dry_run;
  app.add_option("--config", out.config, "YAML file that says what to train")
      ->envname("BVTRAIN_CONFIG");
  app.add_option("--workdir", out.workdir, "folder of the run: checkpoints, metrics, report")
      ->envname("BVTRAIN_WORKDIR");
  app.add_option("--set", sets, "KEY=VALUE in place of the file's (a.b.c=v); may be repeated")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_launch(app, out);
  auto* dry = app.add_flag(
      "--dry-run{quick}", dry_run,
      "build and check everything, print sizes, write nothing; =full uses the whole batch");
  app.add_flag("--synthetic", out.synthetic,
               "generated data of the right form in place of every source")
      ->envname("BVTRAIN_SYNTHETIC");
  app.add_flag("--cleanup", out.cleanup, "remove the workdir after a successful end")
      ->envname("BVTRAIN_CLEANUP");
  app.add_option("--list", out.list,
                 "print the names of: models sources ops optimizers schedules losses tasks evals");
  app.add_flag("--explain", out.explain,
               "print every key read, its value, origin and the line that reads it");
  app.add_flag("--version", out.version, "print versions");

  CLI::App* exporter = add_export(app, out, sets);
  CLI::App* bench =
      app.add_subcommand("bench", "measure loader, step and both together for a config");
  bench->add_option("--config", out.config, "YAML file")->required()->envname("BVTRAIN_CONFIG");
  bench->add_option("--set", sets, "KEY=VALUE")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  bench->add_option("--seconds", out.seconds, "time for each measurement");
  bench->add_flag("--synthetic", out.synthetic, "generated data");
  CLI::App* predict = add_predict(app, out, sets);
  app.require_subcommand(0, 1);

  try {
    std::vector<std::string> reversed(args.rbegin(), args.rend());  // CLI11 pops from the back
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* about = &app;
    for (const CLI::App* sub : {exporter, predict, bench}) about = sub->parsed() ? sub : about;
    std::fputs(about->help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    throw Error(Exit::usage, "bvtrain", usage_message(app, error, args));
  }
  if (exporter->parsed()) out.verb = Arguments::Verb::export_weights;
  if (predict->parsed()) out.verb = Arguments::Verb::predict;
  if (bench->parsed()) out.verb = Arguments::Verb::bench;
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
  return true;
}

}  // namespace bv
