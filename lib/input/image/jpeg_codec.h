// libjpeg-turbo behind an interface without exceptions: its errors leave by longjmp, so this unit
// holds no C++ object with a destructor between setjmp and libjpeg. Free of LibTorch.
// Callers use image/jpeg.h.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>

// Needs <cstdio> before it, and the numbers of jerror.h depend on it.
#include <jpeglib.h>

#include <jerror.h>

namespace bv {

// What libjpeg's callbacks need; `base` must stay the first member.
struct JpegErrors {
  jpeg_error_mgr base;
  jmp_buf jump;
  size_t bytes_left;  // of the input at the failure
  char message[JMSG_LENGTH_MAX + 64];
};

struct JpegOutput {
  int channels = 3;                              // 1 or 3
  bool precise = true;                           // the accurate DCT, else the fast integer one
  uint32_t y = 0, x = 0, height = 0, width = 0;  // window; height 0 = the whole image
};

class JpegDecoder {
 public:
  JpegDecoder(const uint8_t* data, size_t size);
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  // Both return false on failure: see message(). read_header() first.
  bool read_header();
  // Writes height * width * channels bytes, row by row.
  bool decode(const JpegOutput& output, uint8_t* pixels);

  uint32_t height() const { return info_.image_height; }
  uint32_t width() const { return info_.image_width; }
  int components() const { return info_.num_components; }
  const char* message() const { return errors_.message; }

 private:
  void start(const JpegOutput& output);
  void copy_row(const JpegOutput& output, uint8_t* target) const;

  const uint8_t* data_;
  size_t size_;
  jpeg_decompress_struct info_;
  jpeg_progress_mgr progress_;
  JpegErrors errors_;
  JSAMPARRAY row_ = nullptr;  // one row, from libjpeg's pool
  JDIMENSION first_column_ = 0;
};

// Encodes height * width * channels bytes; `*out` is malloc'ed and the caller's to free(), also
// after a failure. Returns false with `message` (at least JMSG_LENGTH_MAX bytes) filled.
bool jpeg_encode(const uint8_t* pixels, uint32_t height, uint32_t width, int channels, int quality,
                 unsigned char** out, unsigned long* size, char* message);

}  // namespace bv
