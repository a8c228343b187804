//===- LowerStages.cpp - A function for each phase of each stage ----------===//

#include "LowerOptimizer.h"
#include "WeightSections.h"
#include "pp/Conversion/Passes.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Interfaces/CostOpInterface.h"
#include "pp/Interfaces/KernelOpInterface.h"
#include "pprt/pprt.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace pp {
#define GEN_PASS_DEF_LOWERSTAGES
#include "pp/Conversion/Passes.h.inc"
} // namespace pp

using namespace mlir;
using namespace pp;
using pipeline::Area;
using pipeline::BufferAttr;

namespace {

/// Fields of pp_phase_arguments, in order.
enum Field {
  fieldParameters,
  fieldBuffers,
  fieldGradients,
  fieldStatistics,
  fieldResiduals,
  fieldScratch,
  fieldPrepared,
  fieldInputs,
  fieldOutputs,
  fieldKernels,
  fieldIsProbed,
  fieldIsFirst,
  fieldPart,
  fieldParts,
  fieldTeam,
  fieldSamples,
};

class StageLowering {
public:
  StageLowering(ModuleOp module, ModuleOp code, bool markKernels)
      : module(module), code(code), builder(module.getContext()),
        pointer(LLVM::LLVMPointerType::get(module.getContext())),
        voidType(LLVM::LLVMVoidType::get(module.getContext())),
        markKernels(markKernels) {}

  LogicalResult run() {
    for (auto schedule : module.getOps<pipeline::ScheduleOp>())
      threads = schedule.getThreads();
    for (auto memory : module.getOps<pipeline::MemoryOp>())
      memories[memory.getStage()] = memory;
    for (Operation &op : *code.getBody())
      if (auto function = dyn_cast<LLVM::LLVMFuncOp>(op)) {
        functions[function.getSymName()] = function;
        if (function.isExternal())
          continue;
        function.setLinkage(LLVM::Linkage::Internal);
        // One body for all callers: the same bits wherever it is called from.
        function.setNoInline(true);
      }
    declareRuntime();
    bool ok = true;
    module.walk(
        [&](pipeline::StageOp stage) { ok &= succeeded(lowerStage(stage)); });
    if (Type element = findRounded())
      lowerRounding(module.getLoc(), code, cast<FloatType>(element));
    if (ok && functions.count(optimizerBlockFunctionName))
      return lowerOptimizer(module, code,
                            functions[optimizerBlockFunctionName]);
    return success(ok);
  }

private:
  /// Which threads have written since all of them met.
  enum class Writers { None, First, All };

  /// The type of what updates round; null if they round nothing.
  Type findRounded() {
    Type element;
    module.walk([&](KernelOpInterface kernel) {
      if (pipeline::isPreparedByUpdate(kernel))
        element = getElementTypeOrSelf(kernel->getResult(0).getType());
    });
    return element;
  }

  void declareRuntime() {
    builder.setInsertionPointToEnd(code.getBody());
    executeKernel = declare("pp_execute_kernel", {pointer, pointer, pointer});
    bool isTogether = llvm::any_of(memories, [](auto &entry) {
      return entry.second.getWeightsTogether().has_value();
    });
    if (isTogether) {
      Type number = builder.getI64Type();
      runTogether = declare("pp_run_together", {pointer, pointer});
      executeTogether =
          declare("pp_execute_together",
                  {pointer, pointer, pointer, pointer, number, pointer});
    }
    // An inference program has no update that could be held back.
    bool isTraining = module.lookupSymbol(nn::optimizerFunctionName);
    if (isTraining)
      probe = declare("pp_probe_kernel", {pointer, builder.getI64Type()});
    joinParts = functions.lookup(joinPartsFunctionName);
    if (threads > 1 && !joinParts)
      joinParts = declare(joinPartsFunctionName, {pointer});
    if (markKernels)
      mark = declare(markFunctionName, {builder.getI64Type()});
  }

  LLVM::LLVMFuncOp declare(StringRef name, ArrayRef<Type> arguments) {
    return LLVM::LLVMFuncOp::create(
        builder, code.getLoc(), name,
        LLVM::LLVMFunctionType::get(voidType, arguments));
  }

