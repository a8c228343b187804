//===- ScatterAddKernel.cpp - `scatter_add` -------------------------------===//
#include "cpu/KernelBuilder.h"

#include <algorithm>

using namespace pp::runtime;

namespace {
/// Adds rows of `updates` to rows of a table: of each, `width` numbers, of
/// which some are this part's.
struct ScatterAdd {
  int64_t rows, count, width;
  KernelBuilder::Range columns;
  bool isAdded;

  uint64_t orderBytes() const { return alignUp(count * sizeof(uint64_t)); }
  uint64_t getScratchpadBytes() const {
    return orderBytes() + alignUp(columns.count * sizeof(float));
  }

  /// An index from the end counts backwards; one beyond an end is the last one
  /// there.
  int64_t placeOf(int64_t index) const {
    return std::clamp<int64_t>(index < 0 ? index + rows : index, 0, rows - 1);
  }

  /// The updates, each row of the table after the other, those of a row in
  /// their order: a row, and the number of an update.
  void sort(const int64_t *indices, uint64_t *order) const {
    for (int64_t i = 0; i < count; ++i)
      order[i] = static_cast<uint64_t>(placeOf(indices[i])) << 32 |
                 static_cast<uint64_t>(i);
    std::sort(order, order + count);
  }

  void run(const int64_t *indices, const float *updates, float *table,
           void *scratchpad) const {
    auto *order = static_cast<uint64_t *>(scratchpad);
    auto *sum = reinterpret_cast<float *>(static_cast<char *>(scratchpad) +
                                          orderBytes());
    sort(indices, order);
    table += columns.begin;
    updates += columns.begin;
    if (!isAdded)
      for (int64_t row = 0; row < rows; ++row)
        std::fill_n(table + row * width, columns.count, 0.0f);
    for (int64_t i = 0; i < count;) {
      const uint64_t row = order[i] >> 32;
      std::fill_n(sum, columns.count, 0.0f);
      for (; i < count && order[i] >> 32 == row; ++i) {
        const float *update = updates + (order[i] & UINT32_MAX) * width;
        for (int64_t column = 0; column < columns.count; ++column)
          sum[column] += update[column];
      }
      float *to = table + row * width;
      for (int64_t column = 0; column < columns.count; ++column)
        to[column] = isAdded ? to[column] + sum[column] : sum[column];
    }
  }
};
} // namespace

void pp::runtime::buildScatterAdd(Descriptor &descriptor,
                                  KernelBuilder &builder) {
  ScatterAdd work;
  work.rows = descriptor.getInteger("rows", 1, INT32_MAX);
  work.count = descriptor.getInteger("count", 1, INT32_MAX);
  work.width = descriptor.getInteger("width", 1, INT64_MAX / INT32_MAX);
  work.isAdded = readAccumulation(descriptor, KernelBuilder::Type::f32);
  constexpr int64_t line = 16; // of a cache
  work.columns = builder.isWhole() ? KernelBuilder::Range{0, work.width}
                                   : builder.share(work.width, line);
  builder.setFunction(
      {KernelBuilder::tensorOf(DataType::I64, work.count, work.rows),
       KernelBuilder::tensorOf(DataType::F32, work.count * work.width),
       KernelBuilder::tensorOf(DataType::F32, work.rows * work.width)},
      [work](void *const *tensors, void *scratchpad) {
        work.run(static_cast<const int64_t *>(tensors[0]),
                 static_cast<const float *>(tensors[1]),
                 static_cast<float *>(tensors[2]), scratchpad);
      },
      work.getScratchpadBytes());
}
