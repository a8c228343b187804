//===- MatmulMapping.cpp --------------------------------------------------===//
#include "MatmulMapping.h"

#include <algorithm>
#include <optional>

using namespace pp;
using namespace pp::cuda;
using pp::runtime::Descriptor;
using pp::runtime::DescriptorError;

namespace {

/// The last two dimensions of an operand.
struct Matrix {
  int64_t rows, columns, rowStride, columnStride;
  Matrix transpose() const { return {columns, rows, columnStride, rowStride}; }
};

struct BatchDim {
  int64_t size, a, b, c; // strides
};

struct Operand {
  Descriptor::Dims dims, strides;

  Operand(Descriptor &descriptor, const std::string &key, size_t rank)
      : dims(descriptor.getDims(key, rank, 1)) {
    std::string stridesKey = key + "s";
    if (descriptor.has(stridesKey)) {
      strides = descriptor.getDims(stridesKey, rank, 0);
      return;
    }
    strides.assign(rank, 1);
    for (size_t i = rank; i-- > 1;)
      strides[i - 1] = strides[i] * dims[i];
  }
  Matrix getMatrix() const {
    size_t rank = dims.size();
    return {dims[rank - 2], dims[rank - 1], strides[rank - 2],
            strides[rank - 1]};
  }
  int64_t getBatchStride(size_t i) const {
    return dims[i] == 1 ? 0 : strides[i];
  }
};

} // namespace

/// The matrix as it is stored, if that is column-major. Strides of a dimension
/// with one element do not matter.
static std::optional<ColumnMajor> asColumnMajor(const Matrix &matrix) {
  if (matrix.rows != 1 && matrix.rowStride != 1)
    return std::nullopt;
  int64_t leading = matrix.columns == 1 ? matrix.rows : matrix.columnStride;
  if (leading < matrix.rows)
    return std::nullopt;
  return ColumnMajor{matrix.rows, matrix.columns,  leading, false, 0,
                     64,          ElementType::F32};
}

static std::optional<ColumnMajor> asInput(const Matrix &matrix) {
  if (auto direct = asColumnMajor(matrix))
    return direct;
  auto transposed = asColumnMajor(matrix.transpose());
  if (transposed)
    transposed->isTransposed = true;
  return transposed;
}

static std::vector<BatchDim> readBatch(const Operand &a, const Operand &b,
                                       const Operand &c) {
  std::vector<BatchDim> batch;
  for (size_t i = 0; i + 2 < c.dims.size(); ++i) {
    for (const Operand *input : {&a, &b})
      if (input->dims[i] != c.dims[i] && input->dims[i] != 1)
        throw DescriptorError("c: batch dimensions disagree");
    if (c.dims[i] == 1)
      continue;
    BatchDim dim{c.dims[i], a.getBatchStride(i), b.getBatchStride(i),
                 c.strides[i]};
    // Two dimensions that one walks through in the same way are one.
    if (!batch.empty() && batch.back().a == dim.size * dim.a &&
        batch.back().b == dim.size * dim.b &&
        batch.back().c == dim.size * dim.c) {
      dim.size *= batch.back().size;
      batch.back() = dim;
      continue;
    }
    batch.push_back(dim);
  }
  return batch;
}

/// Batch dimensions that multiply by the same b and go on where a's and c's
/// rows end are more rows.
static void foldIntoRows(std::vector<BatchDim> &batch, Matrix &a, Matrix &c) {
  while (!batch.empty()) {
    const BatchDim &last = batch.back();
    bool fits = last.b == 0 && last.a == a.rows * a.rowStride &&
                last.c == c.rows * c.rowStride;
    if (!fits)
      return;
    a.rows *= last.size;
    c.rows *= last.size;
    batch.pop_back();
  }
}

/// The batch dimension that the library walks: the largest.
static BatchDim takeLargest(std::vector<BatchDim> &batch) {
  if (batch.empty())
    return {1, 0, 0, 0};
  auto largest = std::max_element(
      batch.begin(), batch.end(),
      [](const BatchDim &x, const BatchDim &y) { return x.size < y.size; });
  BatchDim dim = *largest;
  batch.erase(largest);
  return dim;
}

/// Keeps what all multiples of `elements` from an aligned address have.
static void limitAlignment(ColumnMajor &matrix, int64_t elements) {
  while (elements * bytesOf(matrix.type) % matrix.alignment != 0)
    matrix.alignment /= 2;
}

MatmulMapping pp::cuda::mapMatmul(Descriptor &descriptor) {
  size_t rank = descriptor.getDims("a").size();
  if (rank < 2)
    throw DescriptorError("a: expected at least two dimensions");
  Operand a(descriptor, "a", rank), b(descriptor, "b", rank),
      c(descriptor, "c", rank);
  Matrix am = a.getMatrix(), bm = b.getMatrix(), cm = c.getMatrix();
  if (am.columns != bm.rows || cm.rows != am.rows || cm.columns != bm.columns)
    throw DescriptorError("c: the matrices' dimensions disagree");
  std::vector<BatchDim> batch = readBatch(a, b, c);
  foldIntoRows(batch, am, cm);

  MatmulMapping map{};
  map.epilogue = runtime::readEpilogue(
      descriptor, c.dims, c.strides == Descriptor::Dims{c.dims.back(), 1});
  auto x = asInput(bm.transpose()), y = asInput(am.transpose());
  auto d = asColumnMajor(cm.transpose());
  map.isSwapped = d.has_value();
  if (!d) {
    d = asColumnMajor(cm);
    x = asInput(am);
    y = asInput(bm);
  }
  auto check = [](bool isThere, const char *key) {
    if (!isThere)
      throw DescriptorError(std::string(key) +
                            "s: cuBLASLt takes only matrices whose rows or "
                            "columns are contiguous and do not overlap");
  };
  check(d.has_value(), "c");
  check(x.has_value(), map.isSwapped ? "b" : "a");
  check(y.has_value(), map.isSwapped ? "a" : "b");
  map.x = *x;
  map.y = *y;
  map.d = *d;
  map.rows = d->rows;
  map.columns = d->columns;
  map.depth = am.columns;
  ProductTypes product = readProductTypes(descriptor, /*result=*/2);
  map.x.type = map.y.type = product.types[0];
  map.d.type = product.types[2];
  map.allowsTf32 = product.allowsTf32;

  BatchDim inner = takeLargest(batch);
  map.batch = inner.size;
  map.x.batchStride = map.isSwapped ? inner.b : inner.a;
  map.y.batchStride = map.isSwapped ? inner.a : inner.b;
  map.d.batchStride = inner.c;
  if (map.batch > 1 && inner.c == 0)
    throw DescriptorError("cs: a result cannot be broadcast");

  map.outer = {{0, 0, 0}};
  for (const BatchDim &dim : batch) {
    if (dim.c == 0)
      throw DescriptorError("cs: a result cannot be broadcast");
    int64_t xs = map.isSwapped ? dim.b : dim.a;
    int64_t ys = map.isSwapped ? dim.a : dim.b;
    if (map.outer.size() * dim.size > 65536)
      throw DescriptorError(
          "c: more than 65536 calls of cuBLASLt; the strides of its batch "
          "dimensions do not fit together");
    std::vector<MatmulMapping::Offsets> all;
    for (const auto &base : map.outer)
      for (int64_t i = 0; i < dim.size; ++i)
        all.push_back({base.x + i * xs, base.y + i * ys, base.d + i * dim.c});
    map.outer = std::move(all);
    limitAlignment(map.x, xs);
    limitAlignment(map.y, ys);
    limitAlignment(map.d, dim.c);
  }
  return map;
}
