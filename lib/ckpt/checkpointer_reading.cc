// How a Checkpointer finds and reads a checkpoint.
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/checkpoint_meta.h"
#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/manifest.h"
#include "lib/ckpt/read_checkpoint.h"
#include "lib/ckpt/weights_file.h"
#include "lib/report/log.h"
#include "lib/report/storage_retries.h"
#include "lib/util/descriptor.h"
#include "lib/util/error.h"
#include "lib/util/file.h"

namespace bv {
namespace {

namespace fs = std::filesystem;

// Throws unless the manifest of the checkpoint of `step` names that step.
void check_step_of(int64_t named, int64_t step) {
  if (named != step)
    throw Error::bare(Exit::usage, fmt::format("{} belongs to step {}", kManifestName, named));
}

// Calls read(), which reads the checkpoint in `folder`, and returns its result. If the disk fails,
// calls it again a few times, because the checkpoint need not be damaged: a server may be busy for
// a moment, and a stale file of NFS must be opened again. Then throws Error(Exit::storage).
template <class Read>
auto read_patiently(const std::string& folder, const Read& read) {
  std::optional<decltype(read())> result;
  StorageRetries retries;
  retries([&] {
    try {
      result.emplace(read());
    } catch (const Error& error) {
      if (error.code() != Exit::storage) throw;
      throw Error(Exit::storage, folder, error.message());
    }
  });
  return std::move(*result);
}

// Returns what can be read in place of damaged checkpoints, for the end of an error message.
std::string remedy_of(const CkptFolder& ckpt) {
  std::string text = fmt::format("; `bvtrain ckpt verify {}` checks each", ckpt.path());
  for (const std::string& folder : ckpt.all_best()) {
    try {
      verify_checkpoint(folder);
      text += fmt::format("; '{}:{}' is intact: `predict`, `export` and `model_init` can read it",
                          ckpt.path(), fs::path(folder).filename().string());
    } catch (const Error&) {
      // It is damaged too.
    }
  }
  return text;
}

// Tells of best checkpoints that are intact and newer than `step`, to which a run falls back.
void tell_of_newer_best(const CkptFolder& ckpt, int64_t step) {
  for (const std::string& folder : ckpt.all_best()) {
    try {
      const int64_t best = read_manifest(folder).step;
      if (best <= step) continue;
      verify_checkpoint(folder);
      log::warn(
          "[ckpt] {0} is intact and of step {1}, newer than {2}: to continue a run from it, stop "
          "the run, delete {3} and rename {0} to {3}",
          folder, best, CkptFolder::step_name(step), ckpt.step(best));
    } catch (const Error&) {
      // It is damaged too.
    }
  }
}

std::optional<Restored> latest_in(const CkptFolder& ckpt, const ReadOptions& options) {
  const std::vector<int64_t> steps = ckpt.steps();
  std::string newest_fault;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const std::string folder = ckpt.step(*step);
    try {
      Restored restored = read_patiently(folder, [&] { return read_checkpoint(folder, options); });
      check_step_of(restored.step, *step);
      if (!newest_fault.empty()) tell_of_newer_best(ckpt, *step);
      return restored;
    } catch (const TooManyOpenFiles&) {
      throw;
    } catch (const Error& error) {
      // Going back to an older checkpoint would lose steps that may well be there.
      if (error.code() == Exit::storage) {
        throw Error(
            Exit::storage, folder,
            fmt::format("{}; run the command again when the disk can be read{}", error.message(),
                        *step == steps.front()
                            ? ""
                            : ", or move this folder away to use an older checkpoint"));
      }
      if (newest_fault.empty()) newest_fault = error.what();
      if (*step != steps.front()) {
        log::warn("[ckpt] {}: {}; falling back", CkptFolder::step_name(*step), error.what());
      }
    }
  }
  if (steps.empty()) return std::nullopt;
  throw Error(
      Exit::usage, ckpt.path(),
      fmt::format("none of the {} checkpoints here is intact; the newest, {}: {}{}", steps.size(),
                  CkptFolder::step_name(steps.back()), newest_fault, remedy_of(ckpt)));
}

}  // namespace

