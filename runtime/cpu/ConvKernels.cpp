//===- ConvKernels.cpp - `conv_*` -----------------------------------------===//
#include "cpu/KernelBuilder.h"

using namespace pp::runtime;
using dnnl::convolution_backward_data;
using dnnl::convolution_backward_weights;
using dnnl::convolution_forward;

namespace {
struct ConvShape {
  KernelBuilder::MemoryDesc src, weights, dst;
  KernelBuilder::Dims strides, dilations, padLow, padHigh;
  int64_t outputChannels;

  explicit ConvShape(Descriptor &descriptor);
  convolution_forward::primitive_desc forward(KernelBuilder &builder) const;
};
} // namespace

ConvShape::ConvShape(Descriptor &descriptor) {
  auto srcDims = descriptor.getDims("src");
  if (srcDims.size() < 3 || srcDims.size() > 5)
    throw DescriptorError("src: expected one to three spatial dimensions");
  size_t spatial = srcDims.size() - 2;
  auto weightDims = descriptor.getDims("weights", srcDims.size(), 1);
  auto dstDims = descriptor.getDims("dst", srcDims.size(), 1);
  strides = descriptor.getDims("strides", spatial, 1);
  dilations = descriptor.getDims("dilations", spatial, 1);
  padLow = descriptor.getDims("pad_lo", spatial, 0);
  padHigh = descriptor.getDims("pad_hi", spatial, 0);
  int64_t groups = descriptor.getInteger("groups", 1, 1 << 30);
  outputChannels = weightDims[0];
  if (outputChannels % groups != 0 || weightDims[1] * groups != srcDims[1])
    throw DescriptorError("groups: does not divide the channels");
  // oneDNN counts the holes of a dilated kernel, ONNX the distance.
  for (int64_t &dilation : dilations)
    --dilation;
  if (groups > 1) {
    weightDims[0] /= groups;
    weightDims.insert(weightDims.begin(), groups);
  }
  src = KernelBuilder::dense(srcDims);
  weights = KernelBuilder::dense(weightDims);
  dst = KernelBuilder::dense(dstDims);
}

convolution_forward::primitive_desc
ConvShape::forward(KernelBuilder &builder) const {
  return {{dnnl::prop_kind::forward_training,
           dnnl::algorithm::convolution_direct, src, weights, dst, strides,
           dilations, padLow, padHigh},
          builder.getAttributes(),
          builder.getEngine()};
}

void pp::runtime::buildConvForward(Descriptor &descriptor,
                                   KernelBuilder &builder) {
  ConvShape shape(descriptor);
  auto src = builder.addTensor(shape.src);
  auto weights = builder.addTensor(shape.weights);
  if (descriptor.getInteger("bias", 0, 1)) {
    auto biasDesc = KernelBuilder::dense({shape.outputChannels});
    auto bias = builder.addTensor(biasDesc);
    auto dst = builder.addTensor(shape.dst);
    convolution_forward::primitive_desc desc(
        {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
         shape.src, shape.weights, biasDesc, shape.dst, shape.strides,
         shape.dilations, shape.padLow, shape.padHigh},
        builder.getAttributes(), builder.getEngine());
    builder.addPrimitive(convolution_forward(desc), desc.scratchpad_desc(),
                         {{DNNL_ARG_SRC, src},
                          {DNNL_ARG_WEIGHTS, weights},
                          {DNNL_ARG_BIAS, bias},
                          {DNNL_ARG_DST, dst}});
    return;
  }
  auto dst = builder.addTensor(shape.dst);
  auto desc = shape.forward(builder);
  builder.addPrimitive(
      convolution_forward(desc), desc.scratchpad_desc(),
      {{DNNL_ARG_SRC, src}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, dst}});
}

void pp::runtime::buildConvBackwardData(Descriptor &descriptor,
                                        KernelBuilder &builder) {
  ConvShape shape(descriptor);
  convolution_backward_data::primitive_desc desc(
      {dnnl::algorithm::convolution_direct, shape.src, shape.weights, shape.dst,
       shape.strides, shape.dilations, shape.padLow, shape.padHigh},
      builder.getAttributes(), builder.getEngine(), shape.forward(builder));
  auto diffDst = builder.addTensor(shape.dst);
  auto weights = builder.addTensor(shape.weights);
  auto diffSrc = builder.addTensor(shape.src);
  builder.addPrimitive(convolution_backward_data(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_DIFF_DST, diffDst},
                        {DNNL_ARG_WEIGHTS, weights},
                        {DNNL_ARG_DIFF_SRC, diffSrc}});
}

void pp::runtime::buildConvBackwardWeights(Descriptor &descriptor,
                                           KernelBuilder &builder) {
  ConvShape shape(descriptor);
  convolution_backward_weights::primitive_desc desc(
      {dnnl::algorithm::convolution_direct, shape.src, shape.weights, shape.dst,
       shape.strides, shape.dilations, shape.padLow, shape.padHigh},
      builder.getAttributes(), builder.getEngine(), shape.forward(builder));
  auto src = builder.addTensor(shape.src);
  auto diffDst = builder.addTensor(shape.dst);
  auto diffWeights = builder.addTensor(shape.weights);
  builder.addPrimitive(convolution_backward_weights(desc),
                       desc.scratchpad_desc(),
                       {{DNNL_ARG_SRC, src},
                        {DNNL_ARG_DIFF_DST, diffDst},
                        {DNNL_ARG_DIFF_WEIGHTS, diffWeights}});
}
