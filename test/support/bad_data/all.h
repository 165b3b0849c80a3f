// All tables of broken data sets.
#pragma once

#include <iterator>

#include "test/support/bad_data/arrays.h"
#include "test/support/bad_data/manifests.h"
#include "test/support/bad_data/records.h"
#include "test/support/bad_data/tars.h"
#include "test/support/bad_data/tfrecords.h"
#include "test/support/folder.h"
#include "test/support/text.h"

namespace bv::test {

inline BadDataTable all_bad_data() {
  BadDataTable all;
  for (BadDataTable table : {ImageFolderTable().make(), IdxTable().make(), CifarTable().make(),
                             NpzTable().make(), TfdsTable().make(), TfrecordTable().make(),
                             TarTable().make(), CsvTable().make(), JsonlTable().make()})
    std::move(table.begin(), table.end(), std::back_inserter(all));
  return all;
}

inline std::vector<GoodData> all_good_data() {
  return {ImageFolderTable().good(), IdxTable().good(),  CifarTable().good(),
          NpzTable().good(),         TfdsTable().good(), TfdsTable().good_array_record(),
          TfrecordTable().good(),    TarTable().good(),  CsvTable().good(),
          JsonlTable().good()};
}

// Writes the files of a row into a folder.
inline void write_bad_data(const BadData& bad, const std::string& folder) {
  std::filesystem::create_directories(folder);
  for (const auto& [name, content] : bad.files) write(folder + "/" + name, content);
  if (bad.also) bad.also(folder);
}
// Returns the section of the config for that folder.
inline std::string bad_data_section(const BadData& bad, const std::string& folder) {
  return replace_all(bad.section, "DIR", folder);
}
// Returns a message about the data in `folder` in the form of BadData::text.
inline std::string in_bad_data(std::string message, const std::string& folder) {
  return replace_all(replace_all(std::move(message), folder + "/", ""), folder, "DIR");
}

// Returns the names and sizes of everything below a folder, as one string.
inline std::string listing_of(const std::string& folder) {
  namespace fs = std::filesystem;
  std::map<std::string, std::uintmax_t> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool plain = fs::is_regular_file(entry.symlink_status());
    found[entry.path().string()] = plain ? entry.file_size() : 0;
  }
  std::string text;
  for (const auto& [name, size] : found) text += fmt::format("{} {}\n", name, size);
  return text;
}

}  // namespace bv::test