  //===--------------------------------------------------------------------===//
  // Stages
  //===--------------------------------------------------------------------===//

  LogicalResult lowerStage(pipeline::StageOp stage) {
    loc = stage.getLoc();
    auto found = memories.find(stage.getStage());
    if (found == memories.end() || !stage.getArgumentBuffers() ||
        !stage.getCopies())
      return stage.emitOpError("has no memory plan; run pp-plan-memory first");
    std::string name = ("stage" + llvm::Twine(stage.getStage()) + "_" +
                        llvm::StringRef(letterOf(stage.getPhase())))
                           .str();
    stageNumber = stage.getStage();
    values.clear();
    firstSums.clear();
    begun.clear();
    probes = 0;
    isProbed = stage.getPhase() != Phase::Prepare;

    Block &body = stage.getBody().front();
    for (auto [argument, buffer] : llvm::zip_equal(
             body.getArguments(),
             stage.getArgumentBuffersAttr().getAsRange<BufferAttr>()))
      values[argument] = buffer;
    if (found->second.getWritesGradients() && isBackward(stage.getPhase()))
      findFirstSums(stage);
    if (stage.getPhase() == Phase::BackwardWeight &&
        found->second.getWeightsTogether())
      return lowerTogether(stage, name);
    beginFunction(name, {pointer});
    for (Operation &op : body.without_terminator())
      if (failed(lowerOperation(&op)))
        return failure();
    callMark(-1);
    copyOutputs(stage);
    LLVM::ReturnOp::create(builder, loc, ValueRange());
    return success();
  }

  /// Starts a function whose first argument are those of the phase.
  LLVM::LLVMFuncOp beginFunction(const Twine &name, ArrayRef<Type> arguments) {
    builder.setInsertionPointToEnd(code.getBody());
    auto function = LLVM::LLVMFuncOp::create(
        builder, loc, name.str(),
        LLVM::LLVMFunctionType::get(voidType, arguments));
    // A long row of calls: there is nothing to gain, and some of LLVM's passes
    // take quadratic time on such a block.
    function.setOptimizeNone(true);
    function.setNoInline(true);
    Block *entry = function.addEntryBlock(builder);
    builder.setInsertionPointToStart(entry);
    base = entry->getArgument(0);
    fields.clear();
    numbers.clear();
    comparisons.clear();
    slots.clear();
    writers = Writers::None;
    return function;
  }

  //===--------------------------------------------------------------------===//
  // W of several micro-batches at once
  //===--------------------------------------------------------------------===//

  /// Each section is done for one micro-batch after the other before the next
  /// one begins, so that what it adds to need not leave the caches:
  ///
  ///   stage0_W:   run_together(stage0_W_0)      %g = matmul; accumulate %g
  ///               run_together(stage0_W_1)      add to @bias
  ///               execute_together(kernel)      a product that adds to @v
  ///
  /// A product that adds has them all at once (Kernel::executeTogether).
  LogicalResult lowerTogether(pipeline::StageOp stage,
                              const std::string &name) {
    if (!stage.getReturn().getValues().empty())
      return stage.emitOpError("returns values, but its memory says that it "
                               "takes several micro-batches together");
    struct Section {
      LLVM::LLVMFuncOp function;
      Operation *sum = nullptr; // alone, which has them all at once
    };
    SmallVector<Section> sections;
    for (auto kernel : stage.getBody().getOps<KernelOpInterface>())
      if (kernel.getKernelClass() == KernelClass::View &&
          failed(lowerOperation(kernel)))
        return failure(); // it says where its result lies
    for (ArrayRef<Operation *> section : findWeightSections(stage)) {
      std::string own = name + "_" + std::to_string(sections.size());
      Section &made = sections.emplace_back();
      if (section.size() == 1 && isSumOfLibrary(section.front())) {
        made.sum = section.front();
        made.function = beginFunction(own, {pointer, pointer});
        SmallVector<Value> tensors = tensorsOf(made.sum);
        Value array = builder.getBlock()->getArgument(1);
        for (auto [index, tensor] : llvm::enumerate(tensors))
          LLVM::StoreOp::create(builder, loc, tensor, element(array, index));
      } else {
        made.function = beginFunction(own, {pointer});
        // Others may still write for the micro-batch before.
        writers = Writers::All;
        for (Operation *op : section)
          if (failed(lowerOperation(op)))
            return failure();
        callMark(-1);
      }
      LLVM::ReturnOp::create(builder, loc, ValueRange());
      made.function.setLinkage(LLVM::Linkage::Internal);
    }
    beginFunction(name, {pointer});
    for (const Section &section : sections) {
      if (!section.sum) {
        LLVM::CallOp::create(builder, loc, runTogether,
                             ValueRange{base, addressOf(section.function)});
        writers = Writers::All;
      } else if (failed(callTogether(section.sum, section.function))) {
        return failure();
      }
    }
    callMark(-1);
    LLVM::ReturnOp::create(builder, loc, ValueRange());
    return success();
  }

