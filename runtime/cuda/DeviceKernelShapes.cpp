//===- DeviceKernelShapes.cpp ---------------------------------------------===//
#include "DeviceKernel.h"
#include "SpatialShape.h"

#include <algorithm>
#include <limits>

using namespace pp::cuda;
using pp::runtime::Descriptor;
using pp::runtime::DescriptorError;

/// The product, if the kernels can count it in 32 bits.
static int multiply(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product) ||
        product > std::numeric_limits<int>::max())
      throw DescriptorError("src: the tensor is too large");
  return static_cast<int>(product);
}

PoolShape pp::cuda::readPool(Descriptor &descriptor, bool isAverage) {
  SpatialShape shape(descriptor, 3);
  size_t given = descriptor.getDims("src").size() - 2;
  auto kernel = shape.extend(descriptor.getDims("kernel", given, 1));
  PoolShape pool{};
  pool.channels = multiply({shape.samples, shape.channels});
  multiply({shape.src[0], shape.src[1], shape.src[2]});
  multiply({shape.dst[0], shape.dst[1], shape.dst[2]});
  multiply({kernel[0], kernel[1], kernel[2]});
  auto fill = [](int (&to)[3], const SpatialShape::Dims &from) {
    std::copy(from.begin(), from.end(), to);
  };
  fill(pool.src, shape.src);
  fill(pool.dst, shape.dst);
  fill(pool.kernel, kernel);
  fill(pool.strides, shape.strides);
  fill(pool.dilations, shape.dilations);
  fill(pool.pad, shape.padLow);
  if (isAverage)
    pool.includePad =
        static_cast<int>(descriptor.getInteger("include_pad", 0, 1));
  return pool;
}

LossScaleShape pp::cuda::readLossScale(Descriptor &descriptor) {
  auto integer = [&](const char *key, int64_t minimum, int64_t maximum) {
    return static_cast<int>(descriptor.getInteger(key, minimum, maximum));
  };
  LossScaleShape shape{};
  shape.ranks = integer("ranks", 1, 1 << 20);
  shape.scale = integer("scale", 0, 1 << 10);
  shape.skipped = integer("skipped", 0, 1 << 10);
  shape.interval =
      descriptor.has("interval") ? integer("interval", 0, 1 << 10) : -1;
  return shape;
}

BatchNormShape pp::cuda::readBatchNorm(Descriptor &descriptor) {
  auto dims = descriptor.getDims("src");
  if (dims.size() < 2 || dims.size() > 5)
    throw DescriptorError("src: expected up to three spatial dimensions");
  BatchNormShape shape{};
  shape.epsilon = descriptor.getFloat("epsilon");
  if (shape.epsilon < 0)
    throw DescriptorError("epsilon: expected a value of at least 0");
  int64_t area = 1;
  for (size_t i = 2; i < dims.size(); ++i)
    area = multiply({area, dims[i]});
  // The kernels step by 1024 beyond the end.
  if (multiply({dims[0], area}) > std::numeric_limits<int>::max() - 1024)
    throw DescriptorError("src: the tensor is too large");
  shape.samples = static_cast<int>(dims[0]);
  shape.channels = static_cast<int>(dims[1]);
  shape.area = static_cast<int>(area);
  return shape;
}
