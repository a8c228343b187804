//===- PoolKernels.cpp - `max_pool_*` and `avg_pool_*` --------------------===//
#include "cpu/KernelBuilder.h"
#include "cpu/MaxPool.h"
#include "cpu/MaxPoolRows.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

using namespace pp::runtime;
using dnnl::pooling_v2_backward;
using dnnl::pooling_v2_forward;

namespace {
struct PoolShape {
  dnnl::algorithm algorithm;
  KernelBuilder::MemoryDesc src, dst; // of this part
  // What the library works on: those, or copies of them in f32.
  KernelBuilder::MemoryDesc srcInside, dstInside;
  uint64_t srcOffset = 0, dstOffset = 0;
  KernelBuilder::Dims kernel, strides, dilations, padLow, padHigh;

  PoolShape(Descriptor &descriptor, bool average, KernelBuilder &builder);
  /// Leaves some of the rows that are written of a single image.
  void takeRows(KernelBuilder::Range rows);
  pooling_v2_forward::primitive_desc forward(KernelBuilder &builder) const;
  pooling_v2_backward::primitive_desc backward(KernelBuilder &builder) const;
  /// As our own code has it.
  MaxPool::Shape windows() const;
  /// Our own code for it; nothing where there is none.
  std::optional<MaxPool> inLanes() const;
};
} // namespace

PoolShape::PoolShape(Descriptor &descriptor, bool average,
                     KernelBuilder &builder) {
  auto srcDims = descriptor.getDims("src");
  if (srcDims.size() < 3 || srcDims.size() > 5)
    throw DescriptorError("src: expected one to three spatial dimensions");
  size_t spatial = srcDims.size() - 2;
  auto dstDims = descriptor.getDims("dst", srcDims.size(), 1);
  kernel = descriptor.getDims("kernel", spatial, 1);
  strides = descriptor.getDims("strides", spatial, 1);
  dilations = descriptor.getDims("dilations", spatial, 1);
  padLow = descriptor.getDims("pad_lo", spatial, 0);
  padHigh = descriptor.getDims("pad_hi", spatial, 0);
  // oneDNN counts the holes of a dilated kernel, ONNX the distance. A single
  // place has none, for which oneDNN would refuse a mean.
  for (size_t axis = 0; axis < spatial; ++axis)
    dilations[axis] = kernel[axis] == 1 ? 0 : dilations[axis] - 1;
  std::string layout = KernelBuilder::layout(descriptor);
  const auto type = KernelBuilder::types(descriptor, 1)[0];
  if (type == KernelBuilder::Type::f16 ||
      (average && type != KernelBuilder::Type::f32))
    throw DescriptorError(average ? "types: expected f32"
                                  : "types: expected f32 or bf16");
  src = KernelBuilder::inLayout(srcDims, layout, type);
  dst = KernelBuilder::inLayout(dstDims, layout, type);
  // Channels lie one after the other, or in blocks.
  constexpr int64_t block = 16;
  const bool areChannels =
      srcDims[0] == 1 && srcDims[1] % block == 0 && layout != "channels_last";
  const bool areRows = srcDims[0] == 1 && layout == "channels_last" &&
                       descriptor.getKind().ends_with("_forward");
  if (!builder.isWhole() && areRows) {
    takeRows(builder.share(dstDims[2]));
  } else if (!builder.isWhole()) {
    const int axis = areChannels ? 1 : 0;
    const int64_t extent = srcDims[axis];
    const auto range = builder.share(extent, areChannels ? block : 1);
    srcOffset = src.get_size() / extent * range.begin;
    dstOffset = dst.get_size() / extent * range.begin;
    srcDims[axis] = dstDims[axis] = range.count;
    src = KernelBuilder::inLayout(srcDims, layout, type);
    dst = KernelBuilder::inLayout(dstDims, layout, type);
  }
  srcInside = KernelBuilder::inLayout(src.dims(), layout);
  dstInside = KernelBuilder::inLayout(dst.dims(), layout);
  algorithm = dnnl::algorithm::pooling_max;
  if (average)
    algorithm = descriptor.getInteger("include_pad", 0, 1)
                    ? dnnl::algorithm::pooling_avg_include_padding
                    : dnnl::algorithm::pooling_avg_exclude_padding;
}

