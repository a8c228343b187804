//===- BatchNormKernels.cpp - `batch_norm_*` ------------------------------===//
#include "cpu/KernelBuilder.h"

using namespace pp::runtime;
using dnnl::batch_normalization_backward;
using dnnl::batch_normalization_forward;

namespace {
struct BatchNormShape {
  KernelBuilder::MemoryDesc data, channels;
  float epsilon;

  static inline const auto flags = dnnl::normalization_flags::use_scale |
                                   dnnl::normalization_flags::use_shift;

  explicit BatchNormShape(Descriptor &descriptor) {
    auto dims = descriptor.getDims("src");
    if (dims.size() < 2 || dims.size() > 5)
      throw DescriptorError("src: expected up to three spatial dimensions");
    epsilon = descriptor.getFloat("epsilon");
    if (epsilon < 0)
      throw DescriptorError("epsilon: expected a value of at least 0");
    auto type = KernelBuilder::types(descriptor, 1)[0];
    if (type == KernelBuilder::Type::f16)
      throw DescriptorError("types: expected f32 or bf16");
    data =
        KernelBuilder::inLayout(dims, KernelBuilder::layout(descriptor), type);
    channels = KernelBuilder::dense({dims[1]});
  }

  batch_normalization_forward::primitive_desc
  forward(KernelBuilder &builder) const {
    return {{dnnl::prop_kind::forward_training, data, epsilon, flags},
            builder.getAttributes(),
            builder.getEngine()};
  }
};
} // namespace

void pp::runtime::buildBatchNormForward(Descriptor &descriptor,
                                        KernelBuilder &builder) {
  BatchNormShape shape(descriptor);
  auto src = builder.addTensor(shape.data);
  auto scale = builder.addTensor(shape.channels);
  auto shift = builder.addTensor(shape.channels);
  auto dst = builder.addTensor(shape.data);
  auto mean = builder.addTensor(shape.channels);
  auto variance = builder.addTensor(shape.channels);
  auto desc = shape.forward(builder);
  builder.addPrimitive(batch_normalization_forward(desc),
                       desc.scratchpad_desc(),
                       {{DNNL_ARG_SRC, src},
                        {DNNL_ARG_SCALE, scale},
                        {DNNL_ARG_SHIFT, shift},
                        {DNNL_ARG_DST, dst},
                        {DNNL_ARG_MEAN, mean},
                        {DNNL_ARG_VARIANCE, variance}});
}

void pp::runtime::buildBatchNormBackward(Descriptor &descriptor,
                                         KernelBuilder &builder) {
  BatchNormShape shape(descriptor);
  auto src = builder.addTensor(shape.data);
  auto diffDst = builder.addTensor(shape.data);
  auto mean = builder.addTensor(shape.channels);
  auto variance = builder.addTensor(shape.channels);
  auto scale = builder.addTensor(shape.channels);
  auto diffSrc = builder.addTensor(shape.data);
  auto diffScale = builder.addTensor(shape.channels);
  auto diffShift = builder.addTensor(shape.channels);
  batch_normalization_backward::primitive_desc desc(
      {dnnl::prop_kind::backward, shape.data, shape.data, shape.epsilon,
       BatchNormShape::flags},
      builder.getAttributes(), builder.getEngine(), shape.forward(builder));
  builder.addPrimitive(batch_normalization_backward(desc),
                       desc.scratchpad_desc(),
                       {{DNNL_ARG_SRC, src},
                        {DNNL_ARG_DIFF_DST, diffDst},
                        {DNNL_ARG_MEAN, mean},
                        {DNNL_ARG_VARIANCE, variance},
                        {DNNL_ARG_SCALE, scale},
                        // oneDNN 2.6 counts the shift among the inputs, but the
                        // gradient does not depend on it.
                        {DNNL_ARG_SHIFT, scale},
                        {DNNL_ARG_DIFF_SRC, diffSrc},
                        {DNNL_ARG_DIFF_SCALE, diffScale},
                        {DNNL_ARG_DIFF_SHIFT, diffShift}});
}
