#include "lib/input/image/jpeg_codec.h"

#include <algorithm>
#include <cstring>

#include "lib/util/limits.h"

namespace bv {
namespace {

// Extra columns that are decoded on each side of a window and dropped. Fancy upsampling doubles the
// columns and uses the next chroma sample on either side, so it needs two columns. The rows above
// and below, which it needs too, are left to jpeg_skip_scanlines().
constexpr JDIMENSION kMargin = 4;

size_t bytes_left(j_common_ptr info) {
  if (!info->is_decompressor) return 0;
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  return decompress->src ? decompress->src->bytes_in_buffer : 0;
}

[[noreturn]] void fail_jpeg(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  char text[JMSG_LENGTH_MAX];
  (*info->err->format_message)(info, text);
  std::memcpy(errors->message, text, sizeof(text));
  errors->bytes_left = bytes_left(info);
  longjmp(errors->jump, 1);
}

// Treats warnings after which the pixels are wrong as failures. The others (extraneous bytes, an
// odd Adobe marker, ...) are common and harmless.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
      fail_jpeg(info);
    default:
      ++info->err->num_warnings;
  }
}

void on_progress(j_common_ptr info) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number > limits::kJpegScans) {
    auto* errors = reinterpret_cast<JpegErrors*>(info->err);
    std::snprintf(errors->message, sizeof(errors->message), "more than %d scans",
                  limits::kJpegScans);
    errors->base.msg_code = 0;
    errors->bytes_left = bytes_left(info);
    longjmp(errors->jump, 1);
  }
}

void set_up(JpegErrors* errors) {
  jpeg_std_error(&errors->base);
  errors->base.error_exit = fail_jpeg;
  errors->base.emit_message = on_message;
  errors->bytes_left = 0;
  errors->message[0] = 0;
}

// Replaces libjpeg's message by "truncated JPEG at byte N" or "corrupt JPEG at byte N: <reason>".
void place_message(JpegErrors* errors, size_t size) {
  const int code = errors->base.msg_code;
  // At the end of the data libjpeg's count is that of the last complete unit.
  const size_t left = code == JWRN_JPEG_EOF ? 0 : errors->bytes_left;
  const size_t at = size - std::min(size, left);
  char text[sizeof(errors->message)];
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JERR_INPUT_EOF) {
    std::snprintf(text, sizeof(text), "truncated JPEG at byte %zu", at);
  } else {
    std::snprintf(text, sizeof(text), "corrupt JPEG at byte %zu: %.200s", at, errors->message);
  }
  std::memcpy(errors->message, text, sizeof(text));
}

}  // namespace

JpegDecoder::JpegDecoder(const uint8_t* data, size_t size) : data_(data), size_(size) {
  std::memset(&info_, 0, sizeof(info_));
  std::memset(&progress_, 0, sizeof(progress_));
  set_up(&errors_);
  info_.err = &errors_.base;
}

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&info_); }

bool JpegDecoder::read_header() {
  if (setjmp(errors_.jump)) {
    place_message(&errors_, size_);
    return false;
  }
  jpeg_create_decompress(&info_);
  progress_.progress_monitor = on_progress;
  info_.progress = &progress_;
  jpeg_mem_src(&info_, data_, static_cast<unsigned long>(size_));
  jpeg_read_header(&info_, TRUE);
  return true;
}

void JpegDecoder::start(const JpegOutput& output) {
  info_.dct_method = output.precise ? JDCT_ISLOW : JDCT_IFAST;
  info_.do_fancy_upsampling = TRUE;
  const bool cmyk = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
  if (cmyk) {
    info_.out_color_space = JCS_CMYK;
  } else {
    info_.out_color_space = output.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  }
  jpeg_start_decompress(&info_);
  if (output.height == 0 || estimates_coefficients()) return;
  JDIMENSION width = output.width;
  first_column_ = output.x - std::min<JDIMENSION>(output.x, kMargin);
  width =
      std::min<JDIMENSION>(info_.output_width, output.x + output.width + kMargin) - first_column_;
  jpeg_crop_scanline(&info_, &first_column_, &width);
  if (output.y > 0) jpeg_skip_scanlines(&info_, output.y);
}

