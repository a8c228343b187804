//===- NumberArray.h - Numbers of f32 or f64 ----------------------*- C++
//-*-===//
#ifndef PP_RUNTIME_PLAN_NUMBERARRAY_H
#define PP_RUNTIME_PLAN_NUMBERARRAY_H

#include "plan/DataType.h"

#include <cstring>
#include <vector>

namespace pp::runtime {

/// An array of the type that a program computes its losses and its optimizer
/// in, which is known when it runs. Numbers are rounded when they are set.
class NumberArray {
public:
  /// `type` is f32 or f64; zeros.
  explicit NumberArray(DataType type = DataType::F32, size_t count = 0)
      : type(type), content(count * sizeOf(type)) {}

  size_t size() const { return content.size() / sizeOf(type); }
  bool empty() const { return content.empty(); }
  DataType getType() const { return type; }

  double get(size_t i) const {
    return type == DataType::F64 ? read<double>(i) : read<float>(i);
  }
  void set(size_t i, double value) {
    if (type == DataType::F64)
      write(i, value);
    else
      write(i, static_cast<float>(value));
  }

  std::vector<double> values() const {
    std::vector<double> result(size());
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = get(i);
    return result;
  }

  char *data() { return content.data(); }
  const char *data() const { return content.data(); }
  size_t bytes() const { return content.size(); }

private:
  template <typename T> T read(size_t i) const {
    T value;
    std::memcpy(&value, &content[i * sizeof(T)], sizeof(T));
    return value;
  }
  template <typename T> void write(size_t i, T value) {
    std::memcpy(&content[i * sizeof(T)], &value, sizeof(T));
  }

  DataType type;
  std::vector<char> content;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_PLAN_NUMBERARRAY_H
