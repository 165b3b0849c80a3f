// Remarks on what an image folder holds besides the class folders that are read.
#pragma once

#include <string>
#include <vector>

namespace bv {

// Adds a remark if `folder` contains metadata.csv or metadata.jsonl. Hugging Face's image folders
// store labels in these files, but the source image_folder does not read them.
void note_unused_list(const std::string& folder, std::vector<std::string>& remarks);
// Adds a remark on each hidden folder with images. Unlike .git, it may be a class that the user
// expects to be read.
void note_hidden_folders(const std::string& folder, std::vector<std::string>& remarks);
// Adds a remark about symbolic links whose target does not exist, except links with the name of an
// image. A class folder may be a link to a disk that is not mounted. Its class is then missing.
void note_dead_links(const std::string& folder, std::vector<std::string>& remarks);

}  // namespace bv
