//===- MakePlan.cpp - The plan of a lowered program -----------------------===//

#include "pp/Target/MakePlan.h"
#include "WeightHashes.h"
#include "plan/PlanJson.h"
#include "pp/Conversion/Passes.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Interfaces/KernelOpInterface.h"
#include "pp/Planner/Schedule/Replicas.h"

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
  if (element.isInteger(64))
    return runtime::DataType::I64;
  if (element.isInteger(32))
    return runtime::DataType::I32;
  if (element.isInteger(1))
    return runtime::DataType::I1;
  return element.isUnsignedInteger(8) ? runtime::DataType::U8
                                      : runtime::DataType::I8;
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
  PlanMaker(ModuleOp module, StringRef model)
      : module(module), symbolTable(module) {
    plan.model = model;
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
    if (!step || !schedule || !schedule.getSlots() || memories.empty())
      return module.emitError("has no memory plan; run pp-plan-memory first");
    step.walk(
        [&](StageOp stage) { stages[stage.getStage()].push_back(stage); });
    makeHead();
    if (failed(makeWeights()) || failed(makeFeeds()) || failed(makeFetches()))
      return failure();
    if (optimizer)
      makeOptimizer();
    for (auto channel : module.getOps<ChannelOp>())
      plan.channels.push_back(makeChannel(channel));
    for (auto &[number, memory] : memories)
      if (failed(makeStage(number, memory)))
        return failure();
    if (failed(makeRanks()))
      return failure();
    makeKernelKeys();
    setHash();
    return std::move(plan);
  }

