// The data sets that a config names, found without the rest of the config: for commands that only
// inspect data.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/input/pipeline.h"
#include "lib/input/prepare_data.h"

namespace bv {

// A section of a config that describes a data set.
struct DataSection {
  // What messages and lists call it: "input", "input.<name>" in a mixture, "evals.<name>", or
  // "evals.<name>.<part>" for an evaluator with several.
  std::string name;
  Config owner;             // the mapping that has `pp` and `quarantine`
  Config loader;            // the one that has `skip_errors`: that of a whole mixture
  Config data;              // the mapping with `name` and `split`
  std::string pp_key;       // of `owner`
  bool own_classes = true;  // its classes need not be those of the training data
};

// Returns the data sets of a config: those of `input`, then those of the evaluators, in the order
// of the file. Throws Error(Exit::usage) if there are none.
std::vector<DataSection> data_sections(const Config& config);

// Throws Error(Exit::usage) at `place` if a folder that a program writes, which need not exist,
// would become a class of an image folder of the config. `what` says what to choose outside of it:
// "a --workdir". The message begins with `subject`.
void check_outside_data(const Config& config, const std::string& folder, const std::string& place,
                        const std::string& what, const std::string& subject = "");

// Keeps the sections that `only` names, or whose name begins with one of these and a dot. Throws
// Error(Exit::usage) if one of them matches no section.
std::vector<DataSection> choose_sections(std::vector<DataSection> sections,
                                         const std::vector<std::string>& only);

// How data sets are opened.
struct OpenOptions {
  // Keeps broken files as examples (SourceEnv). Otherwise the keys skip_errors and quarantine
  // decide.
  bool keep_broken = false;
  bool quarantine = false;  // leaves out the examples of the key `quarantine`
  bool pp = false;          // with the pp string, and with labels numbered as for training
  int threads = 1;          // to name the examples that a quarantine list is compared with
};

struct OpenedData {
  std::string name;
  std::string folder;  // its data_dir, "" if it has none
  std::shared_ptr<const Dataset> data;
  std::shared_ptr<const Pipeline> pp;  // null without OpenOptions::pp
  // For csv and jsonl: the features that are files, each with the folder that its file names are
  // relative to ("": the working directory). In the order of Dataset::files_of().
  std::map<std::string, std::string> file_folders = {};
  // How the first op of the pp string decodes image files; nullopt if there is no such op. Also
  // without OpenOptions::pp.
  std::optional<Decoding> decoding = {};
  bool class_folders = false;  // describe() is the path of an image file in `folder`
};

// Opens data sets of one config.
class DataOpener {
 public:
  // `sections`: all those of the config.
  DataOpener(const Config& config, std::vector<DataSection> sections, const OpenOptions& options);

  // Throws Error(Exit::usage).
  OpenedData open(const DataSection& section);

 private:
  OpenDataset prepare(const DataSection& section) const;
  std::shared_ptr<const Dataset> open_data(const DataSection& section,
                                           const std::optional<ClassNames>& classes);
  void learn_classes();

  Config config_;
  std::vector<DataSection> sections_;
  OpenOptions options_;
  SourceEnv env_;
  std::shared_ptr<OpenSources> open_sources_ = std::make_shared<OpenSources>();
  std::optional<ClassNames> classes_;  // of the training data
  // The sections that learn_classes() has read and open() has not taken yet. Reading the files of a
  // source may take long, so they are read only once.
  std::map<std::string, OpenDataset> prepared_;
};

}  // namespace bv
