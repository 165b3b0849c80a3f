#include "lib/model/kernels/direct_conv_gradient.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "lib/model/kernels/conv_function.h"
#include "lib/model/kernels/small_products.h"
#include "lib/model/kernels/transpose.h"

namespace bv {
namespace {

using c10::BFloat16;

// How the sum for the kernel gradient is divided into pieces for threads: blocks of outputs and of
// inputs, and ranges of strips. A strip is a band of rows of some images. The division depends only
// on the sizes, so the result does not depend on the number of threads.
struct GradientPieces {
  int64_t out_width, in_width;        // channels of a product
  int64_t out_products, in_products;  // of a block
  int64_t out_blocks, in_blocks;
  int64_t images, rows;  // of a strip; an even number of images
  int64_t bands;         // strips of the same images
  int64_t ranges;
  int64_t strips;  // of a range

  explicit GradientPieces(const ConvSizes& s)
      : out_width(block_width(s.out, kProductSide)),
        in_width(block_width(s.in, kProductSide)),
        out_products(s.out / out_width % 2 == 0 ? 2 : 1),
        in_products(s.in / in_width % 2 == 0 ? 2 : 1),
        images(2),
        rows(std::min<int64_t>(s.h, 8)) {
    // Longer sums are faster, but all threads should get work. A band also packs the rows around
    // it, and smaller blocks pack all rows more often.
    const int64_t macs = s.n * s.h * s.w * s.taps() * s.in * s.out;
    const int64_t wanted = std::clamp<int64_t>(macs / kLeastMacs, 1, 16);
    while (images * s.w < 512 && images < s.n) images *= 2;
    while (count_pieces(s) < wanted && images > 2 && images * s.w > 256) images /= 2;
    while (count_pieces(s) < wanted && rows > 4) rows = divided_up(rows, 2);
    if (count_pieces(s) < wanted) out_products = in_products = 1;
    out_blocks = s.out / out_width / out_products;
    in_blocks = s.in / in_width / in_products;
    bands = divided_up(s.h, rows);
    // Each range has an array of sums. There are as many as fit into 4 MiB, or as are wanted.
    const int64_t cheap = (1 << 20) / (s.taps() * s.in * s.out);
    const int64_t most = std::max(cheap, divided_up(wanted, out_blocks * in_blocks));
    strips = divided_up(count_strips(s), std::clamp<int64_t>(most, 1, count_strips(s)));
    ranges = divided_up(count_strips(s), strips);
  }
  int64_t count() const { return ranges * out_blocks * in_blocks; }
  int64_t count_strips(const ConvSizes& s) const {
    return divided_up(s.n, images) * divided_up(s.h, rows);
  }

 private:
  static constexpr int64_t kLeastMacs = 200'000'000;  // of a piece: about 0.3 ms
  // The pieces if each strip is a range.
  int64_t count_pieces(const ConvSizes& s) const {
    return count_strips(s) * (s.out / out_width / out_products) * (s.in / in_width / in_products);
  }
};

// Computes the pieces of the kernel gradient one after the other. For each row of the result and
// each tap it multiplies the transposed gradient of the row, (output, pixel), by the row of x that
// the tap covers, (pixel, input).
//
// Pixels are in the order (column, image), and the number of images is even. So the tap one column
// to the right begins at a whole pair of rows of the packed operand, and all taps share one packed
// row of x.
class KernelGradientPiece {
 public:
  KernelGradientPiece(const ConvSizes& s, const GradientPieces& pieces)
      : s_(s),
        pieces_(pieces),
        ld_(terms<BFloat16>(s.w * pieces.images) + kRowGap),
        operand_size_((ld_ + 2 * s.border() * pieces.images) * pieces.in_width) {
    grads_ = memory_.take<BFloat16>(pieces.out_products * pieces.out_width * ld_);
    const int64_t pixels = s.size * pieces.in_products * operand_size_;
    pixels_ = memory_.take<BFloat16>(pixels);
    std::fill(pixels_, pixels_ + pixels, BFloat16(0.0f));
    sums_ = memory_.take<float>(sums_count());
  }

  // Writes its part of `all` (ranges, out, taps, in).
  void run(const BFloat16* x, const BFloat16* grad, int64_t piece, float* all) {
    first_in_ = piece % pieces_.in_blocks * pieces_.in_products * pieces_.in_width;
    first_out_ =
        piece / pieces_.in_blocks % pieces_.out_blocks * pieces_.out_products * pieces_.out_width;
    const int64_t range = piece / (pieces_.in_blocks * pieces_.out_blocks);
    std::fill(sums_, sums_ + sums_count(), 0.0f);
    const int64_t last = std::min((range + 1) * pieces_.strips, pieces_.count_strips(s_));
    for (int64_t i = range * pieces_.strips; i < last; ++i) add_strip(x, grad, i);
    store(all + (range * s_.out + first_out_) * s_.taps() * s_.in + first_in_);
  }

 private:
  int64_t sums_count() const {
    return s_.taps() * pieces_.out_products * pieces_.out_width * pieces_.in_products *
           pieces_.in_width;
  }
  float* sums(int64_t out, int64_t in, int64_t tap) const {
    return sums_ + ((out * pieces_.in_products + in) * s_.taps() + tap) * pieces_.out_width *
                       pieces_.in_width;
  }
  const BFloat16* pixel(const BFloat16* x, int64_t channels, int64_t i, int64_t j) const {
    return x + ((image_ * s_.h + i) * s_.w + j) * channels;
  }