private:
  bool isTraining() const { return static_cast<bool>(optimizer); }

  void makeHead() {
    plan.mode = isTraining() ? "train" : "infer";
    if (auto hash = module->getAttrOfType<StringAttr>(modelHashAttrName))
      plan.modelHash = hash.getValue();
    plan.target = getTarget(module);
    plan.replicas = schedule.getReplicas();
    plan.microbatches = schedule.getMicrobatches() * plan.replicas;
    plan.batch = microbatchSize() * plan.microbatches;
    plan.schedule = schedule.getKind();
    plan.checkpoint = *parseCheckpointMode(schedule.getCheckpoint().str());
  }

  void setHash() {
    llvm::SHA256 sha;
    sha.update(runtime::toJson(plan));
    plan.hash =
        llvm::toHex(sha.final(), /*LowerCase=*/true).substr(0, hashDigits);
  }

  /// The cost key of each kernel that is marked, by its number.
  void makeKernelKeys() {
    module.walk([&](Operation *op) {
      auto mark = op->getAttrOfType<IntegerAttr>(markAttrName);
      if (!mark)
        return;
      plan.kernelKeys.resize(
          std::max<size_t>(plan.kernelKeys.size(), mark.getInt() + 1));
      plan.kernelKeys[mark.getInt()] = cast<KernelOpInterface>(op).getCostKey();
    });
  }

  int64_t microbatchSize() {
    for (Type type : step.getArgumentTypes())
      if (auto tensor = cast<RankedTensorType>(type); tensor.getRank() > 0)
        return tensor.getDimSize(0);
    return 1;
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
      auto role = step.getArgAttrOfType<StringAttr>(index, roleAttrName);
      // It comes after all that is fed.
      if (role && role.getValue() == lossScaleRole)
        continue;
      runtime::PlanPort port =
          makePort(step.getArgAttrOfType<StringAttr>(index, feedAttrName),
                   step.getFunctionType().getInput(index));
      port.role = role ? role.getValue() : "input";
      port.batched = !port.shape.empty();
      if (auto range =
              step.getArgAttrOfType<DenseI64ArrayAttr>(index, rangeAttrName))
        port.range.emplace(range[0], range[1]);
      if (auto ignored =
              step.getArgAttrOfType<IntegerAttr>(index, ignoreIndexAttrName))
        port.ignoreIndex = ignored.getInt();
      plan.feeds.push_back(std::move(port));
    }
    return success();
  }

  LogicalResult makeFetches() {
    for (unsigned index = 0; !isTraining() && index < step.getNumResults();
         ++index) {
      auto name = step.getResultAttrOfType<StringAttr>(index, fetchAttrName);
      runtime::PlanPort port =
          makePort(name, step.getFunctionType().getResult(index));
      port.batched =
          !port.shape.empty() && port.shape.front() == microbatchSize();
      if (!port.batched && plan.replicas > 1)
        return module.emitError()
               << "output " << name << " has no axis for the samples, so "
               << plan.replicas
               << " replicas cannot make it together; use --replicas=1";
      plan.fetches.push_back(std::move(port));
    }
    return success();
  }

  void makeOptimizer() {
    auto description =
        optimizer->getAttrOfType<DictionaryAttr>(pipeline::optimizerAttrName);
    plan.optimizer.kind = cast<StringAttr>(description.get("kind")).str();
    for (auto state :
         cast<ArrayAttr>(description.get("states")).getAsRange<StringAttr>())
      plan.optimizer.states.push_back(state.str());
    for (auto scalar : cast<ArrayAttr>(description.get("scalars"))
                           .getAsRange<DictionaryAttr>())
      plan.optimizer.scalars.push_back(makeScalar(scalar));
  }

  static runtime::PlanScalar makeScalar(DictionaryAttr description) {
    using Kind = runtime::PlanScalar::Kind;
    runtime::PlanScalar scalar;
    scalar.name = cast<StringAttr>(description.get("name")).str();
    for (auto [key, kind] :
         {std::pair("value", Kind::Value),
          std::pair("one_minus_power_of", Kind::OneMinusPowerOf),
          std::pair("is_first_step", Kind::IsFirstStep),
          std::pair("initial_scale", Kind::LossScale),
          std::pair("is_skipped", Kind::IsSkipped)}) {
      Attribute value = description.get(key);
      if (!value)
        continue;
      scalar.kind = kind;
      if (auto number = dyn_cast<FloatAttr>(value))
        scalar.value = number.getValueAsDouble();
      else if (auto base = dyn_cast<StringAttr>(value))
        scalar.baseOf = base.str();
    }
    return scalar;
  }

  /// The plan counts from the start of the stage's memory.
  uint64_t channelsOffset(int64_t stage) {
    auto area =
        cast<DictionaryAttr>(memories[stage].getAreas().get("channels"));
    return cast<IntegerAttr>(area.get("offset")).getInt();
  }

  runtime::PlanChannel makeChannel(ChannelOp op) {
    auto integer = [&](StringRef name) -> uint64_t {
      auto attribute = op->getAttrOfType<IntegerAttr>(name);
      return attribute ? attribute.getInt() : 0;
    };
    auto count = [](ArrayRef<int64_t> slots) -> unsigned {
      int64_t count = 0;
      for (int64_t slot : slots)
        count = std::max(count, slot + 1);
      return count;
    };
    auto type = cast<RankedTensorType>(op.getType());
    runtime::PlanChannel channel;
    auto name = op->getAttrOfType<StringAttr>("value");
    channel.name = (name ? name.getValue() : op.getSymName()).str();
    channel.kind = op.getKind();
    channel.from = op.getFrom();
    channel.to = op.getTo();
    channel.fromPhase = op.getFromPhase();
    channel.toPhase = op.getToPhase();
    channel.type = dataTypeOf(type.getElementType());
    channel.shape.assign(type.getShape().begin(), type.getShape().end());
    channel.bytes = getTensorBytes(type);
    channel.sendOffset = channelsOffset(op.getFrom()) + integer("send_offset");
    channel.receiveOffset =
        channelsOffset(op.getTo()) + integer("receive_offset");
    channel.sendSlots = count(op.getSendSlots());
    channel.receiveSlots = count(op.getReceiveSlots());
    channel.sendSlot.assign(op.getSendSlots().begin(), op.getSendSlots().end());
    channel.receiveSlot.assign(op.getReceiveSlots().begin(),
                               op.getReceiveSlots().end());
    channel.release = *parseActionKind(op.getRelease().str());
    return channel;
  }

  //===--------------------------------------------------------------------===//
  // Stages
  //===--------------------------------------------------------------------===//

  /// The predicted time of the kernels of a phase.
  double secondsOf(int64_t number, bool forward) {
    double seconds = 0;
    for (StageOp stage : stages[number]) {
      if ((stage.getPhase() == Phase::Forward) != forward ||
          stage.getPhase() == Phase::Update)
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
    stage.forwardSeconds = secondsOf(number, true);
    stage.backwardSeconds = secondsOf(number, false);
    stage.memoryBytes = memory.getTotal();
    makeAreas(stage.areas, memory);
    if (failed(makeTensors(stage.parameters, memory, "parameters")) ||
        failed(makeTensors(stage.buffers, memory, "buffers")))
      return failure();
    for (auto kernel : memory->getAttrOfType<ArrayAttr>("library")
                           .getAsRange<DictionaryAttr>())
      stage.kernels.push_back(
          {cast<StringAttr>(kernel.get("descriptor")).str(),
           static_cast<uint64_t>(
               cast<IntegerAttr>(kernel.get("scratchpad")).getInt())});
    auto kernel = [&](StringRef key) -> std::optional<unsigned> {
      if (auto number = memory->getAttrOfType<IntegerAttr>(key))
        return number.getInt();
      return std::nullopt;
    };
    stage.optimizerKernel = kernel("optimizer_kernel");
    stage.finiteKernel = kernel("finite_kernel");
    stage.finiteLossKernel = kernel("finite_loss_kernel");
    stage.lossScaleKernel = kernel("loss_scale_kernel");
    makePhases(stage, number, memory);
    return success();
  }

  static void makeAreas(runtime::PlanAreas &areas, MemoryOp memory) {
    auto get = [&](StringRef name, StringRef key) -> uint64_t {
      auto area = memory.getAreas().getAs<DictionaryAttr>(name);
      auto value = area ? area.getAs<IntegerAttr>(key) : IntegerAttr();
      return value ? value.getInt() : 0;
    };
    for (auto [name, area] :
         {std::pair("parameters", &areas.parameters),
          std::pair("gradients", &areas.gradients),
          std::pair("optimizer", &areas.optimizer),
          std::pair("buffers", &areas.buffers),
          std::pair("statistics", &areas.statistics),
          std::pair("residuals", &areas.residuals),
          std::pair("scratch", &areas.scratch),
          std::pair("channels", &areas.channels),
          std::pair("discard", &areas.discard), std::pair("loss", &areas.loss),
          std::pair("loss_scale", &areas.lossScale),
          std::pair("exchange", &areas.exchange)})
      *area = {get(name, "offset"), get(name, "bytes")};
    areas.residualSlots = get("residuals", "slots");
    areas.residualSlotBytes = get("residuals", "slot_bytes");
  }

  LogicalResult makeTensors(std::vector<runtime::PlanTensor> &tensors,
                            MemoryOp memory, StringRef area) {
    SmallVector<std::pair<int64_t, StringRef>> order;
    for (NamedAttribute entry :
         cast<DictionaryAttr>(memory.getSymbols().get(area)))
      order.push_back({cast<IntegerAttr>(entry.getValue()).getInt(),
                       entry.getName().getValue()});
    llvm::sort(order);
    for (auto [offset, name] : order) {
      auto global = symbolTable.lookup<ml_program::GlobalOp>(name);
      if (!global)
        return memory.emitOpError()
               << "places '" << name << "', which is no global of the program";
      auto type = cast<RankedTensorType>(global.getType());
      runtime::PlanTensor &tensor = tensors.emplace_back();
      tensor.name = name;
      tensor.type = dataTypeOf(type.getElementType());
      tensor.shape.assign(type.getShape().begin(), type.getShape().end());
      tensor.offset = offset;
      tensor.bytes = getTensorBytes(type);
      tensor.isMutable = area == "parameters" || global.getIsMutable();
      if (auto reason =
              global->getAttrOfType<StringAttr>(nn::trainingReasonAttrName);
          reason && isTraining())
        tensor.reason = reason.str();
      if (failed(makeSource(tensor.source, global.getValueAttr())))
        return failure();
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

  void makePhases(runtime::PlanStage &stage, int64_t number, MemoryOp memory) {
    for (unsigned p = 0; p < (isTraining() ? microbatchPhases : 1); ++p) {
      StageOp found;
      for (StageOp op : stages[number])
        if (op.getPhase() == static_cast<Phase>(p))
          found = op;
      runtime::PlanPhase &phase = stage.phases[p];
      phase.present = true;
      if (found) {
        phase.inputs = makeEnds(found, "pp.inputs");
        phase.outputs = makeEnds(found, "pp.outputs");
        if (isTraining())
          makeProbes(phase, found);
      }
      if (p != 0 || plan.checkpoint == CheckpointMode::Never)
        continue;
      for (auto offset : memory->getAttrOfType<ArrayAttr>("discards")
                             .getAsRange<IntegerAttr>())
        phase.discards.push_back(offset.getInt());
      phase.discardStatistics =
          memory->getAttrOfType<IntegerAttr>("discard_statistics").getInt();
    }
  }

  /// The floats that each kernel writes, for the search for the first one that
  /// is not finite.
  static void makeProbes(runtime::PlanPhase &phase, StageOp stage) {
    for (Operation &op : stage.getBody().front()) {
      if (!op.hasAttr(probeAttrName))
        continue;
      SmallVector<StringRef> names;
      nodeNames(&op, names);
      runtime::PlanProbe &probe = phase.probes.emplace_back();
      probe.node =
          (names.empty() ? op.getName().getStringRef() : names.front()).str();
      auto buffers = op.getAttrOfType<ArrayAttr>(buffersAttrName);
      for (auto [result, buffer] :
           llvm::zip(op.getResults(), buffers.getAsRange<BufferAttr>())) {
        auto type = cast<RankedTensorType>(result.getType());
        if (type.getElementType().isF32())
          probe.outputs.push_back(
              {buffer.getArea(), static_cast<uint64_t>(buffer.getOffset()),
               static_cast<uint64_t>(type.getNumElements())});
      }
    }
  }

  static std::vector<runtime::PlanReference> makeEnds(StageOp stage,
                                                      StringRef attribute) {
    using Kind = runtime::PlanReference::Kind;
    std::vector<runtime::PlanReference> ends;
    auto entries = stage->getAttrOfType<ArrayAttr>(attribute);
    if (!entries)
      return ends;
    for (auto entry : entries.getAsRange<DictionaryAttr>())
      for (auto [key, kind] :
           {std::pair("feed", Kind::Feed), std::pair("channel", Kind::Channel),
            std::pair("fetch", Kind::Fetch), std::pair("loss", Kind::Loss),
            std::pair("loss_scale", Kind::LossScale)})
        if (Attribute value = entry.get(key)) {
          bool isNumbered = kind != Kind::Loss && kind != Kind::LossScale;
          ends.push_back({kind, isNumbered
                                    ? static_cast<unsigned>(
                                          cast<IntegerAttr>(value).getInt())
                                    : 0});
        }
    return ends;
  }

  //===--------------------------------------------------------------------===//
  // Actions
  //===--------------------------------------------------------------------===//

  LogicalResult makeRanks() {
    std::vector<planner::Channel> channels;
    for (const runtime::PlanChannel &channel : plan.channels)
      channels.push_back({static_cast<int>(channel.from),
                          static_cast<int>(channel.to), channel.fromPhase,
                          channel.toPhase});
    std::string text;
    for (auto actions : schedule.getRanks().getAsRange<ArrayAttr>())
      text += llvm::join(actions.getAsValueRange<StringAttr>(), ",") + "\n";
    auto parsed = planner::parseSchedule(
        text, channels, planner::gradientGroups(plan.stages.size()));
    if (!parsed)
      return schedule.emitOpError() << parsed.error();
    for (auto [rank, actions] : llvm::enumerate(parsed->ranks)) {
      runtime::PlanRank &own = plan.ranks.emplace_back();
      auto slots = cast<ArrayAttr>((*schedule.getSlots())[rank])
                       .getAsRange<IntegerAttr>();
      for (auto [action, slot] : llvm::zip(actions, slots)) {
        if (action.kind == ActionKind::AllReduce)
          return schedule.emitOpError()
                 << "has the action '"
                 << planner::toString(action, parsed->channels)
                 << "', but the runtime adds up only the gradients of replicas";
        unsigned stage = action.stage;
        if (!llvm::is_contained(own.stages, stage))
          own.stages.push_back(stage);
        own.actions.push_back(
            {action.kind, stage,
             static_cast<unsigned>(std::max(action.channel, 0)),
             static_cast<unsigned>(std::max(action.microbatch, 0)),
             static_cast<unsigned>(std::max<int64_t>(slot.getInt(), 0))});
      }
    }
    return success();
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
  llvm::MapVector<StringRef, unsigned> weights;
  WeightHashes hashes;
};

} // namespace

FailureOr<runtime::Plan> pp::makePlan(ModuleOp module, StringRef model) {
  return PlanMaker(module, model).run();
}
