//===- ReorderKernel.cpp - `reorder` --------------------------------------===//
#include "cpu/KernelBuilder.h"

using namespace pp::runtime;

static bool isBlocked(const KernelBuilder::MemoryDesc &desc) {
  return desc.data.format_desc.blocking.inner_nblks != 0;
}

namespace {
/// A tensor of a reorder, and the part of it.
struct Side {
  Side(const KernelBuilder::MemoryDesc &whole, std::string layout)
      : layout(std::move(layout)), own{whole} {}

  void takeSamples(KernelBuilder::Range range) {
    own = {withCount(0, range.count),
           KernelBuilder::offsetOfSamples(own.desc, range)};
  }
  /// Of one image: rows, or whole blocks of channels.
  void takeOfImage(int axis, KernelBuilder::Range range) {
    if (!isBlocked(own.desc)) {
      own = KernelBuilder::slice(own.desc, axis, range);
      return;
    }
    const uint64_t ofChannel = own.desc.get_size() / own.desc.dims()[axis];
    own = {withCount(axis, range.count), ofChannel * range.begin};
  }
  KernelBuilder::MemoryDesc withCount(int axis, int64_t count) const {
    KernelBuilder::Dims dims = own.desc.dims();
    dims[axis] = count;
    return KernelBuilder::inLayout(dims, layout, own.desc.data_type());
  }

  std::string layout;
  KernelBuilder::Slice own;
};
} // namespace

/// Threads share samples, or rows of an image, or blocks of its channels where
/// a layout has such.
static void takePart(Side &from, Side &to, KernelBuilder &builder) {
  constexpr int channels = 1, height = 2;
  constexpr int64_t block = 16; // or two of 8
  const KernelBuilder::Dims dims = from.own.desc.dims();
  if (dims[0] > 1) {
    const KernelBuilder::Range samples = builder.share(dims[0]);
    from.takeSamples(samples);
    return to.takeSamples(samples);
  }
  const bool areRows = !isBlocked(from.own.desc) && !isBlocked(to.own.desc);
  const int axis = areRows ? height : channels;
  const KernelBuilder::Range range =
      builder.share(dims.at(axis), areRows ? 1 : block);
  from.takeOfImage(axis, range);
  to.takeOfImage(axis, range);
}

void pp::runtime::buildReorder(Descriptor &descriptor, KernelBuilder &builder) {
  const auto dims = descriptor.getDims("src");
  const auto type = KernelBuilder::types(descriptor, 1)[0];
  auto sideOf = [&](const char *key) {
    const std::string layout = descriptor.getText(key);
    return Side(KernelBuilder::inLayout(dims, layout, type), layout);
  };
  Side source = sideOf("from"), result = sideOf("to");
  if (!builder.isWhole())
    takePart(source, result, builder);
  auto from = builder.addTensor(source.own.desc, source.own.offset);
  auto to = builder.addResult(result.own.desc, result.own.offset);
  dnnl::reorder::primitive_desc desc(builder.getEngine(), from.get_desc(),
                                     builder.getEngine(), to.get_desc(),
                                     builder.getAttributes());
  builder.addPrimitive(dnnl::reorder(desc), desc.scratchpad_desc(),
                       {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}
