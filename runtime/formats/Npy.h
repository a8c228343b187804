//===- Npy.h - NumPy's .npy and .npz --------------------------------------===//
//
// Read strictly: little-endian C-order numbers only; object arrays would need
// pickle and are never read.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_FORMATS_NPY_H
#define PP_RUNTIME_FORMATS_NPY_H

#include "formats/ArrayData.h"
#include "plan/DataType.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pp::runtime {

/// A dense row-major array.
struct Array {
  DataType type;
  Shape shape;
  ArrayData data;
};

/// What an .npy header says, and where the data starts.
struct NpyHeader {
  DataType type;
  Shape shape;
  uint64_t dataOffset, dataBytes;
};

/// Largest array that is read.
constexpr uint64_t maxArrayBytes = uint64_t(64) << 30;

/// Reads the header from the first bytes of a file. Throws Error(InvalidInput)
/// that starts with `what`. `prefix` has to hold the whole header (at most 64
/// KiB are accepted).
NpyHeader parseNpyHeader(std::string_view prefix, const std::string &what);
/// The data stay in the file, which must not change while the array lives.
Array readNpy(const std::string &path);
/// All arrays of an .npz, by name without ".npy".
std::map<std::string, Array> readNpz(const std::string &path);

/// Header of an .npy file for the array.
std::string formatNpyHeader(DataType type, const Shape &shape);
/// Writes an .npz (stored, not compressed), whole or not at all.
void writeNpz(const std::string &path,
              const std::map<std::string, Array> &arrays);

} // namespace pp::runtime

#endif // PP_RUNTIME_FORMATS_NPY_H
