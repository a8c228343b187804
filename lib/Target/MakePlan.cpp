//===- MakePlan.cpp - The plan of a lowered program -----------------------===//

#include "pp/Target/MakePlan.h"
#include "WeightHashes.h"
#include "plan/PlanJson.h"
#include "pp/Conversion/Passes.h"
#include "pp/Dialect/NN/IR/MergedTensors.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Dialect/PP/Transforms/Ties.h"
#include "pp/Interfaces/CostFile.h"
#include "pp/Interfaces/KernelOpInterface.h"
#include "pp/Planner/Schedule/Rolling.h"

#include "pprt/pprt.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

runtime::DataType dataTypeOf(Type element) {
  if (element.isF32())
    return runtime::DataType::F32;
  if (element.isBF16())
    return runtime::DataType::BF16;
  if (element.isF16())
    return runtime::DataType::F16;
  if (element.isF64())
    return runtime::DataType::F64;
  bool isUnsigned = element.isUnsignedInteger();
  switch (element.getIntOrFloatBitWidth()) {
  case 64:
    return isUnsigned ? runtime::DataType::U64 : runtime::DataType::I64;
  case 32:
    return isUnsigned ? runtime::DataType::U32 : runtime::DataType::I32;
  case 16:
    return isUnsigned ? runtime::DataType::U16 : runtime::DataType::I16;
  case 8:
    return isUnsigned ? runtime::DataType::U8 : runtime::DataType::I8;
  default:
    return runtime::DataType::I1;
  }
}

/// Little-endian bytes, i1 as a byte.
std::string bytesOf(DenseElementsAttr dense) {
  std::string bytes;
  auto append = [&](const APInt &bits) {
    unsigned count = (bits.getBitWidth() + 7) / 8;
    for (unsigned i = 0; i < count; ++i) {
      unsigned width = std::min(8u, bits.getBitWidth() - 8 * i);
      bytes.push_back(
          static_cast<char>(bits.extractBitsAsZExtValue(width, 8 * i)));
    }
  };
  if (isa<FloatType>(dense.getElementType()))
    for (const APFloat &value : dense.getValues<APFloat>())
      append(value.bitcastToAPInt());
  else
    for (const APInt &value : dense.getValues<APInt>())
      append(value);
  return bytes;
}

/// The value of all elements, where a double holds it.
std::optional<double> splatOf(DenseElementsAttr dense) {
  if (!dense.isSplat() || dense.getNumElements() < 2)
    return std::nullopt;
  if (isa<FloatType>(dense.getElementType())) {
    double value = dense.getSplatValue<APFloat>().convertToDouble();
    // JSON has no others, and -0.0 is another number than 0.
    bool isPlain = std::isfinite(value) && !(value == 0 && std::signbit(value));
    return isPlain ? std::optional(value) : std::nullopt;
  }
  auto value = dense.getSplatValue<APInt>();
  if (value.getSignificantBits() > 52)
    return std::nullopt;
  bool isSigned = dense.getElementType().isSignlessInteger() &&
                  !dense.getElementType().isInteger(1);
  return isSigned ? static_cast<double>(value.getSExtValue())
                  : static_cast<double>(value.getZExtValue());
}

class PlanMaker {
public:
  PlanMaker(ModuleOp module, StringRef model,
            const std::optional<runtime::PlanBucket> &bucket)
      : module(module), symbolTable(module) {
    plan.model = model;
    plan.bucket = bucket;
  }