  /// Whether all that an operation does is that the library adds to a gradient,
  /// in parts that no thread has to wait for: those of the first micro-batch
  /// are those of the others.
  bool isSumOfLibrary(Operation *op) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    if (!kernel || kernel.getKernelClass() != KernelClass::Library ||
        op->hasAttr(pipeline::launchAttrName) || op->getNumResults() != 0 ||
        kernel.getUpdatedStates().size() != 1 ||
        op->getNumOperands() >= PP_MOST_TENSORS)
      return false;
    auto first = op->getAttrOfType<IntegerAttr>(pipeline::firstLibraryAttrName);
    auto number = op->getAttrOfType<IntegerAttr>(pipeline::libraryAttrName);
    return !first || !number ||
           partsOf(first.getInt()) == partsOf(number.getInt());
  }

  LogicalResult callTogether(Operation *op, LLVM::LLVMFuncOp tensors) {
    FailureOr<bool> isDivided = isRunByAll(op);
    FailureOr<LibraryCall> call = libraryCallOf(op);
    if (failed(isDivided) || failed(call))
      return failure();
    joinBefore(*isDivided ? Writers::All : Writers::First);
    numberAndMark(op);
    LLVM::CallOp::create(
        builder, loc, executeTogether,
        ValueRange{
            base, kernelAt(call->kernel),
            call->first
                ? kernelAt(*call->first)
                : LLVM::ZeroOp::create(builder, loc, pointer).getResult(),
            addressOf(tensors), constant(op->getNumOperands() + 1),
            address(call->scratchpad)});
    callProbe(op);
    return success();
  }

  /// Values that must be in more than one place are copied at the end.
  void copyOutputs(pipeline::StageOp stage) {
    if (!stage.getCopiesAttr().empty())
      joinBefore(Writers::First);
    for (auto copy : stage.getCopiesAttr().getAsRange<pipeline::CopyAttr>()) {
      Value value = stage.getReturn().getValues()[copy.getResult()];
      Value from = address(values[value]), to = address(copy.getTo());
      if (copy.getKernel())
        execute(kernelAt(*copy.getKernel()), {from, to},
                LLVM::ZeroOp::create(builder, loc, pointer));
      else
        LLVM::MemcpyOp::create(
            builder, loc, to, from,
            inFirstPart(constant(getTensorBytes(value.getType())), constant(0)),
            /*isVolatile=*/false);
    }
  }

