//===- EmitRandom.cpp - Philox4x32-10 -------------------------------------===//
//
// Salmon, Moraes, Dror and Shaw: Parallel random numbers: as easy as 1, 2, 3,
// SC 2011.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace pp;

static Value number(ImplicitLocOpBuilder &b, uint32_t value) {
  return arith::ConstantOp::create(
      b, b.getIntegerAttr(b.getI32Type(), static_cast<int32_t>(value)));
}

std::array<Value, 4> pp::emitPhilox(OpBuilder &builder, Location loc,
                                    std::array<Value, 4> counter,
                                    std::array<Value, 2> key) {
  ImplicitLocOpBuilder b(loc, builder);
  Value factor0 = number(b, 0xD2511F53), factor1 = number(b, 0xCD9E8D57);
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    auto first = arith::MulUIExtendedOp::create(b, factor0, counter[0]);
    auto second = arith::MulUIExtendedOp::create(b, factor1, counter[2]);
    auto mix = [&](Value high, Value word, Value ofKey) -> Value {
      return arith::XOrIOp::create(b, arith::XOrIOp::create(b, high, ofKey),
                                   word);
    };
    counter = {mix(second.getHigh(), counter[1], key[0]), second.getLow(),
               mix(first.getHigh(), counter[3], key[1]), first.getLow()};
    key = {arith::AddIOp::create(b, key[0], number(b, 0x9E3779B9)),
           arith::AddIOp::create(b, key[1], number(b, 0xBB67AE85))};
  }
  return counter;
}

Value pp::emitUnit(OpBuilder &builder, Location loc, Value word) {
  ImplicitLocOpBuilder b(loc, builder);
  Value high = arith::ShRUIOp::create(b, word, number(b, 8));
  Type real = b.getF32Type();
  Value scale = arith::ConstantOp::create(b, b.getFloatAttr(real, 0x1p-24));
  return arith::MulFOp::create(b, arith::SIToFPOp::create(b, real, high),
                               scale);
}

Value pp::emitUniform(OpBuilder &builder, Location loc, Value element,
                      int64_t elements, std::array<Value, 3> counter,
                      std::array<Value, 2> key) {
  ImplicitLocOpBuilder b(loc, builder);
  int64_t blocks = (elements + 3) / 4;
  auto isFrom = [&](int64_t word) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::uge, element,
                                 number(b, word * blocks));
  };
  auto select = [&](Value condition, Value x, Value y) -> Value {
    return arith::SelectOp::create(b, condition, x, y);
  };
  // Words that no element has are not asked for.
  SmallVector<Value> from;
  for (int64_t word = 1; word < 4 && word * blocks < elements; ++word)
    from.push_back(isFrom(word));
  Value start = number(b, 0);
  for (auto [word, condition] : llvm::enumerate(from))
    start = select(condition, number(b, (word + 1) * blocks), start);
  Value block = arith::SubIOp::create(b, element, start);
  auto words =
      emitPhilox(b, loc, {block, counter[0], counter[1], counter[2]}, key);
  Value word = words[0];
  for (auto [index, condition] : llvm::enumerate(from))
    word = select(condition, words[index + 1], word);
  return emitUnit(b, loc, word);
}
