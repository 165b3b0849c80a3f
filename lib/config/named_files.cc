#include "lib/config/named_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "lib/config/document.h"
#include "lib/config/node.h"

namespace bv {
namespace {

void add_texts(const Node& node, std::string_view except, std::vector<std::string>& texts) {
  if (node.kind == Node::Kind::scalar) texts.push_back(node.text);
  for (const auto& item : node.list) add_texts(*item, except, texts);
  for (const Node::Entry& entry : node.map) {
    const bool counts = entry.value->kind != Node::Kind::scalar || entry.key != except;
    if (counts) add_texts(*entry.value, except, texts);
  }
}

}  // namespace

std::vector<std::string> named_files(const Config& config, std::string_view except) {
  const Node* root = config.document_->root.get();
  std::vector<std::string> texts;
  add_texts(root != nullptr ? *root : *config.node_, except, texts);
  return texts;
}

bool is_among(const std::string& file, const std::vector<std::string>& names) {
  std::error_code none;
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const std::string whole = name.substr(0, name.rfind(':'));
    return std::filesystem::equivalent(file, name, none) ||
           std::filesystem::equivalent(file, whole, none) ||
           std::filesystem::equivalent(file, name + "/model.safetensors", none);
  });
}

}  // namespace bv
