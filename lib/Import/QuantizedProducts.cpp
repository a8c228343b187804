//===- QuantizedProducts.cpp - Sums of products of integers ---------------===//
//
// f32 holds whole numbers up to 2^24, so a sum of products of 8-bit numbers is
// exact in whatever order it is added up, if it has few enough terms: 258 of
// two numbers up to 255. Longer sums are cut, and the parts added up as
// integers:
//
//   a[8 x 768] * b[768 x 32]   ──▶   int(a[:, :384] * b[:384, :])
//                                  + int(a[:, 384:] * b[384:, :])
//
// Such products are marked `nn.exact`, so that nothing in them is rounded.
//
//===----------------------------------------------------------------------===//

#include "QuantizedProducts.h"
#include "Expressions.h"
#include "Products.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

Value pp::alignTo(NodeImporter &n, Value parameter, ArrayRef<int64_t> shape,
                  int64_t axis, int64_t block) {
  SmallVector<int64_t> own(n.shape(parameter));
  if (n.type(parameter).getNumElements() == 1)
    return n.broadcastTo(n.reshape(parameter, {}), shape);
  auto mismatch = [&]() -> Value {
    (void)n.error("has a scale or zero point whose shape fits neither the "
                  "tensor nor its axis " +
                  llvm::Twine(axis));
    return nullptr;
  };
  int64_t rank = shape.size();
  axis = axis < 0 ? axis + rank : axis;
  if (axis < 0 || axis >= rank)
    return mismatch();
  if (block > 0) {
    if (own.size() != shape.size())
      return mismatch();
    for (int64_t each = 0; each < rank; ++each)
      if (own[each] !=
          (each == axis ? (shape[each] + block - 1) / block : shape[each]))
        return mismatch();
    SmallVector<int64_t> positions;
    for (int64_t i = 0; i < shape[axis]; ++i)
      positions.push_back(i / block);
    return n.take(parameter, axis, positions);
  }
  if (own.size() != 1 || own[0] != shape[axis])
    return mismatch();
  return n.make<BroadcastOp>(n.type(parameter).clone(shape), parameter,
                             ArrayRef<int64_t>(axis));
}

/// The largest number of products that f32 adds up exactly.
static int64_t mostTerms(const QuantizedFactor &a, const QuantizedFactor &b) {
  constexpr int64_t mostInFloat = 1 << 24;
  return mostInFloat / (a.most * b.most);
}

QuantizedFactor pp::quantizedFactor(NodeImporter &n, size_t index,
                                    size_t zeroIndex, int64_t axis) {
  Value x = n.tensor(index);
  if (!x)
    return {};
  const bool hasZero = n.hasInput(zeroIndex);
  Constant known = n.known(zeroIndex);
  const bool isCentred =
      !hasZero ||
      (known && llvm::all_of(known.numbers(), [](double z) { return z == 0; }));
  QuantizedFactor result;
  result.isSigned =
      NodeImporter::dataType(n.input(index)) == onnx::DataType::Int8;
  result.most = result.isSigned && isCentred ? 128 : 255;
  result.whole = n.valueOf(n.input(index));
  if (!isCentred)
    result.zero = n.cast(n.tensor(zeroIndex), n.getBuilder().getI32Type());
  Expressions e{n};
  Type real = n.getBuilder().getF32Type();
  result.value = n.cast(x, real);
  if (!hasZero)
    return result;
  Value zero = n.cast(n.tensor(zeroIndex), real);
  // A column of one number for each row.
  SmallVector<int64_t> own(n.shape(zero));
  if (own.size() > 1 && own.size() == n.shape(x).size()) {
    for (auto [mine, theirs] : llvm::zip(own, n.shape(x)))
      if (mine != 1 && mine != theirs) {
        (void)n.error("has a zero point whose shape does not fit");
        return {};
      }
    zero = n.broadcastTo(zero, n.shape(x));
  } else {
    zero = alignTo(n, zero, n.shape(x), axis, 0);
  }
  result.value = zero ? e.sub(result.value, zero) : Value();
  return result;
}

/// The product as integers, where all sums are exact.
static Value asIntegers(NodeImporter &n, Value product) {
  if (!product)
    return nullptr;
  Operation *op = product.getDefiningOp();
  op->setAttr(exactAttrName, n.getBuilder().getUnitAttr());
  // A library of a GPU chooses the algorithm of a convolution itself.
  if (isa<ConvOp>(op))
    product = n.make<RoundOp>(product);
  return n.cast(product, n.getBuilder().getI32Type());
}

