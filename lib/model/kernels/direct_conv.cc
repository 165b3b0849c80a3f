#include "lib/model/kernels/direct_conv.h"

#include <ATen/Parallel.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>

#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/conv_function.h"
#include "lib/model/kernels/direct_conv_gradient.h"
#include "lib/model/kernels/small_products.h"
#include "lib/model/kernels/transpose.h"

namespace bv {
namespace {

using c10::BFloat16;

// Returns the kernel (k, k, in, out) as the right operands of products: (blocks of outputs, k * k,
// inputs, block), with pairs of inputs interleaved. If `turned`, it returns the operands of the
// convolution that computes the input gradient, whose inputs are the `out` channels.
at::Tensor filters_of(const at::Tensor& kernel, bool turned) {
  const at::Tensor taps = kernel.permute({3, 0, 1, 2}).to(at::kBFloat16).contiguous();
  const int64_t out = taps.size(0), count = taps.size(1) * taps.size(2), in = taps.size(3);
  const int64_t rows = turned ? out : in, columns = turned ? in : out;
  const int64_t width = block_width(columns, kProductSide);
  const at::Tensor all = at::empty({columns / width, count, rows, width}, taps.options());
  const auto* const from = taps.const_data_ptr<BFloat16>();
  auto* const to = all.data_ptr<BFloat16>();
  at::parallel_for(0, columns / width * count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i / count * width, tap = i % count;
      BFloat16* const filter = to + i * rows * width;
      if (turned)
        pack_pairs(from + (count - 1 - tap) * in + first, count * in, rows, width, width, filter);
      else
        transpose_words(from + (first * count + tap) * in, count * in, width, rows, width, filter);
    }
  });
  return all;
}

// The number of images computed together: enough for products of 64 rows, or of 32 if threads would
// be idle. It does not affect the result.
int64_t group_images(const ConvSizes& s) {
  const int64_t threads = at::get_num_threads();
  int64_t images = 1;
  while (images * s.w < kProductSide && images < s.n) images *= 2;
  while (images * s.w > 32 && images > 1 && divided_up(s.n, images) < 2 * threads) images /= 2;
  return images;
}

// Computes one group of images after the other.
class GroupConvolution {
 public:
  GroupConvolution(const ConvSizes& s, int64_t images, const BFloat16* filters, int64_t width,
                   const float* bias)
      : s_(s), filters_(filters), width_(width), bias_(bias), ld_(s.in + kRowGap) {
    pixels_ = memory_.take<BFloat16>(s.h * s.w * images * ld_);
    sums_ = memory_.take<float>(s.w * images * width);
  }

  // Computes the images first ... first + count - 1.
  void run(const BFloat16* x, int64_t first, int64_t count, BFloat16* y) {
    images_ = count;
    gather(x + first * s_.h * s_.w * s_.in);
    for (int64_t block = 0; block < s_.out / width_; ++block) {
      for (int64_t i = 0; i < s_.h; ++i) {
        multiply_taps(i, block);
        store(i, block, y + first * s_.h * s_.w * s_.out);
      }
    }
  }

 private:
  // Copies x, (image, row, column, channel), to pixels_, (row, column, image, channel).
  void gather(const BFloat16* x) {
    for (int64_t n = 0; n < images_; ++n)
      for (int64_t i = 0; i < s_.h * s_.w; ++i)
        std::memcpy(pixels_ + (i * images_ + n) * ld_, x + (n * s_.h * s_.w + i) * s_.in,
                    static_cast<size_t>(s_.in) * sizeof(BFloat16));
  }

  // Fills sums_, (column, image, output), with the sums over all taps for the pixels of row `i`,
  // plus the bias.
  void multiply_taps(int64_t i, int64_t block) {
    for (int64_t k = 0; k < s_.w * images_; ++k) {
      if (bias_ != nullptr)
        std::copy_n(bias_ + block * width_, width_, sums_ + k * width_);
      else
        std::fill_n(sums_ + k * width_, width_, 0.0f);
    }
    // Taps of one column cover the same number of pixels. AMX must be reconfigured whenever that
    // number changes.
    for (int64_t column = 0; column < s_.size; ++column) {
      const int64_t shift = column - s_.border();
      // The pixels for which the tap is inside the image.
      const int64_t begin = std::max<int64_t>(0, -shift), end = std::min(s_.w, s_.w - shift);
      for (int64_t row = 0; row < s_.size; ++row) {
        const int64_t source = i + row - s_.border();
        if (source < 0 || source >= s_.h || begin >= end) continue;
        multiply((end - begin) * images_, width_, s_.in,
                 pixels_ + (source * s_.w + begin + shift) * images_ * ld_, ld_,
                 filters_ + (block * s_.taps() + row * s_.size + column) * s_.in * width_, width_,
                 sums_ + begin * images_ * width_, width_, /*add=*/true);
      }
    }
  }

