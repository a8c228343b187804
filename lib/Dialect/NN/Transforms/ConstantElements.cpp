//===- ConstantElements.cpp -----------------------------------------------===//

#include "ConstantElements.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/IR/TensorTypes.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Endian.h"
#include <cmath>

using namespace mlir;
using namespace pp::nn;

using Index = ArrayRef<int64_t>;

/// Larger parameters are no masks.
static constexpr uint64_t maxParameterBytes = 64 << 20;

/// Operations behind one element. Values that are read twice are computed
/// twice.
static constexpr unsigned maxSteps = 1000;

/// What `readAt` says of the row-major numbers of the elements at `index`, if
/// it says the same of all that `any` stands for.
static std::optional<double>
readEqual(ArrayRef<int64_t> shape, Index index,
          llvm::function_ref<std::optional<double>(int64_t)> readAt) {
  SmallVector<int64_t> places = {0};
  for (auto [size, at] : llvm::zip_equal(shape, index)) {
    const bool isAny = at == ConstantElements::any;
    SmallVector<int64_t> next;
    for (int64_t place : places)
      for (int64_t i = isAny ? 0 : at, end = isAny ? size : at + 1; i < end;
           ++i)
        next.push_back(place * size + i);
    places = std::move(next);
  }
  if (places.empty())
    return std::nullopt;
  const std::optional<double> first = readAt(places.front());
  for (int64_t place : ArrayRef(places).drop_front())
    if (!first || readAt(place) != first)
      return std::nullopt;
  return first;
}

static std::optional<double> elementAt(DenseElementsAttr dense, int64_t at) {
  Type type = dense.getElementType();
  if (type.isF32())
    return dense.getValues<float>()[at];
  if (type.isF64())
    return dense.getValues<double>()[at];
  if (type.isInteger(1))
    return dense.getValues<bool>()[at];
  if (isa<IntegerType>(type)) {
    APInt value = dense.getValues<APInt>()[at];
    return type.isUnsignedInteger() ? static_cast<double>(value.getZExtValue())
                                    : static_cast<double>(value.getSExtValue());
  }
  return std::nullopt;
}

static std::optional<double> elementOf(ElementsAttr elements, Index index) {
  auto dense = dyn_cast<DenseElementsAttr>(elements);
  if (!dense)
    return std::nullopt;
  if (dense.isSplat())
    return elementAt(dense, 0);
  return readEqual(dense.getType().getShape(), index,
                   [&](int64_t at) { return elementAt(dense, at); });
}

/// A number in the bytes of a tensor.
static std::optional<double> decode(Type type, const char *bytes) {
  using namespace llvm::support::endian;
  if (type.isF32())
    return llvm::bit_cast<float>(read32le(bytes));
  if (type.isF64())
    return llvm::bit_cast<double>(read64le(bytes));
  if (type.isInteger(64))
    return static_cast<int64_t>(read64le(bytes));
  if (type.isInteger(32))
    return static_cast<int32_t>(read32le(bytes));
  if (type.isInteger(1))
    return *bytes != 0;
  if (type.isUnsignedInteger(8))
    return static_cast<uint8_t>(*bytes);
  if (type.isInteger(8))
    return static_cast<int8_t>(*bytes);
  return std::nullopt;
}

const llvm::MemoryBuffer *ConstantElements::bytesOf(ExternalAttr external) {
  auto [entry, isNew] = files.try_emplace(external);
  if (isNew && external.getBytes() <= maxParameterBytes) {
    auto slice = llvm::MemoryBuffer::getFileSlice(external.getFile().getValue(),
                                                  external.getBytes(),
                                                  external.getOffset());
    // A file that ends early leaves fewer bytes.
    if (slice && (*slice)->getBufferSize() == external.getBytes())
      entry->second = std::move(*slice);
  }
  return entry->second.get();
}

Attribute ConstantElements::fixedValueOf(ParameterOp op) {
  auto global = symbols.lookup<ml_program::GlobalOp>(op.getSymbol());
  if (!global || global.getIsMutable() || global->hasAttr(trainedAttrName) ||
      !global.getValue())
    return nullptr;
  return *global.getValue();
}

std::optional<ArrayRef<char>> ConstantElements::readBytes(ParameterOp op) {
  Attribute value = fixedValueOf(op);
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(value))
    return dense.getRawData();
  auto external = dyn_cast_or_null<ExternalAttr>(value);
  if (!external || external.getTransposed())
    return std::nullopt;
  const llvm::MemoryBuffer *bytes = bytesOf(external);
  if (!bytes)
    return std::nullopt;
  return ArrayRef<char>(bytes->getBufferStart(), bytes->getBufferSize());
}

