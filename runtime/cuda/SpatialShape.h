//===- SpatialShape.h - Shapes of convolutions and pools ------------------===//
//
// Descriptors have one to three spatial dimensions; here there are always as
// many as asked for, with leading ones of extent 1.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CUDA_SPATIALSHAPE_H
#define PP_RUNTIME_CUDA_SPATIALSHAPE_H

#include "cpu/Descriptor.h"

namespace pp::cuda {

struct SpatialShape {
  using Dims = runtime::Descriptor::Dims;
  int64_t samples, channels;
  Dims src, dst; // extents without samples and channels
  Dims strides, dilations, padLow, padHigh;

  /// Reads the keys that convolutions and pools share, and adds dimensions up
  /// to `minimumSpatial`. Throws DescriptorError.
  SpatialShape(runtime::Descriptor &descriptor, size_t minimumSpatial);

  /// The same dimensions as were added to the others.
  Dims extend(Dims dims) const;
  size_t getSpatial() const { return src.size(); }

private:
  size_t added = 0;
};

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_SPATIALSHAPE_H
