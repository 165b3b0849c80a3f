// Reading of tar files, header by header: ustar, GNU (long names, sizes in base 256), pax and the
// old format of Unix version 7. Nothing is extracted, so a name is only text, whatever it holds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/util/regular_file.h"

namespace bv {

inline constexpr uint64_t kTarBlock = 512;  // headers and contents begin at multiples of it

// One member of a tar file.
struct TarMember {
  std::string name;    // at most 4096 bytes, none of them NUL; need not be UTF-8
  char type = '0';     // as in the header, except that all types of regular files are '0'
  std::string target;  // of a link
  uint64_t begin = 0;  // offset of its first header, which may hold a long name
  uint64_t data = 0;   // offset of its content; its own header is the block before
  uint64_t size = 0;   // of its content in bytes, all of which the file has

  bool is_file() const { return type == '0'; }
  bool is_link() const { return type == '1' || type == '2'; }
};

// Reads the headers of a tar file one after another. Memory is bounded whatever the file holds. Not
// thread-safe.
class TarReader {
 public:
  // Opens the file and begins at `offset`, where a member begins. Throws Error(Exit::usage) if the
  // file cannot be read, or if its first bytes show that it is something else: a compressed tar, a
  // git-LFS pointer, an HTML page.
  explicit TarReader(const std::string& file, uint64_t offset = 0);

  // Reads the next member; false at the end of the tar. Throws Error(Exit::usage)
  // "<file> @ offset <header>: error: ..." if a header is damaged, if the file ends within a
  // member, or if something other than zeros follows the end of the tar.
  bool next(TarMember& member);

  // Returns the bytes from `offset` on: at least `need`, or all that the file has. They are valid
  // until the next call of a member.
  std::span<const uint8_t> peek(uint64_t offset, uint64_t need);
  // Returns the content of a member.
  std::string content(const TarMember& member);

  // After the last member: whether a block of zeros follows it, as POSIX demands. Some programs
  // write none, but a file may also have been cut off between two members.
  bool has_end() const { return has_end_; }

  const std::string& name() const { return name_; }
  uint64_t size() const { return size_; }

 private:
  struct Extended;
  void check_kind();
  std::span<const uint8_t> header();
  void read_extended(char type, uint64_t size, Extended& extended);
  void read_pax(std::string_view records, char type, Extended& extended);
  void finish_member(TarMember& member, const Extended& extended);
  void check_tail(uint64_t offset);
  [[noreturn]] void fail(uint64_t offset, std::string_view why) const;

  std::string name_;
  RegularFile file_;
  uint64_t size_;
  uint64_t at_;  // offset of the next header
  bool has_end_ = false;
  std::vector<uint8_t> window_;  // the part of the file from window_at_ on that was read last
  uint64_t window_at_ = 0;
};

// Returns whether `block`, the kTarBlock bytes before a content, is still the header of a member of
// `size` bytes.
bool is_tar_header_of(std::span<const uint8_t> block, uint64_t size);

}  // namespace bv