std::optional<double> ConstantElements::readParameterElement(ParameterOp op,
                                                             Index index) {
  Attribute value = fixedValueOf(op);
  if (!value)
    return std::nullopt;
  RankedTensorType type = typeOf(op);
  readParameter = true;
  readFloatParameter |= isa<FloatType>(type.getElementType());
  if (auto elements = dyn_cast<ElementsAttr>(value))
    return elementOf(elements, index);
  auto external = dyn_cast<ExternalAttr>(value);
  if (external && external.getTransposed())
    return std::nullopt;
  const llvm::MemoryBuffer *bytes = external ? bytesOf(external) : nullptr;
  if (!bytes)
    return std::nullopt;
  uint64_t size = external.getBytes() / type.getNumElements();
  return readEqual(type.getShape(), index, [&](int64_t at) {
    return decode(type.getElementType(), bytes->getBufferStart() + at * size);
  });
}

/// Only axes of size one come and go in masks.
std::optional<double> ConstantElements::readReshaped(ReshapeOp op,
                                                     Index index) {
  SmallVector<int64_t> known;
  for (auto [size, at] : llvm::zip_equal(typeOf(op).getShape(), index))
    if (size != 1)
      known.push_back(at);
  SmallVector<int64_t> source;
  ArrayRef<int64_t> shape = typeOf(op.getInput()).getShape();
  size_t next = 0;
  for (int64_t size : shape)
    source.push_back(size == 1 || next == known.size() ? 0 : known[next++]);
  auto withoutOnes = [](ArrayRef<int64_t> sizes) {
    return llvm::to_vector(
        llvm::make_filter_range(sizes, [](int64_t size) { return size != 1; }));
  };
  if (withoutOnes(shape) != withoutOnes(typeOf(op).getShape()))
    return std::nullopt;
  return compute(op.getInput(), source);
}

static bool compare(Comparison comparison, double x, double y) {
  switch (comparison) {
  case Comparison::eq:
    return x == y;
  case Comparison::ne:
    return x != y;
  case Comparison::lt:
    return x < y;
  case Comparison::le:
    return x <= y;
  case Comparison::gt:
    return x > y;
  case Comparison::ge:
    return x >= y;
  }
  return false;
}

std::optional<double> ConstantElements::readBinary(Operation *op, Index index) {
  if (!isa<AddOp, SubOp, MulOp, AndOp, OrOp, CompareOp>(op))
    return std::nullopt;
  auto x = compute(op->getOperand(0), index);
  auto y = x ? compute(op->getOperand(1), index) : std::nullopt;
  if (!y)
    return std::nullopt;
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case([&](AddOp) { return *x + *y; })
      .Case([&](SubOp) { return *x - *y; })
      .Case([&](MulOp) { return *x * *y; })
      .Case([&](AndOp) { return *x != 0 && *y != 0; })
      .Case([&](OrOp) { return *x != 0 || *y != 0; })
      .Case([&](CompareOp each) {
        return compare(each.getComparison(), *x, *y);
      });
}

std::optional<double> ConstantElements::read(Value value, Index index) {
  steps = 0;
  return compute(value, index);
}

std::optional<double> ConstantElements::compute(Value value, Index index) {
  Operation *op = value.getDefiningOp();
  if (!op || ++steps > maxSteps)
    return std::nullopt;
  using Result = std::optional<double>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](ConstantOp constant) -> Result {
        return elementOf(constant.getValue(), index);
      })
      .Case([&](ParameterOp parameter) -> Result {
        return readParameterElement(parameter, index);
      })
      .Case([&](IotaOp iota) -> Result {
        int64_t at = index[iota.getAxis()];
        return at == any ? Result() : static_cast<double>(at);
      })
      .Case([&](BroadcastOp broadcast) -> Result {
        SmallVector<int64_t> source;
        for (int64_t axis : broadcast.getAxes())
          source.push_back(index[axis]);
        return compute(broadcast.getInput(), source);
      })
      .Case([&](ReshapeOp reshape) -> Result {
        return readReshaped(reshape, index);
      })
      .Case([&](TransposeOp transpose) -> Result {
        SmallVector<int64_t> source(index.size());
        for (auto [to, from] : llvm::enumerate(transpose.getPermutation()))
          source[from] = index[to];
        return compute(transpose.getInput(), source);
      })
      .Case([&](SliceOp slice) -> Result {
        SmallVector<int64_t> source(index);
        for (auto [axis, at] : llvm::enumerate(source))
          if (at != any)
            at = slice.getStarts()[axis] + at * slice.getStrides()[axis];
        return compute(slice.getInput(), source);
      })
      .Case([&](CastOp cast) -> Result {
        auto from = compute(cast.getInput(), index);
        Type type = typeOf(cast).getElementType();
        if (!from || isa<FloatType>(type))
          return from;
        return type.isInteger(1) ? *from != 0 : std::trunc(*from);
      })
      .Case([&](NegOp neg) -> Result {
        auto from = compute(neg.getInput(), index);
        return from ? -*from : from;
      })
      .Case([&](NotOp no) -> Result {
        auto from = compute(no.getInput(), index);
        return from ? Result(*from == 0) : from;
      })
      .Case([&](SelectOp select) -> Result {
        auto condition = compute(select.getCondition(), index);
        if (!condition)
          return condition;
        return compute(*condition != 0 ? select.getWhenTrue()
                                       : select.getWhenFalse(),
                       index);
      })
      .Default([&](Operation *other) { return readBinary(other, index); });
}