  LogicalResult lowerOperation(Operation *op) {
    auto kernel = dyn_cast<KernelOpInterface>(op);
    if (!kernel)
      return op->emitOpError("is not a kernel");
    auto buffers = op->getAttrOfType<ArrayAttr>(pipeline::buffersAttrName);
    for (auto [index, result] : llvm::enumerate(op->getResults())) {
      if (!buffers || buffers.size() <= index)
        return op->emitOpError("has no buffers; run pp-plan-memory first");
      values[result] = cast<BufferAttr>(buffers[index]);
    }
    if (kernel.getKernelClass() == KernelClass::View)
      return success();
    auto states = op->getAttrOfType<ArrayAttr>(pipeline::stateBuffersAttrName);
    if (kernel.getUpdatedStates().size() != (states ? states.size() : 0))
      return op->emitOpError("has no place for the states that it changes; run "
                             "pp-plan-memory first");
    FailureOr<bool> isDivided = isRunByAll(op);
    if (failed(isDivided))
      return failure();
    joinBefore(*isDivided ? Writers::All : Writers::First);
    numberAndMark(op);
    SmallVector<Value> arguments = tensorsOf(op);
    if (kernel.getKernelClass() == KernelClass::Library ||
        op->hasAttr(pipeline::launchAttrName))
      return callLibrary(op, arguments);
    LLVM::LLVMFuncOp callee = calleeOf(op);
    if (pipeline::isPreparedByUpdate(op))
      call(callee, arguments, *isDivided, ifFirst(callee, doNothing(callee)));
    else if (auto sum = firstSums.find(op); sum == firstSums.end())
      call(callee, arguments, *isDivided);
    else if (failed(callFirst(op, callee, sum->second, arguments, *isDivided)))
      return failure();
    callProbe(op);
    return success();
  }

  void numberAndMark(Operation *op) {
    if (markKernels)
      op->setAttr(pipeline::markAttrName, builder.getI64IntegerAttr(marks));
    markRun(op, marks++);
  }

  /// What the kernel of an operation is given.
  SmallVector<Value> tensorsOf(Operation *op) {
    SmallVector<Value> arguments, stateArguments;
    if (auto states =
            op->getAttrOfType<ArrayAttr>(pipeline::stateBuffersAttrName))
      for (auto state : states.getAsRange<BufferAttr>())
        stateArguments.push_back(address(state));
    for (Value operand : op->getOperands())
      arguments.push_back(address(values[operand]));
    for (Value result : op->getResults()) {
      Value place = address(values[result]);
      if (auto gradient = begun.find(result); gradient != begun.end())
        place = LLVM::SelectOp::create(builder, loc, isNotZero(fieldIsFirst),
                                       address(gradient->second), place);
      arguments.push_back(place);
    }
    if (readsSamples(op))
      arguments.push_back(field(fieldSamples));
    // A library takes what it adds to in place of a result, code that is
    // generated before the operands.
    bool isLibrary =
        cast<KernelOpInterface>(op).getKernelClass() == KernelClass::Library;
    arguments.insert(isLibrary ? arguments.end() : arguments.begin(),
                     stateArguments.begin(), stateArguments.end());
    return arguments;
  }

  //===--------------------------------------------------------------------===//
  // Several threads
  //===--------------------------------------------------------------------===//

  /// All threads of a stage run this function. `value` in the first of them,
  /// `other` in the others.
  Value inFirstPart(Value value, Value other) {
    if (threads == 1)
      return value;
    return LLVM::SelectOp::create(builder, loc, isNotZero(fieldPart), other,
                                  value);
  }

  /// Whether it takes how many samples there are.
  static bool readsSamples(Operation *op) {
    auto commit = dyn_cast<nn::CommitStatisticsOp>(op);
    return commit && commit.getSamples();
  }

  /// Null if there is none.
  LLVM::LLVMFuncOp calleeOf(Operation *op) {
    auto callee =
        op->getAttrOfType<FlatSymbolRefAttr>(pipeline::calleeAttrName);
    return callee ? functions.lookup(callee.getValue()) : LLVM::LLVMFuncOp();
  }

  /// What this entry of the stage's kernel table says of parts and threads;
  /// nothing if it has none.
  StringRef partsOf(int64_t kernel) {
    ArrayAttr kernels = memories[stageNumber].getKernels();
    if (kernel >= static_cast<int64_t>(kernels.size()))
      return {};
    StringRef text =
        cast<pipeline::KernelAttr>(kernels[kernel]).getDescriptor().getValue();
    size_t begin = text.find(" parts=");
    if (begin == StringRef::npos)
      return {};
    StringRef rest = text.drop_front(begin + 1);
    auto [parts, others] = rest.split(' ');
    return others.starts_with("threads=")
               ? rest.take_front(parts.size() + 1 +
                                 others.split(' ').first.size())
               : parts;
  }
  bool hasParts(int64_t kernel) { return !partsOf(kernel).empty(); }

