//===- SpatialShape.cpp ---------------------------------------------------===//
#include "SpatialShape.h"

using namespace pp::cuda;
using pp::runtime::Descriptor;
using pp::runtime::DescriptorError;

SpatialShape::SpatialShape(Descriptor &descriptor, size_t minimumSpatial) {
  src = descriptor.getDims("src");
  if (src.size() < 3 || src.size() > 5)
    throw DescriptorError("src: expected one to three spatial dimensions");
  dst = descriptor.getDims("dst", src.size(), 1);
  samples = src[0];
  channels = src[1];
  src.erase(src.begin(), src.begin() + 2);
  dst.erase(dst.begin(), dst.begin() + 2);
  added = src.size() < minimumSpatial ? minimumSpatial - src.size() : 0;
  size_t given = src.size();
  strides = extend(descriptor.getDims("strides", given, 1));
  dilations = extend(descriptor.getDims("dilations", given, 1));
  padLow = descriptor.getDims("pad_lo", given, 0);
  padHigh = descriptor.getDims("pad_hi", given, 0);
  padLow.insert(padLow.begin(), added, 0);
  padHigh.insert(padHigh.begin(), added, 0);
  src = extend(src);
  dst = extend(dst);
}

SpatialShape::Dims SpatialShape::extend(Dims dims) const {
  dims.insert(dims.begin(), added, 1);
  return dims;
}