/// The sum of `multiply(a, b)` over parts of an axis that both have, of at most
/// `mostLength` places each.
static Value addParts(NodeImporter &n, Value a, int64_t axisOfA, Value b,
                      int64_t axisOfB, int64_t mostLength,
                      function_ref<Value(Value, Value)> multiply) {
  const int64_t size = n.shape(a)[axisOfA];
  if (size <= mostLength)
    return asIntegers(n, multiply(a, b));
  // Of about the same length, which fills vectors.
  constexpr int64_t vector = 16;
  int64_t length = llvm::divideCeil(size, llvm::divideCeil(size, mostLength));
  int64_t full = llvm::alignTo(length, vector);
  length = full <= mostLength ? full : mostLength;
  Value sum;
  for (int64_t first = 0; first < size; first += length) {
    const int64_t end = std::min(first + length, size);
    Value part = asIntegers(n, multiply(n.slice(a, axisOfA, first, end),
                                        n.slice(b, axisOfB, first, end)));
    if (!part)
      return nullptr;
    sum = sum ? Value(n.make<AddOp>(sum, part)) : part;
  }
  return sum;
}

/// How many parts of the same length, of at most `mostLength`, an axis can be
/// cut into; 0 if they would be short.
static int64_t countEqualParts(int64_t size, int64_t mostLength) {
  constexpr int64_t leastLength = 64;
  for (int64_t parts = llvm::divideCeil(size, mostLength);
       size / parts >= leastLength; ++parts)
    if (size % parts == 0)
      return parts;
  return 0;
}

/// Rows times a matrix whose terms are cut into equal parts, as a product of
/// batches: nothing is moved for it.
static Value multiplyParts(NodeImporter &n, Value a, Value b, int64_t parts) {
  SmallVector<int64_t> shape(n.shape(a));
  const int64_t terms = shape.back(), rows = n.type(a).getNumElements() / terms,
                columns = n.shape(b)[1], one = 1, two = 2, zero = 0;
  Value left = n.reshape(a, {rows, parts, terms / parts}),
        right = n.reshape(b, {parts, terms / parts, columns});
  Value products = asIntegers(
      n, n.make<DotGeneralOp>(n.type(a).clone({parts, rows, columns}), left,
                              right, one, zero, two, one));
  shape.back() = columns;
  return n.reshape(n.reduce(Reduction::sum, products, 0, /*keepAxes=*/false),
                   shape);
}

/// The matrix in the panels of `nn.integer_product`.
static Value panelsOf(NodeImporter &n, Value matrix) {
  constexpr int64_t columns = 64, terms = 4;
  auto fillUp = [&](Value value, int64_t axis, int64_t multiple) {
    SmallVector<int64_t> shape(n.shape(value));
    const int64_t rest = llvm::alignTo(shape[axis], multiple) - shape[axis];
    if (rest == 0)
      return value;
    shape[axis] = rest;
    Value zeros = n.splat(n.type(value).clone(shape), 0);
    return n.join({value, zeros}, axis, /*isNew=*/false);
  };
  Value full = fillUp(fillUp(matrix, 0, terms), 1, columns);
  const int64_t groups = n.shape(full)[0] / terms,
                panels = n.shape(full)[1] / columns;
  return n.transpose(n.reshape(full, {groups, terms, panels, columns}),
                     {2, 0, 3, 1});
}

/// Whether `nn.integer_product` can multiply the rows of a by the matrix b.
static bool hasIntegerProduct(NodeImporter &n, const QuantizedFactor &a,
                              const QuantizedFactor &b) {
  const bool hasOneZero = !a.zero || n.type(a.zero).getNumElements() == 1;
  const bool hasColumnZeros = !b.zero || n.type(b.zero).getNumElements() == 1 ||
                              n.shape(b.zero) == n.shape(b.whole).drop_front();
  return n.getOptions().hasIntegerProducts && n.shape(b.whole).size() == 2 &&
         hasOneZero && hasColumnZeros && n.type(a.whole).getNumElements() > 0 &&
         n.type(b.whole).getNumElements() > 0;
}

