//===- RandomProductTest.cpp - Random products ----------------------------===//
#include "RandomKernels.h"

using namespace pp::runtime;
using namespace pp::runtime::random_kernels;

namespace {

/// Strides of a matrix or a batch of them, whose rows or columns lie together,
/// with or without something between them.
Dims chooseStrides(Choice &choice, const Dims &dims, bool isTransposed) {
  const size_t rows = dims.size() - 2, columns = dims.size() - 1;
  Dims strides(dims.size());
  const size_t inner = isTransposed ? rows : columns,
               outer = isTransposed ? columns : rows;
  strides[inner] = 1;
  strides[outer] = dims[inner] + (choice.upTo(5) == 0 ? choice.upTo(40) : 0);
  int64_t size = strides[outer] * dims[outer];
  for (size_t axis = rows; axis-- > 0; size *= dims[axis])
    strides[axis] = size;
  return strides;
}

Case makeProduct(Choice &choice) {
  const size_t batch = static_cast<size_t>(choice.of({0, 0, 0, 1, 2}));
  auto size = [&] {
    return choice.of<int64_t>(
        {1, 2, 5, 16, 17, 31, 32, 33, 48, 64, 64, 100, 128, 130, 192, 256});
  };
  const int64_t m = size(), k = size(), n = size();
  Dims a, b, c;
  for (size_t axis = 0; axis < batch; ++axis) {
    c.push_back(choice.upTo(3, 1));
    a.push_back(choice.upTo(4) == 0 ? 1 : c.back());
    b.push_back(a.back() != 1 && choice.upTo(4) == 0 ? 1 : c.back());
  }
  for (auto &[dims, rows, columns] :
       {std::tuple(&a, m, k), std::tuple(&b, k, n), std::tuple(&c, m, n)}) {
    dims->push_back(rows);
    dims->push_back(columns);
  }
  const Dims as = chooseStrides(choice, a, choice.upTo(2) == 0),
             bs = chooseStrides(choice, b, choice.upTo(2) == 0),
             cs = chooseStrides(choice, c, /*isTransposed=*/false);
  const DataType type = choice.of({DataType::F32, DataType::F32, DataType::BF16,
                                   DataType::BF16, DataType::F16});
  Case each;
  each.resultType = choice.upTo(1) == 0 ? DataType::F32 : type;
  const bool isAdded = each.resultType == DataType::F32 && choice.upTo(1) == 0;
  each.keys = "matmul a=" + join(a) + " b=" + join(b) + " c=" + join(c) +
              " as=" + join(as) + " bs=" + join(bs) + " cs=" + join(cs) +
              " types=" + nameOfType(type) + "x" + nameOfType(type) + "x" +
              nameOfType(each.resultType);
  if (isAdded)
    each.keys +=
        choice.upTo(1) == 0 ? " accumulate=1" : " accumulate=1 together=4";
  else
    each.pack = "pack_" + each.keys;
  each.compute = [=](void *const *tensors) {
    std::vector<std::pair<int64_t, Sum>> sums;
    forEach(c, [&](const Dims &index) {
      int64_t atA = 0, atB = 0, at = 0;
      for (size_t axis = 0; axis < index.size(); ++axis) {
        at += index[axis] * cs[axis];
        if (axis != batch + 1 && a[axis] > 1)
          atA += index[axis] * as[axis];
        if (axis != batch && b[axis] > 1)
          atB += index[axis] * bs[axis];
      }
      Sum sum;
      if (isAdded)
        sum.add(static_cast<const float *>(tensors[2])[at]);
      for (int64_t i = 0; i < k; ++i)
        sum.add(readNumber(type, tensors[0], atA + i * as.back()) *
                readNumber(type, tensors[1], atB + i * bs[batch]));
      sums.emplace_back(at, sum);
    });
    return sums;
  };
  return each;
}

TEST(RandomKernels, MultiplyRightly) {
  for (unsigned seed = 1; seed <= countCases(150); ++seed) {
    Choice choice(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Case each = makeProduct(choice);
    EXPECT_TRUE(check(each, seed)) << each.keys;
    if (HasFailure())
      return;
  }
}

} // namespace