std::optional<Restored> Checkpointer::latest(const Workdir& workdir, const ReadOptions& options) {
  return latest_in(workdir.ckpt(), options);
}

std::optional<int64_t> Checkpointer::latest_step(const CkptFolder& ckpt, bool resumes) {
  const std::vector<int64_t> steps = ckpt.steps();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const std::string folder = ckpt.step(*step);
    try {
      const Manifest manifest = read_patiently(folder, [&] { return verify_checkpoint(folder); });
      check_step_of(manifest.step, *step);
      if (resumes) check_resumable(manifest.meta);
      return *step;
    } catch (const TooManyOpenFiles&) {
      throw;
    } catch (const Error& error) {
      if (error.code() == Exit::storage) throw;
      // An older one may be intact.
    }
  }
  return std::nullopt;
}

std::optional<Restored> Checkpointer::peek(const std::string& given, bool resumes) {
  const std::string path = checkpoint_path(given);
  std::vector<std::string> folders = {path};
  if (!is_checkpoint_folder(path)) {
    const CkptFolder ckpt = CkptFolder::at(path);
    folders.clear();
    for (const int64_t step : ckpt.steps()) folders.insert(folders.begin(), ckpt.step(step));
  }
  for (const std::string& folder : folders) {
    try {
      Manifest manifest = read_manifest(folder);
      if (folder != path)
        check_step_of(manifest.step, *CkptFolder::step_of(fs::path(folder).filename().string()));
      if (resumes) check_resumable(manifest.meta);
      return Restored{manifest.step, folder, {}, std::move(manifest.meta), {}, manifest.keep};
    } catch (const TooManyOpenFiles&) {
      throw;
    } catch (const Error&) {
      // latest() and load() report what is wrong with it.
    }
  }
  return std::nullopt;
}

Restored Checkpointer::reopen(const std::string& folder, const ReadOptions& options) {
  try {
    return read_patiently(folder, [&] { return read_wanted(folder, options); });
  } catch (const Error& fault) {
    throw Error(file_exists(folder) ? Exit::storage : Exit::usage, folder,
                fault.message() +
                    ", although rank 0 has read it without a fault (do both see the same disk?)");
  }
}

Restored Checkpointer::load(const std::string& given, const ReadOptions& options) {
  refuse_remote_path(given);
  const std::string path = checkpoint_path(given);
  std::error_code error;
  if (const std::string averaged = checkpoint_of_averages(path); !averaged.empty()) {
    throw Error(
        Exit::usage, path,
        fmt::format("':ema' names averaged weights, which model_init takes; give {} here, and for "
                    "predict and export add --ema",
                    averaged));
  }
  if (!file_exists(path)) throw Error(Exit::usage, path, "no such checkpoint");
  if (!fs::is_directory(path, error)) {
    throw Error(Exit::usage, path,
                "not a folder; expected a checkpoint folder, a ckpt/ folder or a workdir");
  }
  if (is_checkpoint_folder(path)) {
    try {
      return read_patiently(path, [&] { return read_checkpoint(path, options); });
    } catch (const Error& fault) {
      if (fault.code() == Exit::storage) throw;
      throw Error(Exit::usage, path, fault.what());
    }
  }
  if (auto restored = latest_in(CkptFolder::at(path), options)) return std::move(*restored);
  if (const std::string advice = advice_for_weights_in(path); !advice.empty())
    throw Error(Exit::usage, path, "holds no checkpoint and no model.safetensors; " + advice);
  throw Error(Exit::usage, path,
              "holds no checkpoint (neither manifest.json nor step-<n>/ nor ckpt/step-<n>/)");
}

}  // namespace bv
