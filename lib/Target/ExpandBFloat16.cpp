//===- ExpandBFloat16.cpp -------------------------------------------------===//
#include "ExpandBFloat16.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace {

class Expansion {
public:
  Error run(Module &module);

  /// f64 to f32, to be rounded again.
  static Value *roundToOdd(IRBuilder<> &builder, Value *value);

private:
  /// Rewrites an instruction that computes with bf16; leaves others alone.
  Error expand(Instruction &instruction);
  /// Computes in f32 what the instruction computes in bf16.
  void widen(Instruction &instruction);
  /// Gives what moves bits the type of integers.
  void makeInteger(Instruction &instruction);

  /// A type like that of `value`, a vector if it is one.
  static Type *typeLike(Value *value, Type *element) {
    return value->getType()->getWithNewType(element);
  }
  static Type *single(Value *value) {
    return typeLike(value, Type::getFloatTy(value->getContext()));
  }
  static Type *integer(Value *value, unsigned bits) {
    return typeLike(value, Type::getIntNTy(value->getContext(), bits));
  }
  static bool isShort(Value *value) {
    return value->getType()->getScalarType()->isBFloatTy();
  }

  static Value *extend(IRBuilder<> &builder, Value *value);
  static Value *truncate(IRBuilder<> &builder, Value *value);
};

} // namespace

/// bf16 to f32.
Value *Expansion::extend(IRBuilder<> &builder, Value *value) {
  Value *bits = builder.CreateBitCast(value, integer(value, 16));
  bits = builder.CreateShl(builder.CreateZExt(bits, integer(value, 32)), 16);
  return builder.CreateBitCast(bits, single(value));
}

/// f64 to f32, so that rounding the result again to a shorter type is the same
/// as rounding once (Boldo and Melquiond, "Emulation of FMA and correctly
/// rounded sums: proved algorithms using rounding to odd", IEEE TC 57, 2008).
Value *Expansion::roundToOdd(IRBuilder<> &builder, Value *value) {
  Value *nearest = builder.CreateFPTrunc(value, single(value));
  Value *back = builder.CreateFPExt(nearest, value->getType());
  Value *bits = builder.CreateBitCast(nearest, integer(value, 32));
  auto magnitude = [&](Value *number) {
    return builder.CreateUnaryIntrinsic(Intrinsic::fabs, number);
  };
  Value *isAway = builder.CreateFCmpOGT(magnitude(back), magnitude(value));
  Value *odd = builder.CreateOr(
      builder.CreateSub(bits, builder.CreateZExt(isAway, bits->getType())),
      ConstantInt::get(bits->getType(), 1));
  Value *isInexact = builder.CreateFCmpONE(back, value);
  return builder.CreateBitCast(builder.CreateSelect(isInexact, odd, bits),
                               single(value));
}

/// f32 or f64 to bf16.
Value *Expansion::truncate(IRBuilder<> &builder, Value *value) {
  if (value->getType()->getScalarType()->isDoubleTy())
    value = roundToOdd(builder, value);
  Type *wide = integer(value, 32);
  auto number = [&](uint64_t bits) { return ConstantInt::get(wide, bits); };
  Value *bits = builder.CreateBitCast(value, wide);
  Value *last = builder.CreateAnd(builder.CreateLShr(bits, 16), number(1));
  Value *rounded =
      builder.CreateAdd(bits, builder.CreateAdd(last, number(0x7fff)));
  Value *isNaN = builder.CreateFCmpUNO(value, value);
  Value *quiet = builder.CreateOr(bits, number(0x400000));
  Value *result = builder.CreateLShr(
      builder.CreateSelect(isNaN, quiet, rounded), number(16));
  result = builder.CreateTrunc(result, integer(value, 16));
  return builder.CreateBitCast(
      result, typeLike(value, Type::getBFloatTy(value->getContext())));
}

void Expansion::widen(Instruction &instruction) {
  IRBuilder<> builder(&instruction);
  if (auto *flags = dyn_cast<FPMathOperator>(&instruction))
    builder.setFastMathFlags(flags->getFastMathFlags());
  Instruction *wide = instruction.clone();
  for (Use &operand : wide->operands())
    if (isShort(operand))
      operand.set(extend(builder, operand));
  Value *result = wide;
  if (isShort(&instruction))
    wide->mutateType(single(&instruction));
  if (auto *call = dyn_cast<IntrinsicInst>(wide))
    call->setCalledFunction(Intrinsic::getOrInsertDeclaration(
        instruction.getModule(), call->getIntrinsicID(),
        {single(&instruction)}));
  builder.Insert(wide);
  if (isShort(&instruction))
    result = truncate(builder, wide);
  instruction.replaceAllUsesWith(result);
  instruction.eraseFromParent();
}

