//===- AttentionParts.cpp - What forms of attention have in common --------===//

#include "AttentionParts.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

FailureOr<Value> pp::splitHeads(NodeImporter &n, Value x, int64_t heads) {
  SmallVector<int64_t> shape(n.shape(x));
  if (shape.size() == 4)
    return x;
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0) {
    (void)n.error("has an input of rank " + llvm::Twine(shape.size()) +
                  " for " + llvm::Twine(heads) + " heads");
    return failure();
  }
  Value split = n.reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
  return n.transpose(split, {0, 2, 1, 3});
}

Value pp::mergeHeads(NodeImporter &n, Value x) {
  Value turned = n.transpose(x, {0, 2, 1, 3});
  ArrayRef<int64_t> shape = n.shape(turned);
  return n.reshape(turned, {shape[0], shape[1], shape[2] * shape[3]});
}

FailureOr<Value> pp::repeatHeads(NodeImporter &n, Value x, int64_t heads) {
  SmallVector<int64_t> shape(n.shape(x));
  if (shape[1] < 1 || heads % shape[1] != 0) {
    (void)n.error("has " + llvm::Twine(heads) + " heads of queries for " +
                  llvm::Twine(shape[1]) + " of keys or values");
    return failure();
  }
  if (shape[1] == heads)
    return x;
  Value wide =
      n.make<BroadcastOp>(n.type(x).clone({shape[0], shape[1], heads / shape[1],
                                           shape[2], shape[3]}),
                          x, ArrayRef<int64_t>{0, 1, 3, 4});
  return n.reshape(wide, {shape[0], heads, shape[2], shape[3]});
}

FailureOr<Value> pp::scoreKeys(NodeImporter &n, Value q, Value k, Value v,
                               double scale) {
  SmallVector<int64_t> qShape(n.shape(q)), kShape(n.shape(k)),
      vShape(n.shape(v));
  if (qShape[0] != kShape[0] || qShape[3] != kShape[3] ||
      kShape[0] != vShape[0] || kShape[2] != vShape[2]) {
    (void)n.error("has queries, keys and values that do not fit each other");
    return failure();
  }
  SmallVector<int64_t> shape = {qShape[0], qShape[1], qShape[2], kShape[2]};
  SmallVector<int64_t> batch = {0, 1};
  return Value(n.make<DotGeneralOp>(n.type(q).clone(shape),
                                    Expressions{n}.mul(q, scale), k, batch,
                                    batch, int64_t{3}, int64_t{3}));
}

Value pp::capScores(NodeImporter &n, Value x, double cap) {
  Expressions e{n};
  return cap > 0 ? e.mul(e.unary<TanhOp>(e.mul(x, 1 / cap)), cap) : x;
}

Value pp::weighMasked(NodeImporter &n, Value scores) {
  Expressions e{n};
  SmallVector<int64_t> shape(n.shape(scores));
  Value largest = n.reduce(Reduction::max, scores, int64_t{3}, false);
  Value isBlind = e.spread(e.compare(Comparison::eq, largest, hiddenScore),
                           shape, int64_t{3});
  Value zero = e.number(scores, 0);
  Value weights = n.make<SoftmaxOp>(e.select(isBlind, zero, scores));
  return e.select(isBlind, zero, weights);
}

Value pp::sumValues(NodeImporter &n, Value weights, Value v) {
  ArrayRef<int64_t> rows = n.shape(weights);
  SmallVector<int64_t> shape = {rows[0], rows[1], rows[2], n.shape(v)[3]};
  SmallVector<int64_t> batch = {0, 1};
  return n.make<DotGeneralOp>(n.type(weights).clone(shape), weights, v, batch,
                              batch, int64_t{3}, int64_t{2});
}

Value pp::rotatePairs(NodeImporter &n, Value x, Value cosine, Value sine,
                      bool interleaved) {
  Expressions e{n};
  SmallVector<int64_t> shape(n.shape(x)), half(n.shape(cosine));
  int64_t turned = 2 * half[3];
  Value part = turned == shape[3] ? x : n.slice(x, 3, 0, turned);
  SmallVector<int64_t> wide(half), pairs(half);
  pairs[3] = turned;
  int64_t axis = interleaved ? 4 : 3;
  wide.insert(wide.begin() + axis, 2);
  part = n.reshape(part, wide);
  Value first = n.reshape(n.slice(part, axis, 0, 1), half);
  Value second = n.reshape(n.slice(part, axis, 1, 2), half);
  Value real = e.sub(e.mul(first, cosine), e.mul(second, sine));
  Value other = e.add(e.mul(first, sine), e.mul(second, cosine));
  SmallVector<int64_t> single(wide);
  single[axis] = 1;
  Value y = n.make<ConcatOp>(
      ValueRange{n.reshape(real, single), n.reshape(other, single)}, axis);
  y = n.reshape(y, pairs);
  if (turned < shape[3])
    y = n.make<ConcatOp>(ValueRange{y, n.slice(x, 3, turned, shape[3])},
                         int64_t{3});
  return y;
}