// Returns whether the file is progressive and lacks scans. libjpeg then estimates the missing
// coefficients from neighbouring blocks. If it decodes only a window, it does not use the blocks to
// the left of the window, so the estimates differ. Call this after jpeg_start_decompress(), which
// reads all scans.
bool JpegDecoder::estimates_coefficients() const {
  if (info_.coef_bits == nullptr) return false;
  for (int component = 0; component < info_.num_components; ++component) {
    for (int i = 1; i < DCTSIZE2; ++i)
      if (info_.coef_bits[component][i] != 0) return true;
  }
  return false;
}

bool JpegDecoder::decode(const JpegOutput& output, uint8_t* pixels) {
  if (setjmp(errors_.jump)) {
    place_message(&errors_, size_);
    return false;
  }
  start(output);
  const bool direct = output.height == 0 && info_.out_color_space != JCS_CMYK;
  const JDIMENSION end = output.height == 0 ? info_.output_height : output.y + output.height;
  const size_t columns = output.height == 0 ? info_.output_width : output.width;
  if (!direct) {
    row_ = (*info_.mem->alloc_sarray)(reinterpret_cast<j_common_ptr>(&info_), JPOOL_IMAGE,
                                      info_.output_width * info_.output_components, 1);
  }
  while (info_.output_scanline < end) {
    const JDIMENSION line = info_.output_scanline;
    if (direct) {
      JSAMPROW row = pixels + line * columns * output.channels;
      jpeg_read_scanlines(&info_, &row, 1);
    } else {
      jpeg_read_scanlines(&info_, row_, 1);
      if (line >= output.y)
        copy_row(output, pixels + (line - output.y) * columns * output.channels);
    }
  }
  jpeg_abort_decompress(&info_);
  return true;
}

// Copies the window's columns of row_ to `target`. CMYK is converted to RGB as in TensorFlow's
// decoder: files with an Adobe marker contain inverted inks. PIL takes all CMYK files as inverted,
// and so does a precise decoder, which is for weights that were trained with PIL.
void JpegDecoder::copy_row(const JpegOutput& output, uint8_t* target) const {
  const JDIMENSION columns = output.height == 0 ? info_.output_width : output.width;
  const uint8_t* source = *row_ + (output.x - first_column_) * info_.output_components;
  if (info_.out_color_space != JCS_CMYK) {
    std::memcpy(target, source, static_cast<size_t>(columns) * info_.output_components);
    return;
  }
  const bool inverted = output.precise || info_.saw_Adobe_marker;
  for (JDIMENSION i = 0; i < columns; ++i, source += 4) {
    const int k = inverted ? source[3] : 255 - source[3];
    int rgb[3];
    for (int c = 0; c < 3; ++c) rgb[c] = k * (inverted ? source[c] : 255 - source[c]) / 255;
    if (output.channels == 3) {
      for (int c = 0; c < 3; ++c) *target++ = static_cast<uint8_t>(rgb[c]);
    } else {
      *target++ = static_cast<uint8_t>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
    }
  }
}

bool jpeg_encode(const uint8_t* pixels, uint32_t height, uint32_t width, int channels, int quality,
                 unsigned char** out, unsigned long* size, char* message) {
  struct State {
    jpeg_compress_struct info;
    JpegErrors errors;
  } state;
  std::memset(&state.info, 0, sizeof(state.info));
  set_up(&state.errors);
  state.info.err = &state.errors.base;
  if (setjmp(state.errors.jump)) {
    std::memcpy(message, state.errors.message, JMSG_LENGTH_MAX);
    jpeg_destroy_compress(&state.info);
    return false;
  }
  jpeg_create_compress(&state.info);
  jpeg_mem_dest(&state.info, out, size);
  state.info.image_width = width;
  state.info.image_height = height;
  state.info.input_components = channels;
  state.info.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&state.info);
  jpeg_set_quality(&state.info, quality, TRUE);
  jpeg_start_compress(&state.info, TRUE);
  while (state.info.next_scanline < height) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels) +
                   static_cast<size_t>(state.info.next_scanline) * width * channels;
    jpeg_write_scanlines(&state.info, &row, 1);
  }
  jpeg_finish_compress(&state.info);
  jpeg_destroy_compress(&state.info);
  return true;
}

}  // namespace bv