/// Intrinsics of LLVM that map one type of number to itself.
static bool isMath(const IntrinsicInst &call) {
  switch (call.getIntrinsicID()) {
  case Intrinsic::fabs:
  case Intrinsic::fma:
  case Intrinsic::fmuladd:
  case Intrinsic::sqrt:
  case Intrinsic::minnum:
  case Intrinsic::maxnum:
  case Intrinsic::minimum:
  case Intrinsic::maximum:
  case Intrinsic::copysign:
  case Intrinsic::floor:
  case Intrinsic::ceil:
  case Intrinsic::trunc:
  case Intrinsic::rint:
  case Intrinsic::roundeven:
    return true;
  default:
    return false;
  }
}

Error Expansion::expand(Instruction &instruction) {
  bool isUsed = isShort(&instruction);
  for (Value *operand : instruction.operands())
    isUsed |= isShort(operand);
  if (!isUsed)
    return Error::success();
  IRBuilder<> builder(&instruction);
  auto replace = [&](Value *value) {
    instruction.replaceAllUsesWith(value);
    instruction.eraseFromParent();
    return Error::success();
  };
  switch (instruction.getOpcode()) {
  // These move bits.
  case Instruction::Load:
  case Instruction::Store:
  case Instruction::PHI:
  case Instruction::Select:
  case Instruction::BitCast:
  case Instruction::ExtractElement:
  case Instruction::InsertElement:
  case Instruction::ShuffleVector:
  case Instruction::Freeze:
    return Error::success();
  case Instruction::FPExt: {
    Value *wide = extend(builder, instruction.getOperand(0));
    return replace(wide->getType() == instruction.getType()
                       ? wide
                       : builder.CreateFPExt(wide, instruction.getType()));
  }
  case Instruction::FPTrunc:
    return replace(truncate(builder, instruction.getOperand(0)));
  case Instruction::SIToFP:
  case Instruction::UIToFP: {
    // Exact in f64, but for the last bits of 64.
    Type *wide = typeLike(&instruction, builder.getDoubleTy());
    auto opcode = static_cast<CastInst *>(&instruction)->getOpcode();
    return replace(truncate(
        builder, builder.CreateCast(opcode, instruction.getOperand(0), wide)));
  }
  case Instruction::FPToSI:
  case Instruction::FPToUI:
    instruction.setOperand(0, extend(builder, instruction.getOperand(0)));
    return Error::success();
  case Instruction::FAdd:
  case Instruction::FSub:
  case Instruction::FMul:
  case Instruction::FDiv:
  case Instruction::FRem:
  case Instruction::FNeg:
  case Instruction::FCmp:
    widen(instruction);
    return Error::success();
  case Instruction::Call:
    if (auto *call = dyn_cast<IntrinsicInst>(&instruction)) {
      if (call->getIntrinsicID() == Intrinsic::masked_load ||
          call->getIntrinsicID() == Intrinsic::masked_store)
        return Error::success();
      if (isMath(*call)) {
        widen(instruction);
        return Error::success();
      }
    }
    break;
  default:
    break;
  }
  std::string text;
  raw_string_ostream(text) << instruction;
  return createStringError("no code is made in bf16 for '%s'",
                           StringRef(text).trim().str().c_str());
}

void Expansion::makeInteger(Instruction &instruction) {
  for (Use &operand : instruction.operands())
    if (auto *constant = dyn_cast<Constant>(operand))
      if (isShort(constant))
        operand.set(ConstantExpr::getBitCast(constant, integer(constant, 16)));
  if (isShort(&instruction))
    instruction.mutateType(integer(&instruction, 16));
  auto *call = dyn_cast<IntrinsicInst>(&instruction);
  if (!call)
    return;
  if (call->getIntrinsicID() == Intrinsic::masked_load)
    call->setCalledFunction(Intrinsic::getOrInsertDeclaration(
        call->getModule(), Intrinsic::masked_load,
        {call->getType(), call->getArgOperand(0)->getType()}));
  if (call->getIntrinsicID() == Intrinsic::masked_store)
    call->setCalledFunction(Intrinsic::getOrInsertDeclaration(
        call->getModule(), Intrinsic::masked_store,
        {call->getArgOperand(0)->getType(),
         call->getArgOperand(1)->getType()}));
}

Error Expansion::run(Module &module) {
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    SmallVector<Instruction *> all;
    for (Instruction &instruction : instructions(function))
      all.push_back(&instruction);
    for (Instruction *instruction : all)
      if (Error error = expand(*instruction))
        return error;
    for (Instruction &instruction : instructions(function))
      makeInteger(instruction);
  }
  return Error::success();
}

Error pp::expandBFloat16(Module &module) { return Expansion().run(module); }