void PoolShape::takeRows(KernelBuilder::Range rows) {
  constexpr size_t height = 2;
  KernelBuilder::Dims from = src.dims(), to = dst.dims();
  const int64_t window = (kernel[0] - 1) * (dilations[0] + 1) + 1;
  const int64_t begin = rows.begin * strides[0] - padLow[0];
  const int64_t end = begin + (rows.count - 1) * strides[0] + window;
  const int64_t first = std::max<int64_t>(begin, 0);
  const int64_t last = std::min(end, from[height]);
  if (first >= last)
    throw DescriptorError("parts: one would have nothing but padding");
  // The others read rows of their neighbours.
  padLow[0] = first - begin;
  padHigh[0] = end - last;
  auto take = [&](KernelBuilder::MemoryDesc &desc, KernelBuilder::Dims &dims,
                  uint64_t &offset, KernelBuilder::Range range) {
    offset = desc.get_size() / dims[height] * range.begin;
    dims[height] = range.count;
    desc = KernelBuilder::inLayout(dims, "channels_last", desc.data_type());
  };
  take(src, from, srcOffset, {first, last - first});
  take(dst, to, dstOffset, rows);
}

pooling_v2_forward::primitive_desc
PoolShape::forward(KernelBuilder &builder) const {
  return {{dnnl::prop_kind::forward_training, algorithm, srcInside, dstInside,
           strides, kernel, dilations, padLow, padHigh},
          builder.getAttributes(),
          builder.getEngine()};
}

pooling_v2_backward::primitive_desc
PoolShape::backward(KernelBuilder &builder) const {
  return {{algorithm, srcInside, dstInside, strides, kernel, dilations, padLow,
           padHigh},
          builder.getAttributes(),
          builder.getEngine(),
          forward(builder)};
}

MaxPool::Shape PoolShape::windows() const {
  return {KernelBuilder::windowSizes(src, dst,
                                     KernelBuilder::imageAxes(kernel, 0, 1),
                                     strides, dilations, padLow),
          src.data_type() == KernelBuilder::Type::bf16};
}

std::optional<MaxPool> PoolShape::inLanes() const {
  const MaxPool::Shape shape = windows();
  return MaxPool::isPossible(shape) ? std::optional(MaxPool(shape))
                                    : std::nullopt;
}

/// Calls `visit` with each index into `sizes`.
template <typename Visit>
static void forEach(const KernelBuilder::Dims &sizes, const Visit &visit) {
  KernelBuilder::Dims index(sizes.size(), 0);
  for (size_t axis = 0; axis < sizes.size();) {
    visit(std::as_const(index));
    for (axis = 0; axis < sizes.size() && ++index[axis] == sizes[axis]; ++axis)
      index[axis] = 0;
  }
}

/// Gives each window in which something is not a number that as its maximum,
/// which the library skips.
static void spreadInvalidNumbers(const PoolShape &shape, const float *src,
                                 float *dst) {
  KernelBuilder::Dims from = shape.srcInside.dims();
  forEach(shape.dstInside.dims(), [&](const KernelBuilder::Dims &to) {
    KernelBuilder::Dims at = to;
    forEach(shape.kernel, [&](const KernelBuilder::Dims &tap) {
      bool isInside = true;
      for (size_t axis = 0; axis < tap.size(); ++axis) {
        int64_t place = to[axis + 2] * shape.strides[axis] +
                        tap[axis] * (shape.dilations[axis] + 1) -
                        shape.padLow[axis];
        isInside &= place >= 0 && place < from[axis + 2];
        at[axis + 2] = place;
      }
      if (!isInside)
        return;
      float value = src[KernelBuilder::placeOf(shape.srcInside, at)];
      if (std::isnan(value))
        dst[KernelBuilder::placeOf(shape.dstInside, to)] = value;
    });
  });
}

void pp::runtime::buildMaxPoolForward(Descriptor &descriptor,
                                      KernelBuilder &builder) {
  PoolShape shape(descriptor, /*average=*/false, builder);
  if (auto own = shape.inLanes())
    return builder.setFunction(
        {KernelBuilder::tensorOf(shape.src),
         KernelBuilder::tensorOf(shape.dst)},
        [own = *own, from = shape.srcOffset,
         to = shape.dstOffset](void *const *tensors, void *) {
          own.run(static_cast<const char *>(tensors[0]) + from,
                  static_cast<char *>(tensors[1]) + to);
        });
  if (MaxPoolRows::isPossible(shape.windows())) {
    const MaxPoolRows own(shape.windows());
    return builder.setFunction(
        {KernelBuilder::tensorOf(shape.src),
         KernelBuilder::tensorOf(shape.dst)},
        [own, from = shape.srcOffset,
         to = shape.dstOffset](void *const *tensors, void *scratchpad) {
          own.run(static_cast<const char *>(tensors[0]) + from,
                  static_cast<char *>(tensors[1]) + to, scratchpad);
        },
        own.getScratchpadBytes());
  }
  auto src = builder.addTensor(shape.src, shape.srcOffset);
  auto dst = builder.addResult(shape.dst, shape.dstOffset);
  auto srcInside = readAs(builder, src, shape.srcInside);
  auto dstInside = writeAs(builder, dst, shape.dstInside);
  // Inference needs no record of the maxima.
  pooling_v2_forward::primitive_desc desc(
      {dnnl::prop_kind::forward_inference, shape.algorithm, shape.srcInside,
       shape.dstInside, shape.strides, shape.kernel, shape.dilations,
       shape.padLow, shape.padHigh},
      builder.getAttributes(), builder.getEngine());
  builder.addPrimitive(pooling_v2_forward(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_SRC, srcInside}, {DNNL_ARG_DST, dstInside}});
  if (KernelBuilder::canGuard())
    builder.guardNext(1);
  builder.addWork([shape, srcInside, dstInside] {
    spreadInvalidNumbers(shape,
                         static_cast<float *>(srcInside.get_data_handle()),
                         static_cast<float *>(dstInside.get_data_handle()));
  });
  writeBack(builder, dstInside, dst);
}