  void add_strip(const BFloat16* x, const BFloat16* grad, int64_t strip) {
    image_ = strip / pieces_.bands * pieces_.images;
    images_ = std::min(pieces_.images, s_.n - image_);
    even_images_ = even(images_);
    const int64_t top = strip % pieces_.bands * pieces_.rows;
    const int64_t bottom = std::min(top + pieces_.rows, s_.h);
    int64_t next = std::max<int64_t>(0, top - s_.border());  // row of x
    for (int64_t i = top; i < bottom; ++i) {
      for (; next <= i + s_.border() && next < s_.h; ++next) pack_row(x, next);
      transpose_row(grad, i);
      for (int64_t out = 0; out < pieces_.out_products; ++out)
        for (int64_t in = 0; in < pieces_.in_products; ++in) add_products(i, out, in);
    }
  }

  void add_products(int64_t i, int64_t out, int64_t in) {
    for (int64_t row = 0; row < s_.size; ++row) {
      const int64_t source = i + row - s_.border();
      if (source < 0 || source >= s_.h) continue;
      for (int64_t column = 0; column < s_.size; ++column)
        multiply(pieces_.out_width, pieces_.in_width, terms<BFloat16>(s_.w * even_images_),
                 grads_ + out * pieces_.out_width * ld_, ld_,
                 row_operand(source, in) + column * even_images_ * pieces_.in_width,
                 pieces_.in_width, sums(out, in, row * s_.size + column), pieces_.in_width,
                 /*add=*/true);
    }
  }

  // Where the packed row `i` of x is: (column, pair of images, input, image of the pair), with
  // columns of zeros before and after. The buffer has `size` rows; a new row replaces the oldest
  // one.
  BFloat16* row_operand(int64_t i, int64_t in) const {
    return pixels_ + (i % s_.size * pieces_.in_products + in) * operand_size_;
  }
  void pack_row(const BFloat16* x, int64_t i) {
    const int64_t border = s_.border() * even_images_ * pieces_.in_width;
    for (int64_t in = 0; in < pieces_.in_products; ++in) {
      BFloat16* const to = row_operand(i, in) + border;
      std::fill_n(to - border, border, BFloat16(0.0f));
      for (int64_t j = 0; j < s_.w; ++j)
        pack_pairs(pixel(x, s_.in, i, j) + first_in_ + in * pieces_.in_width, s_.h * s_.w * s_.in,
                   images_, pieces_.in_width, pieces_.in_width,
                   to + j * even_images_ * pieces_.in_width);
      const int64_t used = s_.w * even_images_;
      std::fill_n(to + used * pieces_.in_width,
                  border + (terms<BFloat16>(used) - used) * pieces_.in_width, BFloat16(0.0f));
    }
  }

  // Fills grads_, (output, column, image), with the row `i` of the gradient of the result.
  void transpose_row(const BFloat16* grad, int64_t i) {
    const int64_t outs = pieces_.out_products * pieces_.out_width;
    for (int64_t j = 0; j < s_.w; ++j) {
      BFloat16* const to = grads_ + j * even_images_;
      transpose_columns(pixel(grad, s_.out, i, j) + first_out_, s_.h * s_.w * s_.out, images_, outs,
                        ld_, to);
      if (even_images_ == images_) continue;
      for (int64_t k = 0; k < outs; ++k) to[k * ld_ + images_] = BFloat16(0.0f);
    }
    const int64_t used = s_.w * even_images_;
    for (int64_t k = 0; k < outs; ++k)
      std::fill(grads_ + k * ld_ + used, grads_ + k * ld_ + terms<BFloat16>(used), BFloat16(0.0f));
  }

  // Copies the sums to `all`, (out, taps, in).
  void store(float* all) const {
    for (int64_t out = 0; out < pieces_.out_products; ++out)
      for (int64_t k = 0; k < pieces_.out_width; ++k)
        for (int64_t tap = 0; tap < s_.taps(); ++tap)
          for (int64_t in = 0; in < pieces_.in_products; ++in)
            std::copy_n(sums(out, in, tap) + k * pieces_.in_width, pieces_.in_width,
                        all + ((out * pieces_.out_width + k) * s_.taps() + tap) * s_.in +
                            in * pieces_.in_width);
  }

  const ConvSizes s_;
  const GradientPieces pieces_;
  const int64_t ld_;            // of grads_
  const int64_t operand_size_;  // numbers of a row of pixels of a product's operand
  ThreadMemory memory_;
  BFloat16 *grads_, *pixels_;
  float* sums_;
  int64_t first_in_ = 0, first_out_ = 0;  // the first channel of the blocks
  int64_t image_ = 0, images_ = 0,
          even_images_ = 0;  // of the strip; even_images_ is images_ or one more
};

}  // namespace

at::Tensor direct_kernel_gradient(const ConvSizes& s, const at::Tensor& x, const at::Tensor& grad) {
  const GradientPieces pieces(s);
  const at::Tensor parts = at::empty({pieces.ranges, s.out, s.size, s.size, s.in}, at::kFloat);
  at::parallel_for(0, pieces.count(), 1, [&](int64_t begin, int64_t end) {
    const AmxUse use;
    KernelGradientPiece one(s, pieces);
    for (int64_t i = begin; i < end; ++i)
      one.run(x.const_data_ptr<BFloat16>(), grad.const_data_ptr<BFloat16>(), i,
              parts.data_ptr<float>());
  });
  return (pieces.ranges == 1 ? parts[0] : parts.sum(0)).permute({1, 2, 3, 0});
}

}  // namespace bv
