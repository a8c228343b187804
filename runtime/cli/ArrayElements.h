//===- ArrayElements.h - Elements of arrays as numbers ----------*- C++ -*-===//
#ifndef PP_RUNTIME_CLI_ARRAYELEMENTS_H
#define PP_RUNTIME_CLI_ARRAYELEMENTS_H

#include "formats/Npy.h"
#include "plan/ShortFloat.h"

#include <cstring>

namespace pp::runtime {

/// Element `index`, row-major; T is the array's type.
template <typename T> T valueAt(const Array &array, uint64_t index) {
  T value;
  std::memcpy(&value, &array.data[index * sizeof(T)], sizeof(T));
  return value;
}

/// The same of an array of any floating-point type.
inline double numberAt(const Array &array, uint64_t index) {
  switch (array.type) {
  case DataType::F32:
    return valueAt<float>(array, index);
  case DataType::F64:
    return valueAt<double>(array, index);
  default:
    return fromShortFloat(array.type, valueAt<uint16_t>(array, index));
  }
}

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_ARRAYELEMENTS_H
