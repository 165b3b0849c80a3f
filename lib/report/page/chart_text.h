// The width of text in a chart. SVG does not wrap text, so the drawing code must know its width.
#pragma once

#include <string>
#include <string_view>

namespace bv {

// Returns about how many px wide `text` is in a common sans-serif font of `size` px. The estimate
// is for DejaVu Sans, which is wide; most fonts need less.
double text_width(std::string_view text, double size);

// Returns `text` if it is at most `width` px wide, otherwise "..." and as much of its end as fits.
// The end is what differs between names such as "test/prec@1" and "test/prec@5".
std::string clipped_text(const std::string& text, double size, double width);

}  // namespace bv
