#include "app/bench_options.h"

#include "app/common_options.h"

namespace bv {
namespace {

// Adds the common options of `bench` and `bench scaling`.
void add_config(CLI::App& bench, Arguments& out, std::vector<std::string>& sets) {
  bench.add_option("--config", out.config, "YAML file of the run")->envname("BVTRAIN_CONFIG");
  add_set(bench, sets, "KEY=VALUE replaces a value of the config");
  bench.add_flag("--synthetic", out.synthetic, "use synthetic data");
  add_json(bench, out);
}

void add_scaling(CLI::App& bench, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* scaling = bench.add_subcommand(
      "scaling", "predict the step time of a config on many processes (docs/scaling.md)");
  add_config(*scaling, out, sets);
  Arguments::Scaling& given = out.scaling;
  scaling
      ->add_option("--processes", given.processes,
                   "numbers of processes, comma-separated; default: 1,8,16,32,...,1024")
      ->delimiter(',')
      ->check(integer_from(1, 65536));
  scaling
      ->add_option("--examples", given.examples,
                   "examples per process; default: batch size / processes")
      ->check(integer_from(1, 1 << 20));
  const auto add = [&](const char* name, double& value, const char* help) {
    return scaling->add_option(name, value, help)->check(positive_number());
  };
  add("--compute-ms", given.compute_ms,
      "milliseconds of forward and backward on one device, for --examples examples or else a whole "
      "batch");
  add("--tflops", given.tflops,
      "instead of --compute-ms: sustained speed of a device in 10^12 operations per second");
  add("--update-ms", given.update_ms,
      "milliseconds of the optimizer update of all parameters; default: 0");
  add("--bandwidth-gb", given.bandwidth_gb,
      "bandwidth per process within a host in 10^9 bytes per second")
      ->required();
  add("--latency-us", given.latency_us, "latency of a message within a host in microseconds")
      ->required();
  add("--network-gb", given.network_gb,
      "bandwidth per process between hosts in 10^9 bytes per second; required if --processes, or "
      "its default, has a number above --per-host");
  add("--network-us", given.network_us,
      "latency of a message between hosts in microseconds; required if --network-gb is");
  scaling->add_option("--per-host", given.per_host, "processes per host; default: 8")
      ->check(integer_from(1, 65536));
  scaling
      ->add_option("--cores", given.cores,
                   "number of cores that the processes of a host share; default: one device each")
      ->check(integer_from(1, 65536));
}

}  // namespace

CLI::App* add_bench(CLI::App& app, Arguments& out, std::vector<std::string>& sets) {
  CLI::App* bench =
      app.add_subcommand("bench", "measure the speed of the loader, the step and both together");
  add_config(*bench, out, sets);
  bench->add_option("--seconds", out.seconds, "seconds per measurement; default: 5")
      ->check(positive_number());
  add_device(*bench, out, "is measured")->envname("BVTRAIN_DEVICES");
  add_scaling(*bench, out, sets);
  CLI::App* memory = bench->add_subcommand(
      "memory",
      "measure memory use by parameters, state and batch; find the largest batch that fits");
  add_config(*memory, out, sets);
  add_device(*memory, out, "is measured")->envname("BVTRAIN_DEVICES");
  CLI::App* operators = bench->add_subcommand(
      "operators", "list the operators of a step: FLOPs, bytes, and their minimum time on a GPU");
  add_config(*operators, out, sets);
  add_device(*operators, out, "runs the step")->envname("BVTRAIN_DEVICES");
  operators->add_option("--gpu", out.gpus, "GPUs for the minimum time; default: H100,H200")
      ->delimiter(',');
  CLI::App* collectives =
      bench->add_subcommand("collectives", "measure the speed of collectives between processes");
  collectives->add_option("--devices", out.devices, "cpu:N for N processes, cuda:0,1 or cuda:all")
      ->envname("BVTRAIN_DEVICES");
  collectives->add_option("--most-mb", out.most_mb, "largest message, in MiB; default: 64")
      ->check(integer_from(1, 4096));
  add_json(*collectives, out);
  bench->require_subcommand(0, 1);
  return bench;
}

}  // namespace bv