  void store(int64_t i, int64_t block, BFloat16* y) const {
    simd::dispatch([&](auto registers) __attribute__((always_inline)) {
      using Floats = typename decltype(registers)::Floats;
      const float* from = sums_;
      for (int64_t j = 0; j < s_.w; ++j) {
        for (int64_t n = 0; n < images_; ++n, from += width_) {
          BFloat16* const to = y + ((n * s_.h + i) * s_.w + j) * s_.out + block * width_;
          for (int64_t k = 0; k < width_; k += simd::kLanes) {
            Floats sum;
            simd::load(from + k, sum);
            simd::store(sum, to + k);
          }
        }
      }
    });
  }

  const ConvSizes s_;
  const BFloat16* const filters_;
  const int64_t width_;
  const float* const bias_;
  const int64_t ld_;
  ThreadMemory memory_;
  BFloat16* pixels_;
  float* sums_;
  int64_t images_ = 0;  // of the group
};

// Writes the convolution of x to y. `filters` is filters_of(kernel, ...).
void direct_convolve(const ConvSizes& s, const at::Tensor& x, const at::Tensor& filters,
                     const at::Tensor& bias, const at::Tensor& y) {
  const int64_t images = group_images(s);
  at::parallel_for(0, divided_up(s.n, images), 1, [&](int64_t begin, int64_t end) {
    const AmxUse use;
    GroupConvolution group(s, images, filters.const_data_ptr<BFloat16>(), filters.size(3),
                           bias.defined() ? bias.const_data_ptr<float>() : nullptr);
    for (int64_t i = begin * images; i < std::min(end * images, s.n); i += images)
      group.run(x.const_data_ptr<BFloat16>(), i, std::min(images, s.n - i), y.data_ptr<BFloat16>());
  });
}

// The kernel in LibTorch's layout (out, in, k, k).
at::Tensor libtorch_weight(const at::Tensor& kernel) {
  return kernel.to(at::kBFloat16).permute({3, 2, 0, 1});
}

// On larger images oneDNN's convolution is faster, except for the kernel's gradient. Measured with
// 64 to 512 channels and images of 4x4 to 56x56 pixels.
bool libtorch_is_faster(const ConvSizes& s) { return s.h * s.w > 64; }

struct DirectConv {
  static ConvSizes sizes(const at::Tensor& x, const at::Tensor& kernel) {
    return {x.size(0), x.size(2), x.size(3), kernel.size(2), kernel.size(3), kernel.size(0)};
  }

  static at::Tensor convolve(const at::Tensor& x, const at::Tensor& kernel,
                             const at::Tensor& bias) {
    const ConvSizes s = sizes(x, kernel);
    if (libtorch_is_faster(s))
      return at::conv2d(x, libtorch_weight(kernel), bias.defined() ? bias.to(at::kBFloat16) : bias,
                        /*stride=*/1, s.border());
    const at::Tensor y = empty_result(x, s.out);
    direct_convolve(s, x, filters_of(kernel, /*turned=*/false), bias, y);
    return y;
  }

  static at::Tensor input_gradient(const at::Tensor& x, const at::Tensor& kernel,
                                   const at::Tensor& grad) {
    const ConvSizes s = sizes(x, kernel);
    if (libtorch_is_faster(s))
      return std::get<0>(at::convolution_backward(
          grad, x, libtorch_weight(kernel), /*bias_sizes=*/std::nullopt, /*stride=*/{1, 1},
          /*padding=*/{s.border(), s.border()}, /*dilation=*/{1, 1}, /*transposed=*/false,
          /*output_padding=*/{0, 0}, /*groups=*/1, /*output_mask=*/{true, false, false}));
    const at::Tensor dx = at::empty_like(x);
    direct_convolve({s.n, s.h, s.w, s.out, s.in, s.size}, grad, filters_of(kernel, /*turned=*/true),
                    /*bias=*/{}, dx);
    return dx;
  }

  static at::Tensor kernel_gradient(const at::Tensor& x, const at::Tensor& kernel,
                                    const at::Tensor& grad) {
    return direct_kernel_gradient(sizes(x, kernel), x, grad);
  }
};

}  // namespace

bool direct_conv_fits(const at::Tensor& x, const at::Tensor& kernel, at::ScalarType type) {
  if (plain_kernels() || !x.is_cpu() || x.numel() == 0 || type != at::kBFloat16) return false;
  const int64_t size = kernel.size(0), in = kernel.size(2), out = kernel.size(3);
  if (size != kernel.size(1) || size % 2 == 0 || size == 1) return false;
  // With fewer channels oneDNN's kernels are as fast.
  if (x.size(1) != in || std::min(in, out) < 64 || in % 32 != 0 || out % 32 != 0) return false;
  return has_amx() && can_multiply<BFloat16>();
}

at::Tensor direct_conv(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias) {
  const at::Tensor input = x.to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
  return ConvFunction<DirectConv>::apply(input, kernel,
                                         bias.defined() ? std::optional(bias) : std::nullopt);
}

}  // namespace bv
