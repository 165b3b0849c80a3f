// KeyTable: what the keys of a config mean.
//
// The file that reads the keys of a mapping describes them in one table at its top:
//
//     const KeyTable cnn_keys("model: cnn",
//                             {"A small convolutional network.", "widths: [32, 64]"},
//                             {{"widths", "list of int >= 1", "[32, 64]", "Channels of layers."},
//                              {"dropout", "float 0..1", "0", "Rate before the last layer."}});
//
// `bvtrain help`, the JSON Schema, the reference pages, the man page and shell completion are
// generated from these tables (lib/help). Tests check that each key that is read has a row, that
// the row has the default of the read, and that each plug-in has a table.
//
// The place of a table determines which mapping has the keys:
//     ""                the top level of a config
//     "input"           a mapping, by its path; "*" is any name: "evals.*"
//     "model: cnn"      the mapping `model` if the model is cnn. So for "input.data: idx" (every
//                       section that describes a data set), "evals.*: knn", "optax: adam",
//                       "schedule: cosine"
//     "pp: resize"      the arguments of an op, in their order
//     "task_kw: regress"   the mapping `task_kw` if the task is regress
//     "loss: softmax_xent"   a plug-in without its own keys
//
// Tables register before main(), like plug-ins, and do not change afterwards.
#pragma once

#include <initializer_list>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

// One key. All texts are literals.
struct KeyText {
  // "width". "total_{steps,epochs}" stands for total_steps and total_epochs.
  std::string_view name;
  // One or more of these, separated by " | ":
  //     bool, int, float, string, any
  //     'word'              exactly this word; numbers and booleans too: 'false'
  //     list of TYPE        a list of any length
  //     [TYPE, TYPE]        a list of this length
  //     map                 a mapping; its keys have a table at the path of this key
  //     map of PLACE        a mapping with the keys of the tables at PLACE: "map of input.data"
  //     map of TYPE         a mapping with keys of the user's choice: "map of float"
  // int and float may have a range: "int >= 1", "float > 0", "float 0..1"; "float 0..<1" if 1
  // itself is not allowed, "float 0<..1" if 0 is not. test/help/key_ranges_test.cc checks that the
  // program rejects values outside the range.
  std::string_view type;
  // A value as YAML, or "required", or "none" if an absent key has no value, or "= " and words if
  // the program computes the value: "= 4 * width".
  std::string_view fallback;
  // What the key does, in full sentences.
  std::string_view meaning;
  // A value as YAML, if the default and the type do not show how one looks.
  std::string_view example = {};
  // What big_vision calls the key, if that differs from `name`; "-" if it has no such key.
  // Empty: the same, if the table has a counterpart in big_vision.
  std::string_view big_vision = {};
};

// What a table as a whole describes.
struct TableText {
  std::string_view about;         // in full sentences; what the plug-in or mapping does
  std::string_view example = {};  // YAML below the mapping's key, or a call for an op
  // The file and function of big_vision: "models/vit.py _Model". Empty: it has none.
  std::string_view big_vision = {};
  // Tables with the same place are sorted by their files.
  std::source_location source = std::source_location::current();
};

class KeyTable {
 public:
  // `shared` are arrays of KeyText that several tables have; they come after `keys`. They must be
  // constexpr, because tables are made while other globals are being initialized.
  template <class... Shared>
  KeyTable(std::string_view place, TableText text, std::initializer_list<KeyText> keys,
           const Shared&... shared)
      : place(place), text(text), keys(keys) {
    (this->keys.insert(this->keys.end(), std::begin(shared), std::end(shared)), ...);
    add(*this);
  }

  std::string_view place;
  TableText text;
  std::vector<KeyText> keys;

 private:
  static void add(const KeyTable& table);  // copies it
};

// Returns all tables, sorted by place and file.
const std::vector<KeyTable>& key_tables();

// Returns the place of the tables that describe the mapping at `path` of a config: "input.data" for
// the data of an evaluator, "evals.*" for an evaluator.
std::string table_place(std::string_view path);
// Whether a table of the mapping at `path`, or of one of its plug-ins, has the key.
bool has_row(std::string_view path, std::string_view key);

}  // namespace bv