void pp::runtime::buildMaxPoolBackward(Descriptor &descriptor,
                                       KernelBuilder &builder) {
  PoolShape shape(descriptor, /*average=*/false, builder);
  if (auto own = shape.inLanes())
    return builder.setFunction(
        {KernelBuilder::tensorOf(shape.src), KernelBuilder::tensorOf(shape.dst),
         KernelBuilder::tensorOf(shape.src)},
        [own = *own, from = shape.srcOffset,
         to = shape.dstOffset](void *const *tensors, void *scratchpad) {
          auto at = [&](int tensor, uint64_t offset) {
            return static_cast<char *>(tensors[tensor]) + offset;
          };
          own.runGradient(at(0, from), at(1, to), at(2, from), scratchpad);
        },
        own->getScratchpadBytes());
  if (MaxPoolRows::isPossible(shape.windows())) {
    const MaxPoolRows own(shape.windows());
    return builder.setFunction(
        {KernelBuilder::tensorOf(shape.src), KernelBuilder::tensorOf(shape.dst),
         KernelBuilder::tensorOf(shape.src)},
        [own, from = shape.srcOffset,
         to = shape.dstOffset](void *const *tensors, void *scratchpad) {
          auto at = [&](int tensor, uint64_t offset) {
            return static_cast<char *>(tensors[tensor]) + offset;
          };
          own.runGradient(at(0, from), at(1, to), at(2, from), scratchpad);
        },
        own.getScratchpadBytes());
  }
  auto src = builder.addTensor(shape.src, shape.srcOffset);
  auto diffDst = builder.addTensor(shape.dst, shape.dstOffset);
  auto diffSrc = builder.addResult(shape.src, shape.srcOffset);
  auto srcInside = readAs(builder, src, shape.srcInside);
  auto diffDstInside = readAs(builder, diffDst, shape.dstInside);
  auto diffSrcInside = writeAs(builder, diffSrc, shape.srcInside);
  auto forward = shape.forward(builder);
  auto backward = shape.backward(builder);
  auto dst = builder.addTemporary(shape.dstInside);
  auto maxima = builder.addTemporary(forward.workspace_desc());
  builder.addPrimitive(pooling_v2_forward(forward), forward.scratchpad_desc(),
                       {{DNNL_ARG_SRC, srcInside},
                        {DNNL_ARG_DST, dst},
                        {DNNL_ARG_WORKSPACE, maxima}});
  builder.addPrimitive(pooling_v2_backward(backward),
                       backward.scratchpad_desc(),
                       {{DNNL_ARG_DIFF_DST, diffDstInside},
                        {DNNL_ARG_WORKSPACE, maxima},
                        {DNNL_ARG_DIFF_SRC, diffSrcInside}});
  writeBack(builder, diffSrcInside, diffSrc);
}

void pp::runtime::buildAvgPoolForward(Descriptor &descriptor,
                                      KernelBuilder &builder) {
  PoolShape shape(descriptor, /*average=*/true, builder);
  auto src = builder.addTensor(shape.src, shape.srcOffset);
  auto dst = builder.addTensor(shape.dst, shape.dstOffset);
  auto desc = shape.forward(builder);
  builder.addPrimitive(pooling_v2_forward(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_SRC, src}, {DNNL_ARG_DST, dst}});
}

void pp::runtime::buildAvgPoolBackward(Descriptor &descriptor,
                                       KernelBuilder &builder) {
  PoolShape shape(descriptor, /*average=*/true, builder);
  auto diffDst = builder.addTensor(shape.dst, shape.dstOffset);
  auto diffSrc = builder.addTensor(shape.src, shape.srcOffset);
  auto desc = shape.backward(builder);
  builder.addPrimitive(
      pooling_v2_backward(desc), desc.scratchpad_desc(),
      {{DNNL_ARG_DIFF_DST, diffDst}, {DNNL_ARG_DIFF_SRC, diffSrc}});
}
