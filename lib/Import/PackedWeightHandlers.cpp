//===- PackedWeightHandlers.cpp - Products with weights of few bits -------===//
//
// MatMulNBits of com.microsoft (docs/ContribOperators.md of ONNX Runtime's
// repository): a * transposed B, where row n of B has blocks of numbers with a
// scale and a zero point each, several numbers in a byte, lowest bits first.
//
//===----------------------------------------------------------------------===//

#include "Expressions.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

namespace {

/// How B is packed.
struct Packing {
  int64_t bits, rows, columns, block;

  int64_t blocks() const { return llvm::divideCeil(columns, block); }
  int64_t blockBytes() const { return block * bits / 8; }
  /// Of the zero points of a row.
  int64_t zeroBytes() const { return llvm::divideCeil(blocks() * bits, 8); }
};

/// The numbers of `bits` bits in the last axis of bytes, lowest bits first.
Value unpackBits(NodeImporter &n, Value bytes, int64_t bits) {
  Expressions e{n};
  int64_t perByte = 8 / bits;
  if (perByte == 1)
    return bytes;
  SmallVector<int64_t> shape(n.shape(bytes)), single(shape);
  single.push_back(1);
  SmallVector<Value> parts;
  for (int64_t i = 0; i < perByte; ++i) {
    Value shifted =
        i == 0
            ? bytes
            : e.div(bytes, e.number(bytes, static_cast<double>(1 << bits * i)));
    Value mask = e.number(bytes, static_cast<double>((1 << bits) - 1));
    parts.push_back(n.reshape(e.both(shifted, mask), single));
  }
  Value all = n.make<ConcatOp>(parts, static_cast<int64_t>(shape.size()));
  shape.back() *= perByte;
  return n.reshape(all, shape);
}

/// B in the type of its scales.
Value unpackMatrix(NodeImporter &n, const Packing &packing) {
  Value b = n.tensor(1), scales = n.tensor(2);
  Expressions e{n};
  const auto [bits, rows, columns, block] = packing;
  const int64_t blocks = packing.blocks();
  SmallVector<int64_t> wide = {rows, blocks, block};
  auto spread = [&](Value ofBlocks) {
    Value cells = n.reshape(ofBlocks, {rows, blocks});
    return n.make<BroadcastOp>(n.type(cells).clone(wide), cells,
                               ArrayRef<int64_t>{0, 1});
  };
  Type element = n.type(scales).getElementType();
  Value numbers =
      unpackBits(n, n.reshape(b, {rows, blocks, packing.blockBytes()}), bits);
  Value centred = n.cast(numbers, element);
  if (n.hasInput(3)) {
    Value zeros = n.tensor(3);
    if (!isa<FloatType>(n.type(zeros).getElementType())) {
      zeros =
          unpackBits(n, n.reshape(zeros, {rows, packing.zeroBytes()}), bits);
      zeros = n.slice(zeros, 1, 0, blocks);
    }
    centred = e.sub(centred, spread(n.cast(zeros, element)));
  } else {
    centred = e.add(centred, -static_cast<double>(1 << (bits - 1)));
  }
  Value matrix =
      n.reshape(e.mul(centred, spread(scales)), {rows, blocks * block});
  return blocks * block > columns ? n.slice(matrix, 1, 0, columns) : matrix;
}

/// The product by a kernel that unpacks numbers where it multiplies them; null
/// where there is none. Nothing is trained through it.
Value multiplyBlocks(NodeImporter &n, Value a, const Packing &packing) {
  auto isOf = [&](size_t input, onnx::DataType type) {
    return NodeImporter::dataType(n.input(input)) == type;
  };
  constexpr int64_t unit = 32;
  const bool hasZeros = n.hasInput(3);
  if (!n.getOptions().hasBlockProducts || n.isTraining() || packing.bits != 4 ||
      packing.block % unit != 0 || !n.type(a).getElementType().isF32() ||
      !isOf(1, onnx::DataType::UInt8) ||
      (hasZeros && !isOf(3, onnx::DataType::UInt8)))
    return nullptr;
  auto bytesOf = [&](size_t input, ArrayRef<int64_t> shape) {
    return n.reshape(n.valueOf(n.input(input)), shape);
  };
  SmallVector<int64_t> shape(n.shape(a));
  shape.back() = packing.rows;
  return n.make<BlockProductOp>(
      n.type(a).clone(shape), a,
      bytesOf(1, {packing.rows, packing.blocks(), packing.blockBytes()}),
      n.reshape(n.tensor(2), {packing.rows, packing.blocks()}),
      hasZeros ? bytesOf(3, {packing.rows, packing.zeroBytes()}) : Value());
}

/// Whether the inputs that say what B is have as many elements as they must.
bool fitsPacking(NodeImporter &n, const Packing &packing) {
  const int64_t blocks = packing.rows * packing.blocks();
  Value b = n.tensor(1), scales = n.tensor(2);
  return n.type(b).getNumElements() == blocks * packing.blockBytes() &&
         n.type(scales).getNumElements() == blocks;
}

LogicalResult matMulNBits(NodeImporter &n) {
  if (n.hasInput(4))
    return n.error("input #4 (g_idx) is not supported");
  if (n.attribute("weight_prepacked", int64_t{0}) != 0)
    return n.error("attribute weight_prepacked is not supported");
  // How exact it has to be; it is computed in f32.
  n.ignoreAttribute("accuracy_level");
  const Packing packing = {
      n.attribute("bits", int64_t{4}), n.attribute("N", int64_t{0}),
      n.attribute("K", int64_t{0}), n.attribute("block_size", int64_t{0})};
  const auto [bits, rows, columns, block] = packing;
  if (!llvm::is_contained({2, 4, 8}, bits))
    return n.error("attribute bits is " + llvm::Twine(bits) +
                   "; it may be 2, 4 or 8");
  if (rows < 1 || columns < 1 || block < 1 || rows > maxElements ||
      columns > maxElements || block > maxElements || block * bits % 8 != 0)
    return n.error("attributes N, K and block_size are " + llvm::Twine(rows) +
                   ", " + llvm::Twine(columns) + " and " + llvm::Twine(block));
  Value a = n.tensor(0);
  if (!a || !n.tensor(1) || !n.tensor(2))
    return failure();
  if (isTooLarge({rows, packing.blocks(), block}))
    return n.error("has a matrix of more than " + llvm::Twine(maxElements) +
                   " elements");
  SmallVector<int64_t> shape(n.shape(a));
  if (shape.empty() || shape.back() != columns || !fitsPacking(n, packing))
    return n.error("has inputs that do not fit N, K and block_size");
  if (n.hasInput(3)) {
    Value zeros = n.tensor(3);
    if (!zeros)
      return failure();
    const bool isPacked = !isa<FloatType>(n.type(zeros).getElementType());
    if (n.type(zeros).getNumElements() !=
        rows * (isPacked ? packing.zeroBytes() : packing.blocks()))
      return n.error("has zero_points that do not fit its blocks");
  }
  shape.back() = rows;
  Value y = multiplyBlocks(n, a, packing);
  if (!y) {
    Value matrix = n.cast(unpackMatrix(n, packing), n.type(a).getElementType());
    y = n.make<DotGeneralOp>(n.type(a).clone(shape), a, matrix,
                             ArrayRef<int64_t>(), ArrayRef<int64_t>(),
                             static_cast<int64_t>(shape.size()) - 1,
                             int64_t{1});
  }
  if (n.hasInput(5)) {
    Value bias = n.tensor(5);
    if (!bias)
      return failure();
    if (n.shape(bias) != ArrayRef<int64_t>{rows})
      return n.error("has a bias that is not one for each column");
    y = Expressions{n}.add(y, n.broadcastTo(bias, shape));
  }
  n.setOutput(0, y);
  return success();
}

} // namespace

ArrayRef<ImportedOperator> pp::packedWeightOperators() {
  static const ImportedOperator entries[] = {
      {.name = "com.microsoft.MatMulNBits",
       .handler = matMulNBits,
       .types = floatTypes,
       .note = "`bits` is 2, 4 or 8; without `g_idx`"},
  };
  return entries;
}
