// libjpeg-turbo behind an interface without exceptions; callers use image/jpeg.h.
//
// libjpeg reports errors with longjmp(), so this file and its .cc have no C++ object with a
// destructor between setjmp() and a call of libjpeg. They do not depend on LibTorch.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>

// jpeglib.h needs <cstdio> before it, and the numbers in jerror.h depend on jpeglib.h.
#include <jpeglib.h>

#include <jerror.h>

namespace bv {

// The state of libjpeg's error callbacks. `base` must stay the first member.
struct JpegErrors {
  jpeg_error_mgr base;
  jmp_buf jump;
  size_t bytes_left;  // of the input, when the error occurred
  char message[JMSG_LENGTH_MAX + 64];
};

struct JpegOutput {
  int channels = 3;                              // 1 or 3
  bool precise = true;                           // the accurate DCT, or the fast integer DCT
  uint32_t y = 0, x = 0, height = 0, width = 0;  // the window; height 0 = the whole image
};

// Decodes one JPEG file in memory. Call read_header(), then decode(). Both return false on failure;
// message() then says why.
class JpegDecoder {
 public:
  JpegDecoder(const uint8_t* data, size_t size);
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  bool read_header();
  // Writes height * width * channels bytes, row by row.
  bool decode(const JpegOutput& output, uint8_t* pixels);

  uint32_t height() const { return info_.image_height; }
  uint32_t width() const { return info_.image_width; }
  int components() const { return info_.num_components; }
  const char* message() const { return errors_.message; }

 private:
  void start(const JpegOutput& output);
  bool estimates_coefficients() const;
  void copy_row(const JpegOutput& output, uint8_t* target) const;

  const uint8_t* data_;
  size_t size_;
  jpeg_decompress_struct info_;
  jpeg_progress_mgr progress_;
  JpegErrors errors_;
  JSAMPARRAY row_ = nullptr;  // one row, allocated by libjpeg
  JDIMENSION first_column_ = 0;
};

// Encodes (height, width, channels) bytes. `*out` is allocated with malloc(); the caller frees it,
// also after a failure. Returns false on failure, with the reason in `message`, which must have
// room for JMSG_LENGTH_MAX bytes.
bool jpeg_encode(const uint8_t* pixels, uint32_t height, uint32_t width, int channels, int quality,
                 unsigned char** out, unsigned long* size, char* message);

}  // namespace bv
