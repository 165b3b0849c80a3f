#include "app/options.h"

#include <fmt/format.h>

#include "app/bench_options.h"
#include "app/common_options.h"
#include "lib/help/exit_codes.h"
#include "lib/help/wrap.h"
#include "lib/util/text.h"

namespace bv {
namespace {

std::string footer() {
  std::vector<std::string> codes;
  for (const ExitText& code : exit_codes())
    codes.push_back(fmt::format("{} {}", static_cast<int>(code.code), code.name));
  return "\n" + wrap("Exit codes: " + join(codes, ", ") +
                         ". `bvtrain help CODE` explains one. Run the same command again to "
                         "continue a stopped run. Options marked (Env:...) can also be set by that "
                         "environment variable.",
                     "", "");
}

CLI::App* add_export(CLI::App& app, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* exporter = app.add_subcommand(
      "export", "export the weights of the newest checkpoint for other programs");
  exporter->add_option("--workdir", out.workdir, "folder of the run")->envname("BVTRAIN_WORKDIR");
  exporter->add_option("--config", out.config, "YAML file of a model, instead of --workdir");
  add_set(*exporter, sets, "KEY=VALUE, e.g. model_init=F.npz");
  exporter
      ->add_option("--format", out.format,
                   "npz, safetensors, onnx or timm (safetensors with timm's names, most models); "
                   "default: from the suffix of --output")
      ->check(CLI::IsMember({"npz", "safetensors", "timm", "onnx"}));
  exporter->add_option("--image-size", out.image_size,
                       "image size of the model as HEIGHT,WIDTH[,CHANNELS], instead of that of the "
                       "run; required with --config if the weights do not determine it");
  exporter->add_flag("--best", out.best, "use the best checkpoint (key `best`), not the newest");
  exporter->add_flag("--ema", out.ema, "use the averaged (EMA) weights");
  exporter->add_option("--output", out.output, "file to write: *.npz, *.safetensors or *.onnx")
      ->required();
  return exporter;
}

CLI::App* add_predict(CLI::App& app, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* predict =
      app.add_subcommand("predict", "run a trained model on images and write its outputs");
  predict->add_option("--config", out.config, "YAML file; default: that of the checkpoint or file")
      ->envname("BVTRAIN_CONFIG");
  predict->add_option("--workdir", out.workdir, "folder of the run; its newest checkpoint is used")
      ->envname("BVTRAIN_WORKDIR");
  predict->add_option("--weights", out.weights,
                      "instead of --workdir: *.safetensors or *.npz from `bvtrain export`, or any "
                      "weights file with --config");
  add_set(*predict, sets, "KEY=VALUE, e.g. precision=float32");
  predict
      ->add_option("images,--input", out.inputs,
                   "images: files, folders, an npz with the array `image`, or - for a list of "
                   "files on standard input (one per line or NUL-separated)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  predict->add_option("--eval", out.eval,
                      "instead of images: use the data and pp_fn of this evaluator in the config");
  predict->add_option("--first", out.first, "process only this many examples")
      ->check(integer_from(1, 1 << 30));
  predict->add_option("--pp", out.pp, "preprocessing ops; default: those of the first evaluator");
  predict->add_option("--outputs", out.outputs,
                      "for *.npz: logits (the default), image (after preprocessing) or names of "
                      "activations, comma-separated");
  predict->add_option("--output", out.output,
                      "*.jsonl or *.csv for the most probable classes, *.npz for arrays, or - for "
                      "standard output; default: print a table");
  predict
      ->add_option("--format", out.format,
                   "jsonl, csv or npz; default: from the suffix of --output, jsonl for -")
      ->check(CLI::IsMember({"jsonl", "csv", "npz"}));
  predict
      ->add_option("--top", out.top,
                   "classes per image; default: 5 in files, and in the table 1, or with multilabel "
                   "the predicted ones")
      ->check(integer_from(1));
  predict->add_option("--batch-size", out.batch_size, "images per batch; default: 64")
      ->check(integer_from(1, 65536));
  add_device(*predict, out, "computes the model");
  predict->add_flag("--best", out.best, "use the best checkpoint (key `best`), not the newest");
  predict->add_flag("--ema", out.ema, "use the averaged (EMA) weights");
  return predict;
}

CLI::App* add_eval(CLI::App& app, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* eval = app.add_subcommand("eval", "evaluate a run's checkpoints, even while it trains");
  eval->add_option("--workdir", out.workdir, "folder of the run")->envname("BVTRAIN_WORKDIR");
  eval->add_flag("--follow", out.evaluate.follow,
                 "evaluate new checkpoints as they are saved, until the run has finished");
  eval->add_flag("--once", out.evaluate.once,
                 "evaluate the checkpoints that have no row yet, then exit (the default)");
  eval->add_option("--ckpt", out.evaluate.step,
                   "evaluate only the checkpoint of this step, and write no row")
      ->check(integer_from(0));
  eval->add_flag("--best", out.best,
                 "evaluate only the best checkpoint (key `best`), and write no row");
  eval->add_option("--config", out.config,
                   "YAML file whose evaluators run on the run's model; default: the run's config");
  add_set(*eval, sets, "KEY=VALUE, e.g. evals.test.batch_size=100");
  eval->add_option("--output", out.output,
                   "folder for metrics.jsonl and report.html; default: eval/ in the workdir");
  add_device(*eval, out, "computes the model");
  add_json(*eval, out);
  return eval;
}

CLI::App* add_replay(CLI::App& app, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* replay = app.add_subcommand(
      "replay",
      "find the first NaN or infinity: repeat a bad step, or a run from its last checkpoint");
  replay->add_option("folder", out.replay.folder,
                     "folder of a bad step, in post-mortem/ of the workdir");
  replay->add_option("--workdir", out.workdir, "instead: folder of the run to repeat")
      ->envname("BVTRAIN_WORKDIR");
  replay->add_option("--steps", out.replay.steps, "number of steps; default: to the end of the run")
      ->check(integer_from(1));
  add_set(*replay, sets, "KEY=VALUE, e.g. precision=float32");
  add_json(*replay, out);
  return replay;
}

CLI::App* add_compare(CLI::App& app, Arguments& out) {
  CLI::App* compare = app.add_subcommand(
      "compare", "print a table of runs: the config keys that differ, and metrics over seeds");
  Arguments::Compare& given = out.compare;
  compare->add_option("runs", given.paths, "workdirs, folders that contain workdirs, or globs")
      ->required()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  compare->add_option("--sort", given.sort, "metric to sort the runs by; default: the main metric");
  compare
      ->add_option("--better", given.better,
                   "higher or lower: which values come first; default: from the metric's name")
      ->check(CLI::IsMember({"higher", "lower"}));
  CLI::Option* best =
      compare->add_flag("--best", given.best, "use the best value of all rows of a run");
  compare->add_flag("--last", given.last, "use the value of the last row that has it (the default)")
      ->excludes(best);
  compare->add_option("--metrics", given.metrics, "more metrics to show, comma-separated")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  compare->add_option("--format", given.format, "text (the default), csv or json")
      ->check(CLI::IsMember({"text", "csv", "json"}));
  compare->add_option("--html", given.html, "also write a page with the table and all curves");
  return compare;
}

CLI::Option* add_steps(CLI::App& app, Arguments& out) {
  return app.add_option("--steps", out.ckpt.steps, "steps of checkpoints, comma-separated")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(integer_from(0));
}

void add_average(CLI::App& ckpt, Arguments& out) {
  CLI::App* average = ckpt.add_subcommand("average", "average the weights of several checkpoints");
  average->add_option("workdir", out.ckpt.path, "workdir or ckpt/ folder")->required();
  CLI::Option* steps = add_steps(*average, out);
  average->add_option("--last", out.ckpt.last, "instead of --steps: the newest N checkpoints")
      ->check(integer_from(1))
      ->excludes(steps);
  average->add_flag("--ema", out.ema, "average the EMA weights");
  average
      ->add_option("--format", out.format,
                   "npz or safetensors; default: from the suffix of --output")
      ->check(CLI::IsMember({"npz", "safetensors"}));
  average->add_option("--output", out.output, "file to write: *.npz or *.safetensors")->required();
}

void add_rm(CLI::App& ckpt, Arguments& out) {
  CLI::App* rm = ckpt.add_subcommand(
      "rm", "remove checkpoints of an inactive run; the newest intact one is always kept");
  rm->add_option("workdir", out.ckpt.path, "folder of the run")->required();
  CLI::Option* steps = add_steps(*rm, out);
  rm->add_flag(
        "--all-but-newest", out.ckpt.all_but_newest,
        "remove all checkpoints but the newest intact one, including those of keep_ckpt_steps")
      ->excludes(steps);
  rm->add_flag("--dry-run", out.ckpt.dry_run, "print what would be removed without removing it");
}

CLI::App* add_ckpt(CLI::App& app, Arguments& out) {
  CLI::App* ckpt = app.add_subcommand(
      "ckpt", "list, verify, compare, average or remove the checkpoints of a run");
  CLI::App* ls = ckpt->add_subcommand(
      "ls", "list the checkpoints of a run: size, age, main metric and why each is kept");
  ls->add_option("workdir", out.ckpt.path, "workdir or ckpt/ folder")->required();
  add_json(*ls, out);
  ckpt->add_subcommand("verify", "verify the checksums of checkpoint files")
      ->add_option("paths", out.ckpt.paths,
                   "workdirs, ckpt/ folders, checkpoints, or WORKDIR:best for the best one")
      ->required()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  CLI::App* diff = ckpt->add_subcommand(
      "diff", "list the config keys and tensors in which two checkpoints differ");
  diff->add_option("a", out.ckpt.path, "checkpoint, or workdir for its newest one")->required();
  diff->add_option("b", out.ckpt.other, "checkpoint, or workdir for its newest one")->required();
  diff->add_option("--top", out.ckpt.top,
                   "number of tensors to show, those that differ most first; default: 10")
      ->check(integer_from(0));
  add_json(*diff, out);
  add_average(*ckpt, out);
  add_rm(*ckpt, out);
  ckpt->require_subcommand(0, 1);
  return ckpt;
}

// Adds the common options of the `data` subcommands.
void add_data_options(CLI::App& part, Arguments& out, std::vector<std::string>& sets) {
  part.add_option("folder", out.data.folder,
                  "instead of --config: a folder of any kind of data that `bvtrain init` supports");
  part.add_option("--config", out.config, "YAML file with the data sets to inspect");
  add_set(part, sets, "KEY=VALUE, e.g. input.data.split=test");
  part.add_option("--only", out.data.only,
                  "only these data sets, comma-separated: input, evals.val, ...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  part.add_option("--threads", out.data.threads, "reader threads; default: one per core")
      ->check(integer_from(1, 4096));
}

CLI::App* add_data(CLI::App& app, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* data = app.add_subcommand("data", "inspect data: broken examples, statistics, index");
  CLI::App* check = data->add_subcommand(
      "check", "read and decode every example, and list the broken ones (exit code 3)");
  add_data_options(*check, out, sets);
  check->add_flag("--pp", out.data.pp, "also apply the preprocessing ops of the config");
  check->add_option("--output", out.output,
                    "JSON Lines file to write, for the key `quarantine`; default: standard output");
  CLI::App* stats = data->add_subcommand(
      "stats", "compute statistics: classes, image sizes, mean and standard deviation of pixels");
  add_data_options(*stats, out, sets);
  add_json(*stats, out);
  add_data_options(
      *data->add_subcommand("index", "open every data set and store its index for later runs"), out,
      sets);
  data->require_subcommand(0, 1);
  return data;
}

CLI::App* add_init(CLI::App& app, Arguments& out) {
  CLI::App* init =
      app.add_subcommand("init", "inspect a folder of images and write a config to train on it");
  init->add_option(
          "folder", out.init.folder,
          "folder that holds class folders of images (also in train/ and val/), a CSV or JSON "
          "Lines file and its images, WebDataset tars, a TFDS data set, or files of MNIST (IDX), "
          "CIFAR or npz")
      ->required();
  init->add_option("--label", out.init.label,
                   "column of the CSV file with the labels, or several, comma-separated; default: "
                   "label or class")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  init->add_option("--task", out.init.task,
                   "what the labels of the CSV file are: classify (one class per image, the "
                   "default), multilabel (several classes or none) or regress (numbers)")
      ->check(CLI::IsMember({"classify", "multilabel", "regress"}));
  init->add_option("--from", out.init.from,
                   "weights to fine-tune: *.npz, *.safetensors, or the workdir of a run");
  init->add_option("--output", out.output,
                   "YAML file to write, which must not exist; default: the folder's name + .yaml");
  add_json(*init, out);
  return init;
}

void add_launch(CLI::App& app, Arguments& out) {
  app.add_option("--devices", out.devices,
                 "auto, cpu, cpu:N for N processes on this host, cuda, cuda:0,1 or cuda:all")
      ->envname("BVTRAIN_DEVICES");
  app.add_option("--launcher", out.launcher,
                 "what starts the processes: auto, none, self, env (torchrun), slurm, mpi")
      ->envname("BVTRAIN_LAUNCHER");
  app.add_option("--nnodes", out.nnodes, "number of hosts; run this command on each")
      ->check(integer_from(1, 65536))
      ->envname("BVTRAIN_NNODES");
  app.add_option("--node-rank", out.node_rank, "index of this host; 0 is the host of --rendezvous")
      ->check(integer_from(0, 65535))
      ->envname("BVTRAIN_NODE_RANK");
  app.add_option("--rendezvous", out.rendezvous, "HOST:PORT of node 0, where all hosts connect")
      ->envname("BVTRAIN_RENDEZVOUS");
  app.add_option("--max-restarts", out.max_restarts,
                 "maximum number of restarts from the last checkpoint after a failure; default: 0")
      ->check(integer_from(0, 1000000))
      ->envname("BVTRAIN_MAX_RESTARTS");
  app.add_option("--elastic", out.elastic,
                 "with --max-restarts: MIN:MAX processes; a restart may use fewer than before")
      ->envname("BVTRAIN_ELASTIC");
}

CLI::App* add_help(CLI::App& app, Arguments& out) {
  CLI::App* help = app.add_subcommand(
      "help", "explain a config key, command, flag, exit code, model, op, ... by name");
  help->add_option("words", out.help.words,
                   "such as lr, evals.*.pp_fn, vit, ops, 75; default: list the topics")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  help->allow_extras();  // flags as topics: bvtrain help --workdir
  help->add_flag("--man", out.help.man, "print the man page");
  help->add_option("--reference", out.help.reference, "write the reference pages into this folder");
  return help;
}

CLI::App* add_completion(CLI::App& app, Arguments& out) {
  CLI::App* completion = app.add_subcommand("completion", "print a shell completion script");
  completion->add_option("shell", out.shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return completion;
}

}  // namespace

Options::Options(Arguments& out) {
  app.footer(footer());
  app.set_help_flag("--help,-h", "print this help and exit");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  app.add_option("--config", out.config, "YAML config of the run")->envname("BVTRAIN_CONFIG");
  app.add_option("--workdir", out.workdir, "folder of the run: checkpoints, metrics, report")
      ->envname("BVTRAIN_WORKDIR");
  add_set(app, sets, "KEY=VALUE (a.b.c=v) replaces a value of the config; may be repeated");
  add_launch(app, out);
  app.add_option("--max-time", out.max_time,
                 "save and stop with exit code 75 after this time: 90s, 30m, 47h50m, 2d. In a "
                 "slurm job the run also stops two minutes before the job ends")
      ->envname("BVTRAIN_MAX_TIME");
  app.add_flag("--requeue", out.requeue,
               "when the run stops with code 75, requeue the slurm job, so that it continues later")
      ->envname("BVTRAIN_REQUEUE");
  dry = app.add_flag(
      "--dry-run{quick}", dry_run,
      "build and check everything, print sizes, write nothing but the index of the data; =full "
      "uses a whole batch");
  app.add_flag("--synthetic", out.synthetic,
               "replace all data with synthetic data of the right shape")
      ->envname("BVTRAIN_SYNTHETIC");
  app.add_flag("--cleanup", out.cleanup, "remove the workdir after the last step")
      ->envname("BVTRAIN_CLEANUP");
  app.add_flag("--accept-changes", out.accept_changes,
               "continue the run in --workdir although its config has changed");
  app.add_flag("--debug-on-crash", out.debug_on_crash,
               "let a crashed process wait for gdb and print how to attach it");
  app.add_option("--list", out.list,
                 "print the names of: models sources ops optimizers schedules losses tasks evals");
  app.add_flag("--explain", out.explain,
               "print every key in use: its value, its origin and the line of code that reads it");
  app.add_flag("--json", out.json,
               "with --list and --dry-run: print a JSON object instead of text");
  app.add_flag("--version", out.version,
               "print the version, commit, LibTorch, compiler and CUDA plug-in");

  using Verb = Arguments::Verb;
  verbs = {{Verb::bench, add_bench(app, out, sets)},
           {Verb::export_weights, add_export(app, out, sets)},
           {Verb::predict, add_predict(app, out, sets)},
           {Verb::eval, add_eval(app, out, sets)},
           {Verb::replay, add_replay(app, out, sets)},
           {Verb::compare, add_compare(app, out)},
           {Verb::ckpt, add_ckpt(app, out)},
           {Verb::data, add_data(app, out, sets)},
           {Verb::init, add_init(app, out)},
           {Verb::help, add_help(app, out)},
           {Verb::schema, app.add_subcommand("schema", "print the JSON Schema of a config")},
           {Verb::completion, add_completion(app, out)}};
  app.require_subcommand(0, 1);
}

}  // namespace bv