  /// Whether each thread has its part of a kernel: pp-split-kernels has added
  /// arguments to its function, or the library's descriptor says so.
  FailureOr<bool> isRunByAll(Operation *op) {
    auto kernel = cast<KernelOpInterface>(op);
    if (kernel.getKernelClass() == KernelClass::Library ||
        op->hasAttr(pipeline::launchAttrName)) {
      auto number = op->getAttrOfType<IntegerAttr>(pipeline::libraryAttrName);
      ArrayAttr kernels = memories[stageNumber].getKernels();
      if (!number || number.getInt() >= static_cast<int64_t>(kernels.size()))
        return op->emitOpError(
            "has no library kernel; run pp-plan-memory first");
      return hasParts(number.getInt());
    }
    LLVM::LLVMFuncOp callee = calleeOf(op);
    if (!callee)
      return op->emitOpError("has no function; run nn-lower-kernels first");
    return callee.getNumArguments() !=
           op->getNumOperands() + op->getNumResults() +
               kernel.getUpdatedStates().size() + (readsSamples(op) ? 1 : 0);
  }

  /// Calls the function of a kernel, or `instead` where that is not null: one
  /// that is divided in every thread, another one in the first.
  void call(LLVM::LLVMFuncOp callee, ArrayRef<Value> arguments, bool isDivided,
            Value instead = {}) {
    SmallVector<Value> operands(arguments);
    if (isDivided) {
      bool isAlone = threads == 1;
      operands.append({base, isAlone ? constant(0) : number(fieldPart),
                       isAlone ? constant(1) : number(fieldParts)});
    }
    if (!instead && (isDivided || threads == 1)) {
      LLVM::CallOp::create(builder, loc, callee, operands);
      return;
    }
    Value function = instead ? instead : addressOf(callee);
    if (!isDivided && threads > 1)
      function = inFirstPart(function, addressOf(doNothing(callee)));
    operands.insert(operands.begin(), function);
    LLVM::CallOp::create(builder, loc, callee.getFunctionType(), operands);
  }

  /// Before `next` write: what other threads have written, all see from here
  /// on. What the first thread writes twice in a row, it sees without that.
  void joinBefore(Writers next) {
    bool isSeen = writers == Writers::None ||
                  (writers == Writers::First && next == Writers::First);
    writers = next;
    if (threads > 1 && !isSeen)
      LLVM::CallOp::create(builder, loc, joinParts, base);
  }

  //===--------------------------------------------------------------------===//
  // The first micro-batch of a step
  //===--------------------------------------------------------------------===//

  /// Nobody clears gradients: where an operation is the first one in B, or in W
  /// if B has none, that adds to a gradient, the first B or W of a step writes
  /// instead. What is added goes to the gradient at once, if nothing else reads
  /// it:
  ///
  ///   ┌ %g = kernel(...)           to the gradient     to scratch
  ///   └ accumulate %g into @w      nothing             gradient += scratch
  ///                                first W             all others
  ///
  /// A library kernel that adds has another one that writes for the first time.
  /// Otherwise the gradient is cleared before the addition.
  void findFirstSums(pipeline::StageOp stage) {
    DenseSet<std::pair<Attribute, int64_t>> known;
    if (stage.getPhase() == Phase::BackwardWeight)
      for (auto other :
           stage->getParentOfType<func::FuncOp>().getOps<pipeline::StageOp>())
        if (other.getStage() == stage.getStage() &&
            other.getPhase() == Phase::BackwardInput)
          for (auto kernel : other.getBody().getOps<KernelOpInterface>())
            for (const StateReference &state : kernel.getUpdatedStates())
              if (state.kind == StateKind::Gradient)
                known.insert({state.symbol, state.part});
    for (Operation &op : stage.getBody().front().without_terminator()) {
      auto kernel = dyn_cast<KernelOpInterface>(op);
      if (!kernel)
        continue;
      SmallVector<StateReference> states = kernel.getUpdatedStates();
      auto buffers =
          op.getAttrOfType<ArrayAttr>(pipeline::stateBuffersAttrName);
      if (!buffers || buffers.size() != states.size())
        continue; // refused when it is lowered
      for (auto [state, buffer] :
           llvm::zip(states, buffers.getAsRange<BufferAttr>()))
        if (state.kind == StateKind::Gradient &&
            known.insert({state.symbol, state.part}).second)
          firstSums[&op].push_back(
              {buffer, module.lookupSymbol<ml_program::GlobalOp>(
                           state.symbol.getAttr())});
      if (auto sum = dyn_cast<nn::AccumulateOp>(op);
          sum && firstSums.contains(&op))
        if (Value made = findMaker(sum.getValue()))
          begun[made] = firstSums[&op].front().first;
    }
  }