  FailureOr<runtime::Plan> run() {
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.getName() == nn::optimizerFunctionName)
        optimizer = function;
      else
        step = function;
    }
    for (auto found : module.getOps<ScheduleOp>())
      schedule = found;
    for (auto memory : module.getOps<MemoryOp>())
      memories[memory.getStage()] = memory;
    if (!step || !schedule || memories.empty())
      return module.emitError("has no memory plan; run pp-plan-memory first");
    if (auto numbers = schedule.getStageReplicas();
        numbers && numbers->size() != memories.size())
      return schedule.emitOpError(
          "has not a number of replicas for each stage");
    step.walk(
        [&](StageOp stage) { stages[stage.getStage()].push_back(stage); });
    makeHead();
    if (failed(makeWeights()) || failed(makeFeeds()) || failed(makeFetches()))
      return failure();
    if (optimizer && failed(makeOptimizer()))
      return failure();
    for (auto channel : module.getOps<ChannelOp>())
      if (failed(makeChannel(channel)))
        return failure();
    for (auto &[number, memory] : memories)
      if (failed(makeStage(number, memory)))
        return failure();
    makeRanks();
    if (failed(makeTies()) || failed(makeMarks()))
      return failure();
    setHash();
    return std::move(plan);
  }

private:
  bool isTraining() const { return static_cast<bool>(optimizer); }

  void makeHead() {
    plan.mode = isTraining() ? "train" : "infer";
    if (auto hash = module->getAttrOfType<StringAttr>(modelHashAttrName))
      plan.modelHash = hash.getValue();
    plan.target = getTarget(module).str();
    plan.replicas = schedule.getReplicas();
    if (auto numbers = schedule.getStageReplicas())
      plan.stageReplicas.assign(numbers->begin(), numbers->end());
    plan.threads = schedule.getThreads();
    if (schedule.getLanes() > 1)
      plan.gradientLanes = schedule.getLanes();
    plan.microbatches = schedule.getMicrobatches() * plan.replicas;
    plan.batch = step::getBatchSize(step).value_or(1) * plan.microbatches;
    plan.schedule = schedule.getKind();
    plan.checkpoint = schedule.getCheckpoint();
    plan.flushes = !schedule.getVersions();
    if (std::optional<uint64_t> distance = schedule.getClockDistance())
      plan.clockDistance = static_cast<unsigned>(*distance);
    if (auto why = step->getAttrOfType<StringAttr>(step::wholeBatchesAttrName))
      plan.wholeBatches = why.getValue();
  }

  void setHash() {
    llvm::SHA256 sha;
    sha.update(runtime::toJson(plan));
    plan.hash =
        llvm::toHex(sha.final(), /*LowerCase=*/true).substr(0, hashDigits);
  }

  /// The names of the operations in a kernel, without those that only say where
  /// values are.
  static std::string operationsOf(Operation *op) {
    SmallVector<StringRef> names;
    op->walk([&](Operation *inner) {
      bool isShown = inner->getNumRegions() == 0 &&
                     !inner->hasTrait<OpTrait::IsTerminator>() &&
                     !inner->hasTrait<OpTrait::ConstantLike>();
      if (isShown)
        names.push_back(inner->getName().stripDialect());
    });
    return llvm::join(names, "+");
  }

  /// Where each part of the gradient of a tied parameter lies.
  LogicalResult makeTies() {
    auto ties = findTiedParameters(module, step);
    if (failed(ties))
      return failure();
    // Places for parts of other stages are at the end of the area.
    std::map<int64_t, int64_t> remote;
    for (const TiedParameter &tie : *ties)
      for (size_t part = 0; part < tie.stages.size(); ++part)
        if (tie.isRemote(part))
          remote[tie.home()] += llvm::alignTo(tie.bytes, PP_ALIGNMENT);
    std::map<std::pair<StringRef, int64_t>, int64_t> offsets;
    step.walk([&](Operation *op) {
      auto kernel = dyn_cast<KernelOpInterface>(op);
      auto buffers = op->getAttrOfType<ArrayAttr>(stateBuffersAttrName);
      if (kernel && buffers)
        for (auto [state, buffer] : llvm::zip(kernel.getUpdatedStates(),
                                              buffers.getAsRange<BufferAttr>()))
          if (state.kind == StateKind::Gradient)
            offsets[{state.symbol.getValue(), state.part}] = buffer.getOffset();
    });
    for (const TiedParameter &tie : *ties) {
      runtime::PlanTie &entry = plan.ties.emplace_back();
      entry.name = tie.symbol.getValue();
      entry.bytes = tie.bytes;
      for (auto [part, stage] : llvm::enumerate(tie.stages)) {
        MemoryOp memory = memories[stage];
        runtime::PlanTie::Part &own = entry.parts.emplace_back();
        own.stage = stage;
        own.offset = memory.getArea(MemoryArea::Gradients).getOffset() +
                     offsets.at({tie.symbol.getValue(), part});
        if (!tie.isRemote(part))
          continue;
        AreaRangeAttr area = memories[tie.home()].getArea(MemoryArea::Exchange);
        int64_t &left = remote[tie.home()];
        own.place = area.getOffset() + area.getBytes() - left;
        left -= llvm::alignTo(tie.bytes, PP_ALIGNMENT);
      }
    }
    return success();
  }

  /// Each kernel that is marked, by its number.
  LogicalResult makeMarks() {
    WalkResult result = module.walk([&](KernelOpInterface op) {
      auto mark = op->getAttrOfType<IntegerAttr>(markAttrName);
      if (!mark)
        return WalkResult::advance();
      if (mark.getInt() > largestActionNumber)
        return WalkResult(op->emitOpError()
                          << "has the number " << mark.getInt()
                          << ", which is too large");
      plan.marks.resize(std::max<size_t>(plan.marks.size(), mark.getInt() + 1));
      runtime::PlanMark &entry = plan.marks[mark.getInt()];
      entry.key = CostFile::keyIn(plan.threads, op.getCostKey());
      entry.operations = operationsOf(op);
      SmallVector<StringRef> names;
      nodeNames(op, names);
      if (!names.empty())
        entry.node = names.front();
      if (auto cost = op->getAttrOfType<CostAttr>(costAttrName)) {
        entry.flops = cost.getFlops();
        entry.bytes = cost.getBytesRead() + cost.getBytesWritten();
      }
      return WalkResult::advance();
    });
    return success(!result.wasInterrupted());
  }

  /// Files that hold parameters, in the order of the globals.
  LogicalResult makeWeights() {
    for (auto global : module.getOps<ml_program::GlobalOp>())
      if (auto external =
              dyn_cast_or_null<nn::ExternalAttr>(global.getValueAttr()))
        weights.insert({external.getFile().getValue(), weights.size()});
    for (auto &[file, index] : weights) {
      SmallString<128> path(file);
      if (std::error_code error = llvm::sys::fs::make_absolute(path))
        return module.emitError() << "cannot find the folder of '" << file
                                  << "': " << error.message();
      llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
      uint64_t size = 0;
      if (llvm::sys::fs::file_size(path, size))
        return module.emitError()
               << "cannot find the weights in '" << path << "'";
      plan.weights.push_back(std::string(path));
      plan.weightsBytes.push_back(size);
    }
    return success();
  }

  static runtime::PlanPort makePort(StringAttr name, Type type) {
    auto tensor = cast<RankedTensorType>(type);
    runtime::PlanPort port;
    port.name = name ? name.getValue().str() : "";
    port.type = dataTypeOf(tensor.getElementType());
    port.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
    port.bytes = getTensorBytes(tensor);
    return port;
  }

  LogicalResult makeFeeds() {
    for (unsigned index = 0; index < step.getNumArguments(); ++index) {
      step::Role role = step::getRole(step, index);
      // It comes after all that is fed.
      if (role == step::Role::LossScale)
        continue;
      runtime::PlanPort port =
          makePort(step.getArgAttrOfType<StringAttr>(index, step::feedAttrName),
                   step.getFunctionType().getInput(index));
      port.role = stringifyRole(role);
      port.batched = step.getArgAttr(index, step::batchedAttrName) != nullptr;
      if (auto range = step.getArgAttrOfType<DenseI64ArrayAttr>(
              index, step::rangeAttrName))
        port.range = range.asArrayRef();
      if (auto ignored = step.getArgAttrOfType<IntegerAttr>(
              index, step::ignoreIndexAttrName))
        port.ignoreIndex = ignored.getInt();
      if (auto weights = step.getArgAttrOfType<DenseF64ArrayAttr>(
              index, step::classWeightsAttrName))
        port.classWeights = weights.asArrayRef();
      if (auto counted =
              step.getArgAttrOfType<StringAttr>(index, step::countedAttrName))
        port.counted = counted.str();
      if (auto compared =
              step.getArgAttrOfType<StringAttr>(index, step::comparedAttrName))
        port.compared = compared.str();
      plan.feeds.push_back(std::move(port));
    }
    return success();
  }

  /// Of the stage that makes the output.
  int64_t replicasOfOutput(unsigned index) {
    int64_t replicas = schedule.getReplicas();
    for (auto &[number, phases] : stages)
      for (StageOp stage : phases)
        for (unsigned result = 0; result < stage.getNumResults(); ++result)
          for (Attribute target : stage.getTargetsOf(result))
            if (auto end = cast<EndAttr>(target);
                end.getKind() == EndKind::Fetch && end.getNumber() == index)
              replicas = schedule.getReplicasOf(number);
    return replicas;
  }

  LogicalResult makeFetches() {
    for (unsigned index = 0; !isTraining() && index < step.getNumResults();
         ++index) {
      auto name =
          step.getResultAttrOfType<StringAttr>(index, step::fetchAttrName);
      runtime::PlanPort port =
          makePort(name, step.getFunctionType().getResult(index));
      port.batched =
          step.getResultAttr(index, step::batchedAttrName) != nullptr;
      if (auto samples = step.getResultAttrOfType<DenseI64ArrayAttr>(
              index, step::samplesAttrName))
        port.samples = {samples[0], samples[1], samples[2]};
      int64_t replicas = replicasOfOutput(index);
      if (!port.batched && replicas > 1)
        return module.emitError()
               << "output " << name << " has no axis for the samples, so "
               << replicas
               << " replicas cannot make it together; use --replicas=1";
      plan.fetches.push_back(std::move(port));
    }
    return success();
  }

  LogicalResult makeOptimizer() {
    auto description =
        optimizer->getAttrOfType<step::OptimizerAttr>(step::optimizerAttrName);
    if (!description)
      return optimizer.emitError()
             << "has no '" << step::optimizerAttrName << "'";
    plan.optimizer.kind = description.getKind().str();
    plan.optimizer.type = dataTypeOf(step::getOptimizedType(optimizer));
    for (auto state : description.getStates().getAsRange<StringAttr>())
      plan.optimizer.states.push_back(state.str());
    for (auto scalar : description.getScalars().getAsRange<step::ScalarAttr>())
      plan.optimizer.scalars.push_back(makeScalar(scalar));
    return success();
  }

  static runtime::PlanScalar makeScalar(step::ScalarAttr description) {
    runtime::PlanScalar scalar;
    scalar.name = description.getName().str();
    scalar.kind = kindOf(description.getKind());
    if (auto number = dyn_cast_or_null<FloatAttr>(description.getValue()))
      scalar.value = number.getValueAsDouble();
    else if (auto base = dyn_cast_or_null<StringAttr>(description.getValue()))
      scalar.baseOf = base.str();
    return scalar;
  }

  static runtime::PlanScalar::Kind kindOf(step::ScalarKind kind) {
    using Kind = runtime::PlanScalar::Kind;
    switch (kind) {
    case step::ScalarKind::Value:
      return Kind::Value;
    case step::ScalarKind::OneMinusPowerOf:
      return Kind::OneMinusPowerOf;
    case step::ScalarKind::PowerOfStep:
      return Kind::PowerOfStep;
    case step::ScalarKind::IsFirstStep:
      return Kind::IsFirstStep;
    case step::ScalarKind::LossScale:
      return Kind::LossScale;
    case step::ScalarKind::IsSkipped:
      return Kind::IsSkipped;
    }
    llvm_unreachable("unknown kind of a scalar");
  }

  LogicalResult makeChannel(ChannelOp op) {
    if (!op.isPlaced() || !memories.contains(op.getFrom()) ||
        !memories.contains(op.getTo()))
      return op.emitOpError() << "'" << op.getSymName()
                              << "' has no slots; run pp-plan-memory first";
    // The plan counts from the start of the stage's memory.
    auto offsetOf = [&](int64_t stage, std::optional<uint64_t> offset) {
      AreaRangeAttr area = memories[stage].getArea(MemoryArea::Channels);
      return static_cast<uint64_t>(area.getOffset()) + offset.value_or(0);
    };
    auto assign = [](std::vector<unsigned> &to, unsigned &count,
                     std::optional<ArrayRef<int64_t>> slots) {
      count = 0;
      for (int64_t slot : slots.value_or(ArrayRef<int64_t>())) {
        to.push_back(static_cast<unsigned>(slot));
        count = std::max(count, to.back() + 1);
      }
    };
    RankedTensorType type = op.getType();
    runtime::PlanChannel &channel = plan.channels.emplace_back();
    channelNumbers[op.getSymNameAttr()] = plan.channels.size() - 1;
    channel.name = op.getValue().str();
    channel.kind = stringifyChannelKind(op.getKind());
    channel.from = op.getFrom();
    channel.to = op.getTo();
    channel.fromPhase = op.getFromPhase();
    channel.toPhase = op.getToPhase();
    channel.type = dataTypeOf(type.getElementType());
    channel.shape.assign(type.getShape().begin(), type.getShape().end());
    channel.bytes = getTensorBytes(type);
    channel.sendOffset = offsetOf(op.getFrom(), op.getSendOffset());
    channel.receiveOffset = offsetOf(op.getTo(), op.getReceiveOffset());
    assign(channel.sendSlot, channel.sendSlots, op.getSendSlots());
    assign(channel.receiveSlot, channel.receiveSlots, op.getReceiveSlots());
    channel.release = *op.getRelease();
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Stages
  //===--------------------------------------------------------------------===//

  /// The predicted time of the kernels of these phases.
  double secondsOf(int64_t number, ArrayRef<Phase> phases) {
    double seconds = 0;
    for (StageOp stage : stages[number]) {
      if (!llvm::is_contained(phases, stage.getPhase()))
        continue;
      for (Operation &op : stage.getBody().front())
        if (auto cost = op.getAttrOfType<CostAttr>(costAttrName))
          seconds += cost.getSeconds().getValueAsDouble();
    }
    return seconds;
  }

  static void nodeNames(Operation *op, SmallVectorImpl<StringRef> &names) {
    op->getLoc()->walk([&](Location loc) {
      if (auto name = dyn_cast<NameLoc>(loc))
        names.push_back(name.getName());
      return WalkResult::advance();
    });
  }

  /// Where passes read the newest weights, whatever they are; else 0.
  double delayOf(int64_t number) {
    if (planner::weightRuleOf(schedule.getKind()) !=
        planner::WeightRule::Latest)
      return 0;
    planner::Schedule outline;
    outline.stages = static_cast<int>(memories.size());
    outline.microbatches = static_cast<int>(schedule.getMicrobatches());
    return planner::gradientDelay(outline, planner::WeightRule::Latest,
                                  static_cast<int>(number));
  }

  LogicalResult makeStage(int64_t number, MemoryOp memory) {
    runtime::PlanStage &stage = plan.stages.emplace_back();
    stage.name = "stage" + std::to_string(number);
    SmallVector<StringRef> nodes;
    for (StageOp op : stages[number])
      if (op.getPhase() == Phase::Forward)
        for (Operation &inner : op.getBody().front())
          if (inner.hasAttr(costAttrName))
            nodeNames(&inner, nodes);
    stage.nodes = {nodes.empty() ? "" : nodes.front().str(),
                   nodes.empty() ? "" : nodes.back().str()};
    stage.forwardSeconds = secondsOf(number, Phase::Forward);
    stage.backwardSeconds =
        secondsOf(number, {Phase::BackwardInput, Phase::BackwardWeight});
    stage.prepareSeconds = secondsOf(number, Phase::Prepare);
    stage.writesGradients = memory.getWritesGradients();
    stage.weightsTogether =
        static_cast<unsigned>(memory.getWeightsTogether().value_or(1));
    if (auto versions = schedule.getVersions())
      stage.versions = static_cast<unsigned>((*versions)[number]);
    stage.readsNewest = planner::weightRuleOf(schedule.getKind()) ==
                        planner::WeightRule::Latest;
    stage.delay = delayOf(number);
    if (auto correction = schedule.getCorrection(); stage.delay > 0)
      stage.correction = correction ? correction->convertToDouble() : 0;
    stage.prepares = llvm::any_of(stages[number], [](StageOp op) {
      return op.getPhase() == Phase::Prepare;
    });
    stage.memoryBytes = memory.getTotal();
    makeAreas(stage.areas, memory);
    if (failed(makeTensors(stage.parameters, memory.getParameters(), true)) ||
        failed(makeTensors(stage.buffers, memory.getBuffers(), false)))
      return failure();
    for (auto kernel : memory.getKernels().getAsRange<KernelAttr>())
      stage.kernels.push_back({kernel.getDescriptor().str(),
                               static_cast<uint64_t>(kernel.getScratchpad())});
    stage.optimizerKernel = memory.getOptimizerKernel();
    findPrepared(stage, number);
    stage.finiteKernel = memory.getFiniteKernel();
    stage.finiteLossKernel = memory.getFiniteLossKernel();
    stage.lossScaleKernel = memory.getLossScaleKernel();
    return makePhases(stage, number, memory);
  }

  static void makeAreas(runtime::PlanAreas &areas, MemoryOp memory) {
    for (const runtime::PlanAreas::Named &named : runtime::PlanAreas::all)
      if (auto area = symbolizeMemoryArea(named.name)) {
        AreaRangeAttr range = memory.getArea(*area);
        areas.*named.area = {static_cast<uint64_t>(range.getOffset()),
                             static_cast<uint64_t>(range.getBytes())};
      }
    areas.residualSlots = memory.getSlots();
    areas.residualSlotBytes = memory.getSlotBytes();
  }

  /// Where the update leaves parameters in 16 bits.
  void findPrepared(runtime::PlanStage &stage, int64_t number) {
    for (StageOp phase : stages[number])
      for (auto kernel : phase.getBody().getOps<KernelOpInterface>()) {
        if (!isPreparedByUpdate(kernel))
          continue;
        auto parameter =
            kernel->getOperand(0).getDefiningOp<KernelOpInterface>();
        StringRef name = parameter.getParameter().getValue();
        auto found = llvm::find_if(stage.parameters,
                                   [&](const runtime::PlanTensor &tensor) {
                                     return tensor.name == name;
                                   });
        auto buffers = kernel->getAttrOfType<ArrayAttr>(buffersAttrName);
        found->prepared = cast<BufferAttr>(buffers[0]).getOffset();
      }
  }

  LogicalResult makeTensors(std::vector<runtime::PlanTensor> &tensors,
                            ArrayAttr places, bool areTrained) {
    for (auto place : places.getAsRange<PlaceAttr>()) {
      StringRef name = place.getSymbol().getValue();
      auto global = symbolTable.lookup<ml_program::GlobalOp>(name);
      auto type = cast<RankedTensorType>(global.getType());
      runtime::PlanTensor &tensor = tensors.emplace_back();
      tensor.name = name;
      tensor.type = dataTypeOf(type.getElementType());
      tensor.shape.assign(type.getShape().begin(), type.getShape().end());
      tensor.offset = place.getOffset();
      tensor.bytes = getTensorBytes(type);
      tensor.isMutable = areTrained || global.getIsMutable();
      if (auto reason =
              global->getAttrOfType<StringAttr>(nn::trainingReasonAttrName);
          reason && isTraining())
        tensor.reason = reason.str();
      if (failed(makeSource(tensor.source, global.getValueAttr())))
        return failure();
      auto readers =
          global->getAttrOfType<DenseI64ArrayAttr>(nn::readersAttrName);
      for (int64_t i = 0; isTraining() && readers && i + 1 < readers.size();
           i += 2)
        tensor.source.readers.emplace_back(readers[i], readers[i + 1]);
      if (auto external =
              dyn_cast_or_null<nn::ExternalAttr>(global.getValueAttr());
          external && external.getType() != type)
        tensor.source.stored =
            dataTypeOf(getElementTypeOrSelf(external.getType()));
    }
    return success();
  }

  LogicalResult makeSource(runtime::PlanSource &source, Attribute value) {
    if (auto external = dyn_cast_or_null<nn::ExternalAttr>(value)) {
      StringRef file = external.getFile().getValue();
      source.kind = runtime::PlanSource::Kind::File;
      source.file = weights[file];
      source.offset = external.getOffset();
      source.isTransposed = external.getTransposed();
      auto hash = hashes.get(file, external.getOffset(), external.getBytes());
      if (!hash)
        return module.emitError()
               << "cannot read " << external.getBytes()
               << " bytes of weights at " << external.getOffset() << " in '"
               << file << "': " << hash.getError().message();
      source.hash = *hash;
      return success();
    }
    auto dense = dyn_cast_or_null<DenseElementsAttr>(value);
    if (!dense)
      return module.emitError("has a parameter without an initial value");
    if (std::optional<double> splat = splatOf(dense)) {
      source.kind = runtime::PlanSource::Kind::Splat;
      source.splat = *splat;
    } else {
      source.kind = runtime::PlanSource::Kind::Bytes;
      source.bytes = bytesOf(dense);
    }
    return success();
  }

  LogicalResult makePhases(runtime::PlanStage &stage, int64_t number,
                           MemoryOp memory) {
    for (unsigned p = 0; p < (isTraining() ? microbatchPhases : 1); ++p) {
      StageOp found;
      for (StageOp op : stages[number])
        if (op.getPhase() == static_cast<Phase>(p))
          found = op;
      runtime::PlanPhase &phase = stage.phases[p];
      phase.present = true;
      if (found) {
        if (failed(makeEnds(phase, found)))
          return failure();
        if (isTraining() && failed(makeProbes(phase, found)))
          return failure();
      }
      if (p != 0 || plan.checkpoint == CheckpointMode::Never)
        continue;
      phase.discards.assign(memory.getDiscards().begin(),
                            memory.getDiscards().end());
      phase.discardStatistics = memory.getDiscardStatistics();
    }
    return success();
  }

  /// The floats that each kernel writes, for the search for the first one that
  /// is not finite.
  LogicalResult makeProbes(runtime::PlanPhase &phase, StageOp stage) {
    for (Operation &op : stage.getBody().front()) {
      auto number = op.getAttrOfType<IntegerAttr>(probeAttrName);
      if (!number)
        continue;
      if (number.getInt() > largestActionNumber)
        return op.emitOpError() << "has the number " << number.getInt()
                                << ", which is too large";
      SmallVector<StringRef> names;
      nodeNames(&op, names);
      phase.probes.resize(
          std::max<size_t>(phase.probes.size(), number.getInt() + 1));
      runtime::PlanProbe &probe = phase.probes[number.getInt()];
      probe.node =
          (names.empty() ? op.getName().getStringRef() : names.front()).str();
      auto buffers = op.getAttrOfType<ArrayAttr>(buffersAttrName);
      if (!buffers || buffers.size() != op.getNumResults())
        return op.emitOpError("has no buffers; run pp-plan-memory first");
      for (auto [result, buffer] :
           llvm::zip(op.getResults(), buffers.getAsRange<BufferAttr>())) {
        auto type = cast<RankedTensorType>(result.getType());
        addProbe(probe, type, buffer);
      }
      if (failed(probeGradients(probe, &op)))
        return failure();
    }
    return success();
  }

  /// What an operation adds to is looked at after the addition.
  LogicalResult probeGradients(runtime::PlanProbe &probe, Operation *op) {
    SmallVector<StateReference> states =
        cast<KernelOpInterface>(op).getUpdatedStates();
    auto buffers = op->getAttrOfType<ArrayAttr>(stateBuffersAttrName);
    if ((buffers ? buffers.size() : 0) != states.size())
      return op->emitOpError("has no place for the states that it changes; run "
                             "pp-plan-memory first");
    for (auto [index, state] : llvm::enumerate(states)) {
      auto buffer = cast<BufferAttr>(buffers[index]);
      auto global =
          symbolTable.lookup<ml_program::GlobalOp>(state.symbol.getValue());
      auto type = cast<RankedTensorType>(global.getType());
      if (state.kind == StateKind::Gradient)
        addProbe(probe, type, buffer);
    }
    return success();
  }

  void addProbe(runtime::PlanProbe &probe, RankedTensorType type,
                BufferAttr buffer) {
    if (isa<FloatType>(type.getElementType()))
      probe.outputs.push_back({dataTypeOf(type.getElementType()),
                               buffer.getArea(),
                               static_cast<uint64_t>(buffer.getOffset()),
                               static_cast<uint64_t>(type.getNumElements())});
  }

  LogicalResult makeEnds(runtime::PlanPhase &phase, StageOp stage) {
    if (!stage.getSources())
      return stage.emitOpError(
          "names no channels; run pp-insert-transfers first");
    for (auto source : stage.getSourcesAttr().getAsRange<EndAttr>())
      if (source.isHanded())
        phase.inputs.push_back(referenceTo(source));
    for (unsigned result = 0; result < stage.getNumResults(); ++result)
      for (Attribute target : stage.getTargetsOf(result))
        phase.outputs.push_back(referenceTo(cast<EndAttr>(target)));
    return success();
  }

  runtime::PlanReference referenceTo(EndAttr end) {
    using Kind = runtime::PlanReference::Kind;
    auto number = static_cast<unsigned>(end.getNumber());
    switch (end.getKind()) {
    case EndKind::Channel:
      return {Kind::Channel, channelNumbers.at(end.getChannel().getAttr())};
    case EndKind::Feed:
      return {Kind::Feed, number};
    case EndKind::Fetch:
      return {Kind::Fetch, number};
    case EndKind::Loss:
      return {Kind::Loss, 0};
    case EndKind::LossScale:
      return {Kind::LossScale, 0};
    case EndKind::Residual:
    case EndKind::Prepared:
      break;
    }
    llvm_unreachable("what a stage has left is no reference");
  }

  //===--------------------------------------------------------------------===//
  // Actions
  //===--------------------------------------------------------------------===//

  void makeRanks() {
    for (auto actions : schedule.getRanks().getAsRange<ArrayAttr>()) {
      runtime::PlanRank &own = plan.ranks.emplace_back();
      for (auto action : actions.getAsRange<ActionAttr>()) {
        auto stage = static_cast<unsigned>(action.getStage());
        if (!llvm::is_contained(own.stages, stage))
          own.stages.push_back(stage);
        FlatSymbolRefAttr channel = action.getChannel();
        own.actions.push_back(
            {action.getKind(), stage,
             channel ? channelNumbers.at(channel.getAttr()) : 0,
             static_cast<unsigned>(std::max(action.getMicrobatch(), 0)),
             static_cast<unsigned>(action.getSlot().value_or(0)),
             static_cast<unsigned>(action.getLag()), action.getVersion()});
      }
    }
  }

  /// Enough to tell the plans of a user apart.
  static constexpr size_t hashDigits = 16;

  ModuleOp module;
  SymbolTable symbolTable;
  runtime::Plan plan;
  func::FuncOp step, optimizer;
  ScheduleOp schedule;
  std::map<int64_t, MemoryOp> memories;
  std::map<int64_t, SmallVector<StageOp>> stages;
  DenseMap<StringAttr, unsigned> channelNumbers;
  llvm::MapVector<StringRef, unsigned> weights;
  WeightHashes hashes;
};

} // namespace

FailureOr<runtime::Plan>
pp::makePlan(ModuleOp module, StringRef model,
             const std::optional<runtime::PlanBucket> &bucket) {
  return PlanMaker(module, model, bucket).run();
}
