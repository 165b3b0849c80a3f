// npy arrays of strings: numpy's fixed-width Unicode, <U, in which a character takes 4 bytes and
// short strings end in zeros. Needs no torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/ckpt/formats/npy.h"

namespace bv {

// Returns a whole npy array (n,) of UTF-8 strings. A byte that is not UTF-8 becomes a lone
// surrogate, U+DC80 to U+DCFF, as in Python's file names.
std::vector<uint8_t> text_npy(const std::vector<std::string>& texts);

// Returns the strings of an array of type U and any shape, in C order, as UTF-8. Throws what
// `error_at` makes if a character is not Unicode, or if the array is in Fortran order.
std::vector<std::string> npy_texts(std::span<const uint8_t> npy, const NpyHeader& header,
                                   const ErrorAt& error_at);

}  // namespace bv