  /// The result of a kernel that nothing but a sum reads, and that lies in
  /// scratch memory; null if there is none.
  static Value findMaker(Value value) {
    while (value.hasOneUse()) {
      auto kernel = value.getDefiningOp<KernelOpInterface>();
      if (!kernel)
        return {};
      if (kernel.getKernelClass() == KernelClass::View) {
        if (kernel->getNumOperands() != 1)
          return {};
        value = kernel->getOperand(0);
        continue;
      }
      auto buffers =
          kernel->getAttrOfType<ArrayAttr>(pipeline::buffersAttrName);
      unsigned number = cast<OpResult>(value).getResultNumber();
      bool isScratch =
          buffers && number < buffers.size() &&
          cast<BufferAttr>(buffers[number]).getArea() == Area::Scratch;
      return isScratch ? value : Value();
    }
    return {};
  }

  /// Whether what `op` adds is in the gradient already in the first B or W.
  bool isLeftOut(Operation *op) {
    auto sum = dyn_cast<nn::AccumulateOp>(op);
    if (!sum || !firstSums.contains(op))
      return false;
    Value made = findMaker(sum.getValue());
    return made && begun.contains(made);
  }

  using Gradient = std::pair<BufferAttr, ml_program::GlobalOp>;

  LogicalResult callFirst(Operation *op, LLVM::LLVMFuncOp callee,
                          ArrayRef<Gradient> gradients,
                          ArrayRef<Value> arguments, bool isDivided) {
    if (isLeftOut(op)) {
      call(callee, arguments, isDivided, ifFirst(doNothing(callee), callee));
      return success();
    }
    Value zero = LLVM::ConstantOp::create(builder, loc, builder.getI8Type(), 0);
    for (auto [buffer, global] : gradients) {
      if (!global)
        return op->emitOpError("adds to the gradient of a symbol that is not "
                               "there");
      Value bytes = LLVM::SelectOp::create(
          builder, loc, isNotZero(fieldIsFirst),
          constant(static_cast<int64_t>(getTensorBytes(global.getType()))),
          constant(0));
      LLVM::MemsetOp::create(builder, loc, address(buffer), zero,
                             inFirstPart(bytes, constant(0)),
                             /*isVolatile=*/false);
    }
    // The first thread has cleared them.
    writers = Writers::First;
    joinBefore(isDivided ? Writers::All : Writers::First);
    call(callee, arguments, isDivided);
    return success();
  }

  /// `first` in the first micro-batch of a step, or in a P of parameters that
  /// no update made.
  Value ifFirst(LLVM::LLVMFuncOp first, LLVM::LLVMFuncOp other) {
    return LLVM::SelectOp::create(builder, loc, isNotZero(fieldIsFirst),
                                  addressOf(first), addressOf(other));
  }

  Value addressOf(LLVM::LLVMFuncOp function) {
    return LLVM::AddressOfOp::create(builder, loc, function);
  }

  /// A function with the type of `like` that does nothing.
  LLVM::LLVMFuncOp doNothing(LLVM::LLVMFuncOp like) {
    LLVM::LLVMFuncOp &function = nothing[like.getFunctionType()];
    if (function)
      return function;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(code.getBody());
    function = LLVM::LLVMFuncOp::create(
        builder, code.getLoc(), "nothing" + std::to_string(nothing.size() - 1),
        like.getFunctionType(), LLVM::Linkage::Internal);
    builder.setInsertionPointToStart(function.addEntryBlock(builder));
    LLVM::ReturnOp::create(builder, code.getLoc(), ValueRange());
    return function;
  }

