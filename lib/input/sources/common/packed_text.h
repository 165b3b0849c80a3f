// The form in which sources store what they know about their files in the index cache
// (index_cache.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace bv {

// Packs numbers, strings and arrays into a string. T may be any type that can be copied byte by
// byte.
class PackedText {
 public:
  void number(uint64_t value);
  void text(std::string_view value);
  template <class T>
  void numbers(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    text({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  template <class T>
  void numbers(const std::vector<T>& values) {
    numbers(std::span<const T>(values));
  }
  void texts(const std::vector<std::string>& values);
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Reads what PackedText has packed, in the same order. After the end it returns zeros and empty
// strings, and whole() is false.
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
