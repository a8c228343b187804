//===- ReductionHandlers.cpp - ONNX reductions ----------------------------===//

#include "Expressions.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// What of a tensor is reduced.
struct Axes {
  SmallVector<int64_t> list;
  bool keep;
};

FailureOr<Axes> readAxes(NodeImporter &n, Value x) {
  int64_t rank = n.shape(x).size();
  Axes axes;
  axes.keep = n.attribute("keepdims", int64_t{1}) != 0;
  bool noneIsNone = n.attribute("noop_with_empty_axes", int64_t{0}) != 0;
  auto given = n.integers("axes", 1);
  if (failed(given))
    return failure();
  auto list = n.normalizeAxes(*given, rank);
  if (failed(list))
    return failure();
  axes.list = *list;
  if (axes.list.empty() && !noneIsNone)
    axes.list = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  return axes;
}

/// The reduction; of no axes the tensor itself.
Value reduced(Expressions &e, Reduction reduction, Value x, const Axes &axes) {
  return axes.list.empty() ? x : e.n.reduce(reduction, x, axes.list, axes.keep);
}
Value sumOf(Expressions &e, Value x, const Axes &axes) {
  return reduced(e, Reduction::sum, x, axes);
}

template <Value (*formula)(Expressions &, Value, const Axes &)>
LogicalResult reduce(NodeImporter &n) {
  Value x = n.tensor(0);
  if (!x)
    return failure();
  auto axes = readAxes(n, x);
  if (failed(axes))
    return failure();
  Expressions e{n};
  n.setOutput(0, formula(e, x, *axes));
  return success();
}

template <Reduction reduction>
Value plain(Expressions &e, Value x, const Axes &axes) {
  Type element = e.n.type(x).getElementType();
  if (!element.isInteger(1))
    return reduced(e, reduction, x, axes);
  // Truth values are 0 and 1, also where there are none.
  Value y =
      reduced(e, reduction, e.n.cast(x, e.n.getBuilder().getI32Type()), axes);
  return e.n.cast(e.max(e.min(y, 1), 0), element);
}
Value meanOf(Expressions &e, Value x, const Axes &axes) {
  return axes.list.empty() ? x : e.n.mean(x, axes.list, axes.keep);
}
Value l1(Expressions &e, Value x, const Axes &axes) {
  return sumOf(e, e.abs(x), axes);
}
Value sumSquare(Expressions &e, Value x, const Axes &axes) {
  return sumOf(e, e.mul(x, x), axes);
}
/// Of zeros the derivative is 0, as in PyTorch.
Value l2(Expressions &e, Value x, const Axes &axes) {
  Value square = sumSquare(e, x, axes);
  Value isZero = e.compare(Comparison::eq, square, 0);
  Value root = e.sqrt(e.select(isZero, e.number(square, 1), square));
  return e.select(isZero, square, root);
}
Value logSum(Expressions &e, Value x, const Axes &axes) {
  return e.log(sumOf(e, x, axes));
}
/// Without the largest element, so that nothing overflows; that is no number
/// to subtract where it is infinite.
Value logSumExp(Expressions &e, Value x, const Axes &axes) {
  Axes dropped = {axes.list, false};
  Value largest = reduced(e, Reduction::max, x, dropped);
  Value isFinite = e.compare(Comparison::lt, e.abs(largest),
                             std::numeric_limits<double>::infinity());
  Value shift = e.select(isFinite, largest, e.number(largest, 0));
  Value shifted = e.sub(x, e.spread(shift, e.n.shape(x), axes.list));
  Value result = e.add(e.log(sumOf(e, e.exp(shifted), dropped)), shift);
  SmallVector<int64_t> shape(e.n.shape(x));
  for (int64_t axis : axes.list)
    shape[axis] = 1;
  return axes.keep ? e.n.reshape(result, shape) : result;
}

} // namespace

ArrayRef<ImportedOperator> pp::reductionOperators() {
  static const std::vector<KnownInput> axes = {{"axes"}};
  static const ImportedOperator entries[] = {
      {.name = "ReduceL1",
       .handler = reduce<l1>,
       .types = numberTypes,
       .known = axes},
      {.name = "ReduceL2",
       .handler = reduce<l2>,
       .types = floatTypes,
       .known = axes},
      {.name = "ReduceLogSum",
       .handler = reduce<logSum>,
       .types = floatTypes,
       .known = axes},
      {.name = "ReduceLogSumExp",
       .handler = reduce<logSumExp>,
       .types = floatTypes,
       .known = axes},
      {.name = "ReduceMax",
       .handler = reduce<plain<Reduction::max>>,
       .types = numberTypes | boolType,
       .known = axes},
      {.name = "ReduceMean",
       .handler = reduce<meanOf>,
       .types = numberTypes,
       .known = axes},
      {.name = "ReduceMin",
       .handler = reduce<plain<Reduction::min>>,
       .types = numberTypes | boolType,
       .known = axes},
      {.name = "ReduceProd",
       .handler = reduce<plain<Reduction::product>>,
       .types = numberTypes,
       .known = axes},
      {.name = "ReduceSum",
       .handler = reduce<plain<Reduction::sum>>,
       .types = numberTypes,
       .known = axes},
      {.name = "ReduceSumSquare",
       .handler = reduce<sumSquare>,
       .types = numberTypes,
       .known = axes},
  };
  return entries;
}
