// The model card of an exported weights file: what a program must know, besides the weights, to
// predict with them. It is stored as pairs of strings, under the same keys in every format
// (docs/weights.md): in the header of a safetensors file, in the metadata_props of an ONNX file,
// and in an npz file as one JSON object in the text array kModelCardArray.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace bv {

inline constexpr const char* kModelCardArray = "__bvtrain__";

using Metadata = std::map<std::string, std::string>;

struct ModelCard {
  std::string version;  // of the bvtrain that wrote the file
  std::string model_name;
  std::string model = "{}";  // its arguments, the config's section `model`: a JSON object
  int64_t num_classes = 0;
  std::vector<std::string> class_names;  // num_classes names, or empty if unknown
  std::optional<std::string> pp;         // the pp string with which predict preprocesses
  std::vector<int64_t> image;            // height, width, channels; empty if unknown
  // The smallest and the largest pixel value of some training images after preprocessing; empty if
  // unknown.
  std::vector<double> image_values;
  std::string precision;    // float32 or bf16; empty if unknown
  std::string loss;         // the key `loss` of the run; whoever reads a card checks the name
  bool multilabel = false;  // task_kw.multilabel: an image may have several classes or none
  std::optional<int64_t> max_pixels;  // the key `input.max_pixels`; whoever reads a card checks it
  std::optional<int64_t> step;        // of the checkpoint
  bool ema = false;                   // the weights are averages
};

// Returns the pairs of a file. What is unknown has no key.
Metadata to_metadata(const ModelCard& card);

// Returns the card in the pairs of `file`, which may hold keys of other programs too; nullopt if
// they hold no key of bvtrain. Throws Error(Exit::usage) that names the key if a key is missing or
// its value is not what to_metadata() writes.
std::optional<ModelCard> parse_model_card(const Metadata& metadata, const std::string& file);

// Returns the card as the text of kModelCardArray, and back. parse_metadata_json() throws
// Error(Exit::usage) unless `text` is a JSON object of strings.
std::string metadata_json(const Metadata& metadata);
Metadata parse_metadata_json(const std::string& text, const std::string& file);

}  // namespace bv