  /// Lets the runtime look at what a kernel writes. Those of a GPU have not run
  /// yet when this is called, and are waited for where the runtime looks.
  void callProbe(Operation *op) {
    if (!probe || !isProbed)
      return;
    // What may not lie in its place is looked at when it has been added.
    if (llvm::any_of(op->getResults(),
                     [&](Value result) { return begun.contains(result); }))
      return;
    op->setAttr(pipeline::probeAttrName, builder.getI64IntegerAttr(probes));
    LLVM::CallOp::create(builder, loc, probe,
                         ValueRange{base, constant(probes++)});
  }

  /// A sum that is left out the first time has no run then, and neither has
  /// what the update has done.
  void markRun(Operation *op, int64_t number) {
    const bool isFirstOnly = pipeline::isPreparedByUpdate(op);
    if (!mark || (!isFirstOnly && !isLeftOut(op)))
      return callMark(number);
    Value marked = LLVM::SelectOp::create(builder, loc, isNotZero(fieldIsFirst),
                                          constant(isFirstOnly ? number : -1),
                                          constant(isFirstOnly ? -1 : number));
    LLVM::CallOp::create(builder, loc, mark, marked);
  }

  void callMark(int64_t number) {
    if (mark)
      LLVM::CallOp::create(builder, loc, mark, constant(number));
  }

  /// Entries of the stage's kernel table.
  struct LibraryCall {
    int64_t kernel;
    std::optional<int64_t> first; // where the first micro-batch writes
    BufferAttr scratchpad;
  };
  FailureOr<LibraryCall> libraryCallOf(Operation *op) {
    auto number = op->getAttrOfType<IntegerAttr>(pipeline::libraryAttrName);
    auto scratchpad =
        op->getAttrOfType<BufferAttr>(pipeline::scratchpadAttrName);
    if (!scratchpad)
      return op->emitOpError("has no library kernel; run pp-plan-memory first");
    LibraryCall call{number.getInt(), {}, scratchpad};
    if (firstSums.contains(op)) {
      auto first =
          op->getAttrOfType<IntegerAttr>(pipeline::firstLibraryAttrName);
      if (!first)
        return op->emitOpError("has no kernel for the first micro-batch; run "
                               "pp-plan-memory first");
      call.first = first.getInt();
    }
    return call;
  }

  LogicalResult callLibrary(Operation *op, ValueRange arguments) {
    FailureOr<LibraryCall> call = libraryCallOf(op);
    if (failed(call))
      return failure();
    Value handle = kernelAt(call->kernel);
    if (call->first)
      handle = LLVM::SelectOp::create(builder, loc, isNotZero(fieldIsFirst),
                                      kernelAt(*call->first), handle);
    execute(handle, arguments, address(call->scratchpad));
    callProbe(op);
    return success();
  }

  /// Entry `number` of the stage's kernel table.
  Value kernelAt(int64_t number) {
    return LLVM::LoadOp::create(builder, loc, pointer,
                                element(field(fieldKernels), number));
  }

  void execute(Value handle, ValueRange arguments, Value scratchpad) {
    Value array = tensorArray(arguments.size());
    for (auto [index, argument] : llvm::enumerate(arguments))
      LLVM::StoreOp::create(builder, loc, argument, element(array, index));
    LLVM::CallOp::create(builder, loc, executeKernel,
                         ValueRange{handle, array, scratchpad});
  }

  //===--------------------------------------------------------------------===//
  // Addresses
  //===--------------------------------------------------------------------===//

