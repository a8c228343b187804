//===- Step.h - What a step is ----------------------------------*- C++ -*-===//
//
// The dialect between that of the operations (nn) and that of the pipeline
// (pp), which know nothing of each other. Step.td has a table of the
// attributes.
//
//===----------------------------------------------------------------------===//

#ifndef PP_INTERFACES_STEP_H
#define PP_INTERFACES_STEP_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"

#include "pp/Interfaces/PlanEnums.h"

#include "pp/Interfaces/StepDialect.h.inc"
#include "pp/Interfaces/StepEnums.h.inc"

namespace pp::step {
using pp::Phase;
} // namespace pp::step

#define GET_ATTRDEF_CLASSES
#include "pp/Interfaces/StepAttrs.h.inc"

namespace pp::step {

inline constexpr llvm::StringLiteral phaseAttrName = "step.phase";
inline constexpr llvm::StringLiteral originAttrName = "step.origin";
/// The stage that the model's author asked for.
inline constexpr llvm::StringLiteral stageHintAttrName = "step.stage_hint";
/// On kernels of the phase prepare that only round a parameter: the update
/// writes that with the parameter.
inline constexpr llvm::StringLiteral preparedByUpdateAttrName =
    "step.prepared_by_update";
/// On function arguments: the name under which the value is fed.
inline constexpr llvm::StringLiteral feedAttrName = "step.feed";
/// On function arguments: a #step.role. The loss weight is the reciprocal of
/// the number of labels in a mini-batch that count, or what these count
/// together. The sample mask is 1 for each sample of a micro-batch, and 0 in
/// the rows behind the last one. The random counter is four i32 for each
/// micro-batch: the two halves of the seed, the lower one first, the number of
/// the step, and that of the micro-batch's first sample in the step.
inline constexpr llvm::StringLiteral roleAttrName = "step.role";
/// On function arguments: the smallest and the largest number that the caller
/// may feed, or these two for each element of a sample where they differ; and
/// the number beside them that is left out of the loss.
inline constexpr llvm::StringLiteral rangeAttrName = "step.range";
inline constexpr llvm::StringLiteral ignoreIndexAttrName = "step.ignore_index";
/// On function arguments, labels from 0: what each of them counts in the loss.
inline constexpr llvm::StringLiteral classWeightsAttrName =
    "step.class_weights";
/// On a loss weight, where there are several targets: the name of those whose
/// labels it counts.
inline constexpr llvm::StringLiteral countedAttrName = "step.counted";
/// On targets, where the model has several outputs: the one they are compared
/// with.
inline constexpr llvm::StringLiteral comparedAttrName = "step.compared";
/// On function results: the name under which the value is fetched, or "loss".
inline constexpr llvm::StringLiteral fetchAttrName = "step.fetch";
/// On function arguments and results: axis 0 has the samples.
inline constexpr llvm::StringLiteral batchedAttrName = "step.batched";
/// On function results that got an axis 0 of samples: where the model has
/// them, as the axis, outer and inner of a BatchPosition.
inline constexpr llvm::StringLiteral samplesAttrName = "step.samples";
/// On function results: those of the micro-batches add up to that of the
/// mini-batch.
inline constexpr llvm::StringLiteral addedAttrName = "step.added";
/// On the function of a step: which operation makes a sample's result depend on
/// the others of its micro-batch.
inline constexpr llvm::StringLiteral mixesSamplesAttrName =
    "step.mixes_samples";
/// On the function of a step: why it must be given a whole mini-batch. Without
/// it, what is in a row behind the last sample changes nothing of the others,
/// and the loss leaves it out.
inline constexpr llvm::StringLiteral wholeBatchesAttrName =
    "step.whole_batches";
/// On the function that updates parameters: what it takes.
inline constexpr llvm::StringLiteral optimizerAttrName = "step.optimizer";

/// The phase of an operation; forward where none is stated.
Phase getPhase(mlir::Operation *op);
void setPhase(mlir::Operation *op, Phase phase);

/// What an argument is for; an input where nothing is stated.
Role getRole(mlir::func::FuncOp function, unsigned argument);

/// The words of an argument of the role `random_counter`; docs/runtime.md says
/// what the first four are for.
enum class CounterWord { SeedLow, SeedHigh, Step, FirstSample, Samples };
inline constexpr int64_t counterWords = 5;

/// The function's argument of the role `random_counter`; a last one of that
/// name is made where there is none. Fails with an error, where another
/// argument has the name.
llvm::FailureOr<mlir::BlockArgument>
getRandomCounter(mlir::func::FuncOp function);

/// Samples in one run of the function: axis 0 of its first batched argument;
/// nothing if it has none.
std::optional<int64_t> getBatchSize(mlir::func::FuncOp function);

/// The type of the parameters that a function with `optimizerAttrName` updates.
mlir::FloatType getOptimizedType(mlir::func::FuncOp optimizer);

/// What may stand under a name, for the tables of dialects.
struct KnownAttribute {
  llvm::StringRef name;
  bool (*holds)(mlir::Attribute value);
  /// What it should be, for messages.
  llvm::StringRef what;
};

/// Refuses an attribute that no entry of `known` has, which would be read by
/// nobody, and one that does not hold what the entry says. `where` is said in
/// the error after the name.
mlir::LogicalResult verifyKnown(mlir::Operation *op,
                                llvm::ArrayRef<KnownAttribute> known,
                                mlir::NamedAttribute attribute,
                                llvm::StringRef where = "");

/// Predicates for such tables.
bool isCount(mlir::Attribute value);
template <typename AttrT> bool isA(mlir::Attribute value) {
  return mlir::isa<AttrT>(value);
}
template <typename AttrT> bool isListOf(mlir::Attribute value) {
  auto array = mlir::dyn_cast<mlir::ArrayAttr>(value);
  return array && llvm::all_of(array, llvm::IsaPred<AttrT>);
}
inline constexpr llvm::StringLiteral countText = "a number from 0 on";

} // namespace pp::step

#endif // PP_INTERFACES_STEP_H
