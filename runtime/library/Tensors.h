//===- Tensors.h - The C interface's tensors as arrays ----------*- C++ -*-===//
#ifndef PP_RUNTIME_LIBRARY_TENSORS_H
#define PP_RUNTIME_LIBRARY_TENSORS_H

#include "formats/Npy.h"
#include "plan/Plan.h"
#include "pp_runtime.h"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace pp::runtime {

/// An input or output as the interface describes it, with memory of its own for
/// the shape.
struct PortDescription {
  PortDescription(const PlanPort &port, unsigned batch);
  /// Its pointers are those of this object.
  pp_port describe() const;

  std::string name;
  DataType type;
  Shape shape;
  bool isBatched, isTarget;
};

pp_data_type toPublic(DataType type);

/// `[3, 4]` and so on of a tensor.
Shape shapeOf(const pp_tensor &tensor);

/// Arrays that borrow the tensors' bytes. Throws Error(Usage) for a tensor
/// without name or data, with a type or shape that does not exist, and for two
/// of one name.
std::map<std::string, Array> borrowArrays(std::span<const pp_tensor> tensors);

/// Throws Error(Usage) that names all ports without an array, and all arrays
/// without a port unless `allowOthers`.
void requireArrays(const std::vector<PortDescription> &ports,
                   const std::map<std::string, Array> &arrays,
                   bool allowOthers);

/// Throws Error(Usage) unless a tensor has this type and shape, and data.
void requireShape(const pp_tensor &tensor, DataType type, const Shape &shape);

} // namespace pp::runtime

#endif // PP_RUNTIME_LIBRARY_TENSORS_H