  Value constant(int64_t value) {
    return LLVM::ConstantOp::create(builder, loc, builder.getI64Type(),
                                    builder.getI64IntegerAttr(value));
  }
  /// The address of entry `index` of an array of pointers.
  Value element(Value array, int64_t index) {
    return LLVM::GEPOp::create(
        builder, loc, pointer, pointer, array,
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(index)});
  }
  Value field(Field number) {
    Value &value = fields[number];
    if (!value) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(builder.getBlock());
      value =
          LLVM::LoadOp::create(builder, loc, pointer, element(base, number));
    }
    return value;
  }
  /// A field that is a number.
  Value number(Field which) {
    Value &value = numbers[which];
    if (!value) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(builder.getBlock());
      value = LLVM::LoadOp::create(builder, loc, builder.getI64Type(),
                                   element(base, which));
    }
    return value;
  }
  /// Whether a field is a number other than 0.
  Value isNotZero(Field which) {
    Value &value = comparisons[which];
    if (!value) {
      Value loaded = number(which);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointAfterValue(loaded);
      value = LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne,
                                   loaded, constant(0));
    }
    return value;
  }
  /// Arrays for library calls, one for each number of tensors.
  Value tensorArray(size_t size) {
    Value &array = slots[size];
    if (!array) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(builder.getBlock());
      array = LLVM::AllocaOp::create(builder, loc, pointer, pointer,
                                     constant(size));
    }
    return array;
  }

  Value address(BufferAttr buffer) {
    auto inArea = [&](Field number) -> Value {
      return LLVM::GEPOp::create(
          builder, loc, pointer, builder.getI8Type(), field(number),
          ArrayRef<LLVM::GEPArg>{constant(buffer.getOffset())});
    };
    switch (buffer.getArea()) {
    case Area::Parameters:
      return inArea(fieldParameters);
    case Area::Buffers:
      return inArea(fieldBuffers);
    case Area::Gradients:
      return inArea(fieldGradients);
    case Area::Statistics:
      return inArea(fieldStatistics);
    case Area::Residuals:
      return inArea(fieldResiduals);
    case Area::Scratch:
      return inArea(fieldScratch);
    case Area::Prepared:
      return inArea(fieldPrepared);
    case Area::Input:
      return LLVM::LoadOp::create(
          builder, loc, pointer,
          element(field(fieldInputs), buffer.getOffset()));
    case Area::Output:
      return LLVM::LoadOp::create(
          builder, loc, pointer,
          element(field(fieldOutputs), buffer.getOffset()));
    }
    llvm_unreachable("unknown area");
  }

  ModuleOp module;
  ModuleOp code;
  OpBuilder builder;
  Type pointer;
  Type voidType;
  Location loc = builder.getUnknownLoc();
  bool markKernels;
  int64_t marks = 0;
  int64_t probes = 0; // of the phase
  /// What is made of finite parameters in P is looked at where it is read.
  bool isProbed = true;
  LLVM::LLVMFuncOp executeKernel, mark, probe, joinParts;
  /// Null if no W takes several micro-batches.
  LLVM::LLVMFuncOp runTogether, executeTogether;
  int64_t threads = 1; // of each rank
  uint64_t stageNumber = 0;
  Writers writers = Writers::None;
  // Of the phase, where it is W and writes gradients:
  /// What an operation is the first one to add to.
  DenseMap<Operation *, SmallVector<Gradient, 1>> firstSums;
  /// Where the first W puts a value instead of in scratch memory.
  DenseMap<Value, BufferAttr> begun;
  DenseMap<Type, LLVM::LLVMFuncOp> nothing;
  llvm::StringMap<LLVM::LLVMFuncOp> functions;
  DenseMap<int64_t, pipeline::MemoryOp> memories;
  Value base;
  DenseMap<int, Value> fields, numbers, comparisons;
  DenseMap<size_t, Value> slots;
  DenseMap<Value, BufferAttr> values;
};

struct LowerStages : pp::impl::LowerStagesBase<LowerStages> {
  using LowerStagesBase::LowerStagesBase;

  void runOnOperation() override {
    auto code = getOperation().lookupSymbol<ModuleOp>(codeModuleName);
    if (!code) {
      getOperation().emitError("has no module @code; run nn-lower-kernels");
      return signalPassFailure();
    }
    if (failed(StageLowering(getOperation(), code, markKernels).run()))
      signalPassFailure();
  }
};

} // namespace
