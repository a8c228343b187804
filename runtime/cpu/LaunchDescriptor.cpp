//===- LaunchDescriptor.cpp -----------------------------------------------===//
#include "cpu/LaunchDescriptor.h"

#include <charconv>
#include <limits>

using namespace pp::runtime;

int64_t pp::runtime::getCount(Descriptor &descriptor, const std::string &key) {
  const std::string &text = descriptor.getText(key);
  int64_t value = 0;
  const char *end = text.data() + text.size();
  auto [next, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || next != end || value < 0)
    throw DescriptorError(key + "=" + text +
                          ": expected an integer of at least 0");
  return value;
}

/// The grids for `count` elements, of which each block has so many.
static Descriptor::Dims gridsFor(Descriptor &descriptor, int64_t count) {
  Descriptor::Dims grids = descriptor.getDims("elements", 0);
  for (int64_t &grid : grids) {
    grid = grid == 0 ? 1 : count / grid + (count % grid != 0);
    if (count == 0 || grid > std::numeric_limits<int32_t>::max())
      throw DescriptorError("count=" + std::to_string(count) +
                            ": expected 1 to 2^31 blocks");
  }
  return grids;
}

LaunchDescriptor LaunchDescriptor::read(Descriptor &descriptor) {
  constexpr int64_t mostTensors = 1 << 20;
  LaunchDescriptor result;
  const std::string &name = descriptor.getText("name");
  result.tensors = descriptor.getInteger("tensors", 0, mostTensors);
  Descriptor::Dims grids, blocks;
  if (descriptor.has("count")) {
    int64_t count = getCount(descriptor, "count");
    int64_t stride =
        descriptor.has("stride") ? getCount(descriptor, "stride") : count;
    result.numbers = {count, stride};
    grids = gridsFor(descriptor, count);
  } else if (descriptor.has("grids") || descriptor.has("blocks")) {
    grids = descriptor.getDims("grids");
  }
  // Kernels that do nothing have neither.
  if (!grids.empty())
    blocks = descriptor.getDims("blocks", grids.size(), 1);
  constexpr int64_t mostThreads = 1024;
  for (size_t i = 0; i < grids.size(); ++i) {
    std::string function = name + "_" + std::to_string(i);
    if (blocks[i] > mostThreads)
      throw DescriptorError(
          "'" + function + "' has blocks of " + std::to_string(blocks[i]) +
          " threads; a GPU has at most " + std::to_string(mostThreads));
    result.launches.push_back({std::move(function), grids[i], blocks[i]});
  }
  return result;
}
