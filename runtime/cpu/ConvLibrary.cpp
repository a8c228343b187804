//===- ConvLibrary.cpp ----------------------------------------------------===//
#include "cpu/ConvLibrary.h"

using namespace pp::runtime;

using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;

/// The type that the forward pass of a mixed convolution had, for hints.
static std::optional<KernelBuilder::Type> hintType(const ConvShape &shape) {
  if (shape.srcInside.data_type() == KernelBuilder::Type::f32 &&
      shape.dstInside.data_type() == KernelBuilder::Type::f32)
    return std::nullopt;
  return KernelBuilder::Type::bf16;
}

convolution_forward::primitive_desc
pp::runtime::describeForward(ConvShape &shape, KernelBuilder &builder) {
  return describe(shape, [&] { return shape.forward(builder); });
}

convolution_backward_data::primitive_desc
pp::runtime::makeBackwardData(const ConvShape &shape, KernelBuilder &builder) {
  return convolution_backward_data::primitive_desc(
      {shape.algorithm, shape.srcInside, shape.weightsInside, shape.dstInside,
       shape.strides, shape.dilations, shape.padLow, shape.padHigh},
      builder.getAttributes(), builder.getEngine(),
      shape.forward(builder, hintType(shape)));
}

convolution_backward_data::primitive_desc
pp::runtime::describeBackwardData(ConvShape &shape, KernelBuilder &builder) {
  return describe(shape, [&] { return makeBackwardData(shape, builder); });
}

convolution_backward_weights::primitive_desc
pp::runtime::makeBackwardWeights(const ConvShape &shape,
                                 KernelBuilder &builder) {
  return convolution_backward_weights::primitive_desc(
      {shape.algorithm, shape.srcInside, shape.weightsInside, shape.dstInside,
       shape.strides, shape.dilations, shape.padLow, shape.padHigh},
      builder.getAttributes(), builder.getEngine(),
      shape.forward(builder, hintType(shape)));
}
