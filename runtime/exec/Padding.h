//===- Padding.h - Arrays with more or less of an axis ----------*- C++ -*-===//
#ifndef PP_RUNTIME_EXEC_PADDING_H
#define PP_RUNTIME_EXEC_PADDING_H

#include "formats/Npy.h"

namespace pp::runtime {

/// `array` with `size` of an axis: what is new, at the end, is `value`, rounded
/// to the array's type; what is too much is left out.
Array resizeAxis(const Array &array, size_t axis, int64_t size, double value);

} // namespace pp::runtime

#endif // PP_RUNTIME_EXEC_PADDING_H