/// With a number y and one number z for each column, or one for all,
///   (a - y) (b - z) = a b - y (1 b) - (a 1 - y 1 1) z,
/// where 1 are rows and columns of ones.
static Value multiplyIntegers(NodeImporter &n, const QuantizedFactor &a,
                              const QuantizedFactor &b) {
  Builder &builder = n.getBuilder();
  Type i32 = builder.getI32Type();
  const auto u8 = builder.getIntegerType(8, /*isSigned=*/false);
  const auto numbers = RankedTensorType::get({}, i32);
  // What has another sign than the operation takes is moved by 128, and its
  // zero point with it. Of 8 bits, that is the first one.
  auto move = [&](Value value, Type to, double bit) -> Value {
    value = n.cast(value, to);
    return n.make<XorOp>(value, n.splat(n.type(value), bit));
  };
  auto add = [&](Value value, int64_t number) -> Value {
    value = value ? value : n.splat(numbers, 0);
    return n.make<AddOp>(value, n.splat(n.type(value), number));
  };
  auto asNumber = [&](Value zero) {
    return zero && n.type(zero).getNumElements() == 1 ? n.reshape(zero, {})
                                                      : zero;
  };
  Value rows = a.whole, y = asNumber(a.zero);
  if (a.isSigned) {
    rows = move(rows, u8, 128);
    y = add(y, 128);
  }
  Value matrix = b.whole, z = asNumber(b.zero);
  if (!b.isSigned) {
    matrix = move(matrix, builder.getI8Type(), -128);
    z = add(z, -128);
  }
  const int64_t terms = n.shape(matrix)[0], columns = n.shape(matrix)[1];
  SmallVector<int64_t> shape(n.shape(rows)), ofRows(shape);
  shape.back() = columns;
  ofRows.back() = 1;
  Value panels = panelsOf(n, matrix);
  Value product =
      n.make<IntegerProductOp>(RankedTensorType::get(shape, i32), rows, panels);
  auto subtract = [&](Value value) {
    product = n.make<SubOp>(product, n.broadcastTo(value, shape));
  };
  if (y) {
    Value ones = n.splat(RankedTensorType::get(terms, u8), 1);
    Value sums = n.make<IntegerProductOp>(RankedTensorType::get(columns, i32),
                                          ones, panels);
    subtract(n.make<MulOp>(n.broadcastTo(y, n.shape(sums)), sums));
  }
  if (z) {
    Value sums = n.reduce(Reduction::sum, n.cast(rows, i32), shape.size() - 1,
                          /*keepAxes=*/true);
    if (y) {
      Value all = n.make<MulOp>(y, n.splat(numbers, terms));
      sums = n.make<SubOp>(sums, n.broadcastTo(all, ofRows));
    }
    subtract(
        n.make<MulOp>(n.broadcastTo(sums, shape), n.broadcastTo(z, shape)));
  }
  return product;
}

Value pp::quantizedMatMul(NodeImporter &n, const QuantizedFactor &a,
                          const QuantizedFactor &b) {
  auto multiply = [&](Value x, Value y) { return importMatMul(n, x, y); };
  ArrayRef<int64_t> left = n.shape(a.value), right = n.shape(b.value);
  const int64_t axisOfA = std::ssize(left) - 1,
                axisOfB = std::max<int64_t>(std::ssize(right) - 2, 0);
  // What does not fit gets its error where it is multiplied.
  if (left.empty() || right.empty() || left[axisOfA] != right[axisOfB])
    return multiply(a.value, b.value);
  if (hasIntegerProduct(n, a, b))
    return multiplyIntegers(n, a, b);
  const int64_t length = mostTerms(a, b);
  if (right.size() == 2 && left[axisOfA] > length)
    if (int64_t parts = countEqualParts(left[axisOfA], length))
      return multiplyParts(n, a.value, b.value, parts);
  return addParts(n, a.value, axisOfA, b.value, axisOfB, length, multiply);
}

Value pp::quantizedConv(NodeImporter &n, const QuantizedFactor &x,
                        const QuantizedFactor &w) {
  auto convolve = [&](Value image, Value weight) {
    return importConv(n, image, weight);
  };
  ArrayRef<int64_t> image = n.shape(x.value), weight = n.shape(w.value);
  int64_t window = 1;
  for (int64_t size : weight.drop_front(std::min<size_t>(weight.size(), 2)))
    window *= size;
  const int64_t channels =
      window > 0 ? mostTerms(x, w) / window : mostTerms(x, w);
  const bool canCut = image.size() > 1 && weight.size() > 1 &&
                      image[1] == weight[1] && channels > 0;
  if (canCut)
    return addParts(n, x.value, 1, w.value, 1, channels, convolve);
  const bool isShort = weight.size() > 1 && weight[1] <= channels;
  if (isShort)
    return asIntegers(n, convolve(x.value, w.value));
  // Long sums in each of several groups.
  Type wide = n.getBuilder().getF64Type();
  Value y = convolve(n.cast(x.value, wide), n.cast(w.value, wide));
  return y ? n.cast(y, n.getBuilder().getI32Type()) : Value();
}
