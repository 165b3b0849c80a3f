// What a source knows of a manifest after it has read the file once: where each row is, and what is
// needed without reading it again. It has a packed form, which the index cache keeps.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bv {

struct ManifestIndex {
  std::vector<uint64_t> offsets;  // (rows,) in the file
  std::vector<uint32_t> lengths;  // (rows,) in bytes, with the ends of the lines
  std::vector<uint32_t> lines;    // (rows,) from 1
  std::vector<uint32_t> splits;   // (rows,) indices into split_names; empty if there are none
  std::vector<std::string> split_names;  // sorted
  std::vector<int64_t> labels;           // (rows,), or empty if there are no class numbers
  std::vector<std::string> class_names;
  std::vector<std::string> remarks;  // what the user should know of the file, one line each
  std::string layout;                // what the rows hold, packed by the source

  size_t rows() const { return offsets.size(); }
  std::string pack() const;
  // Returns nullopt if the text is not what pack() has returned.
  static std::optional<ManifestIndex> unpack(std::string_view text);
};

// Packs numbers and texts into a text.
class PackedText {
 public:
  void number(uint64_t value);
  void text(std::string_view value);
  template <class T>
  void numbers(const std::vector<T>& values) {
    text({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  void texts(const std::vector<std::string>& values);
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Reads what PackedText has packed, in the same order. After the end it returns zeros and empty
// texts, and whole() is false.
class UnpackedText {
 public:
  explicit UnpackedText(std::string_view packed) : rest_(packed) {}

  uint64_t number();
  std::string_view text();
  template <class T>
  std::vector<T> numbers() {
    const std::string_view bytes = text();
    if (bytes.size() % sizeof(T) != 0) failed_ = true;
    std::vector<T> values(bytes.size() / sizeof(T));
    copy(bytes, values.data(), values.size() * sizeof(T));
    return values;
  }
  std::vector<std::string> texts();
  // Returns whether everything was there and nothing is left.
  bool whole() const { return !failed_ && rest_.empty(); }
  bool failed() const { return failed_; }

 private:
  static void copy(std::string_view from, void* to, size_t bytes);

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace bv
