//===- PlanWriter.cpp - The plan of a lowered program ---------------------===//

#include "pp/Target/PlanWriter.h"
#include "WeightHashes.h"
#include "pp/Conversion/Passes.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Dialect/NN/Transforms/Passes.h"
#include "pp/Dialect/PP/IR/PP.h"
#include "pp/Interfaces/KernelOpInterface.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace pp;
using namespace pp::pipeline;

namespace {

StringRef dtypeOf(Type element) {
  if (element.isF32())
    return "f32";
  if (element.isBF16())
    return "bf16";
  if (element.isF16())
    return "f16";
  if (element.isF64())
    return "f64";
  if (element.isInteger(64))
    return "i64";
  if (element.isInteger(32))
    return "i32";
  if (element.isInteger(1))
    return "i1";
  return element.isUnsignedInteger(8) ? "u8" : "i8";
}

class Writer {
public:
  Writer(ModuleOp module, StringRef model)
      : module(module), symbolTable(module), model(model) {}

  FailureOr<std::string> run() {
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
    if (failed(checkActions()))
      return failure();
    step.walk(
        [&](StageOp stage) { stages[stage.getStage()].push_back(stage); });
    collectWeights();

    std::string text;
    llvm::raw_string_ostream os(text);
    llvm::json::OStream j(os, /*IndentSize=*/1);
    j.object([&] { write(j, ""); });
    llvm::SHA256 sha;
    sha.update(text);
    std::string hash = llvm::toHex(sha.final(), /*LowerCase=*/true);
    text.clear();
    llvm::raw_string_ostream again(text);
    llvm::json::OStream k(again, /*IndentSize=*/1);
    k.object([&] { write(k, StringRef(hash).take_front(16)); });
    if (failed_)
      return failure();
    return text;
  }

private:
  using J = llvm::json::OStream;

  LogicalResult checkActions() {
    for (auto actions : schedule.getRanks().getAsRange<ArrayAttr>())
      for (auto action : actions.getAsRange<StringAttr>())
        if (action.getValue().ltrim("0123456789").starts_with("ALLREDUCE"))
          return schedule.emitOpError()
                 << "has the action " << action
                 << ", but the runtime adds up only the gradients of replicas";
    return success();
  }

  bool isTraining() const { return static_cast<bool>(optimizer); }

  /// Files that hold parameters, in the order of the globals.
  void collectWeights() {
    for (auto global : module.getOps<ml_program::GlobalOp>())
      if (auto external =
              dyn_cast_or_null<nn::ExternalAttr>(global.getValueAttr()))
        weights.insert({external.getFile().getValue(), weights.size()});
  }

  void write(J &j, StringRef hash) {
    j.attribute("version", 1);
    j.attribute("model", model);
    j.attribute("mode", isTraining() ? "train" : "infer");
    if (!hash.empty())
      j.attribute("hash", hash);
    if (auto model =
            module->getAttrOfType<StringAttr>(pipeline::modelHashAttrName))
      j.attribute("model_hash", model.getValue());
    auto replicas = static_cast<int64_t>(schedule.getReplicas());
    int64_t microbatches = schedule.getMicrobatches() * replicas;
    j.attribute("target", getTarget(module));
    j.attribute("batch", microbatchSize() * microbatches);
    j.attribute("microbatches", microbatches);
    if (replicas > 1)
      j.attribute("replicas", replicas);
    j.attribute("schedule", schedule.getKind());
    j.attribute("checkpoint", schedule.getCheckpoint());
    writeWeights(j);
    j.attributeArray("feeds", [&] { writeFeeds(j); });
    j.attributeArray("fetches", [&] { writeFetches(j); });
    if (optimizer)
      j.attributeObject("optimizer", [&] { writeOptimizer(j); });
    j.attributeArray("channels", [&] {
      for (auto channel : module.getOps<ChannelOp>())
        j.object([&] { writeChannel(j, channel); });
    });
    j.attributeArray("stages", [&] {
      for (auto &[number, memory] : memories)
        j.object([&] { writeStage(j, number, memory); });
    });
    j.attributeArray("ranks", [&] { writeRanks(j); });
    writeKernelKeys(j);
  }

  /// The cost key of each kernel that is marked, by its number.
  void writeKernelKeys(J &j) {
    SmallVector<std::string> keys;
    module.walk([&](Operation *op) {
      auto mark = op->getAttrOfType<IntegerAttr>(markAttrName);
      if (!mark)
        return;
      keys.resize(std::max<size_t>(keys.size(), mark.getInt() + 1));
      keys[mark.getInt()] = cast<KernelOpInterface>(op).getCostKey();
    });
    if (keys.empty())
      return;
    j.attributeArray("kernel_keys", [&] {
      for (const std::string &key : keys)
        j.value(key);
    });
  }

  int64_t microbatchSize() {
    for (Type type : step.getArgumentTypes())
      if (auto tensor = cast<RankedTensorType>(type); tensor.getRank() > 0)
        return tensor.getDimSize(0);
    return 1;
  }

  void writeWeights(J &j) {
    SmallVector<std::string> paths;
    for (auto &[file, index] : weights) {
      SmallString<128> path(file);
      if (std::error_code error = llvm::sys::fs::make_absolute(path)) {
        module.emitError() << "cannot find the folder of '" << file
                           << "': " << error.message();
        failed_ = true;
      }
      llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
      paths.push_back(std::string(path));
    }
    j.attributeArray("weights", [&] {
      for (const std::string &path : paths)
        j.value(path);
    });
    j.attributeArray("weights_bytes", [&] {
      for (const std::string &path : paths) {
        uint64_t size = 0;
        if (llvm::sys::fs::file_size(path, size)) {
          module.emitError() << "cannot find the weights in '" << path << "'";
          failed_ = true;
        }
        j.value(static_cast<int64_t>(size));
      }
    });
  }

  void writeTensor(J &j, RankedTensorType type) {
    j.attribute("dtype", dtypeOf(type.getElementType()));
    j.attributeArray("shape", [&] {
      for (int64_t size : type.getShape())
        j.value(size);
    });
  }

  void writeFeeds(J &j) {
    for (unsigned index = 0; index < step.getNumArguments(); ++index) {
      auto role = step.getArgAttrOfType<StringAttr>(index, roleAttrName);
      // It comes after all that is fed.
      if (role && role.getValue() == lossScaleRole)
        continue;
      j.object([&] {
        auto name = step.getArgAttrOfType<StringAttr>(index, feedAttrName);
        auto type =
            cast<RankedTensorType>(step.getFunctionType().getInput(index));
        j.attribute("name", name ? name.getValue() : "");
        j.attribute("role", role ? role.getValue() : "input");
        writeTensor(j, type);
        j.attribute("batched", type.getRank() > 0);
        if (auto range =
                step.getArgAttrOfType<DenseI64ArrayAttr>(index, rangeAttrName))
          j.attributeArray("range", [&] {
            for (int64_t end : range.asArrayRef())
              j.value(end);
          });
        if (auto ignored =
                step.getArgAttrOfType<IntegerAttr>(index, ignoreIndexAttrName))
          j.attribute("ignore_index", ignored.getInt());
      });
    }
  }

  void writeFetches(J &j) {
    for (unsigned index = 0; index < step.getNumResults(); ++index) {
      auto name = step.getResultAttrOfType<StringAttr>(index, fetchAttrName);
      if (isTraining())
        continue;
      j.object([&] {
        auto type =
            cast<RankedTensorType>(step.getFunctionType().getResult(index));
        j.attribute("name", name ? name.getValue() : "");
        writeTensor(j, type);
        bool isBatched =
            type.getRank() > 0 && type.getDimSize(0) == microbatchSize();
        if (!isBatched && schedule.getReplicas() > 1) {
          module.emitError()
              << "output " << name << " has no axis for the samples, so "
              << schedule.getReplicas()
              << " replicas cannot make it together; use --replicas=1";
          failed_ = true;
        }
        j.attribute("batched", isBatched);
      });
    }
  }

  void writeOptimizer(J &j) {
    auto description =
        optimizer->getAttrOfType<DictionaryAttr>(pipeline::optimizerAttrName);
    j.attribute("kind", cast<StringAttr>(description.get("kind")).getValue());
    j.attributeArray("states", [&] {
      for (auto state :
           cast<ArrayAttr>(description.get("states")).getAsRange<StringAttr>())
        j.value(state.getValue());
    });
    j.attributeArray("scalars", [&] {
      for (auto scalar : cast<ArrayAttr>(description.get("scalars"))
                             .getAsRange<DictionaryAttr>())
        j.object([&] {
          j.attribute("name", cast<StringAttr>(scalar.get("name")).getValue());
          for (NamedAttribute entry : scalar) {
            if (auto number = dyn_cast<FloatAttr>(entry.getValue()))
              j.attribute(entry.getName().getValue(),
                          number.getValueAsDouble());
            if (isa<BoolAttr>(entry.getValue()))
              j.attribute(entry.getName().getValue(), true);
          }
        });
    });
  }

  static StringRef phaseLetter(Phase phase) {
    static const char letters[] = "FIWU";
    return StringRef(&letters[static_cast<int>(phase)], 1);
  }

  void writeChannel(J &j, ChannelOp channel) {
    auto integer = [&](StringRef name) {
      auto attribute = channel->getAttrOfType<IntegerAttr>(name);
      return attribute ? attribute.getInt() : 0;
    };
    auto list = [&](StringRef name, ArrayRef<int64_t> values) {
      j.attributeArray(name, [&] {
        for (int64_t value : values)
          j.value(value);
      });
    };
    auto count = [](ArrayRef<int64_t> slots) {
      int64_t count = 0;
      for (int64_t slot : slots)
        count = std::max(count, slot + 1);
      return count;
    };
    // The plan counts from the start of the stage's memory.
    auto base = [&](int64_t stage) {
      auto area =
          cast<DictionaryAttr>(memories[stage].getAreas().get("channels"));
      return cast<IntegerAttr>(area.get("offset")).getInt();
    };
    auto name = channel->getAttrOfType<StringAttr>("value");
    j.attribute("name", name ? name.getValue() : channel.getSymName());
    j.attribute("kind", channel.getKind());
    j.attribute("from", static_cast<int64_t>(channel.getFrom()));
    j.attribute("to", static_cast<int64_t>(channel.getTo()));
    j.attribute("from_phase", phaseLetter(channel.getFromPhase()));
    j.attribute("to_phase", phaseLetter(channel.getToPhase()));
    writeTensor(j, cast<RankedTensorType>(channel.getType()));
    j.attribute("bytes",
                static_cast<int64_t>(getTensorBytes(channel.getType())));
    j.attribute("send_offset",
                base(channel.getFrom()) + integer("send_offset"));
    j.attribute("send_slots", count(channel.getSendSlots()));
    list("send_slot", channel.getSendSlots());
    j.attribute("receive_offset",
                base(channel.getTo()) + integer("receive_offset"));
    j.attribute("receive_slots", count(channel.getReceiveSlots()));
    list("receive_slot", channel.getReceiveSlots());
    j.attribute("release", channel.getRelease());
  }

  //===--------------------------------------------------------------------===//
  // Stages
  //===--------------------------------------------------------------------===//

  /// The predicted time of the kernels of a phase.
  double secondsOf(int64_t number, bool forward) {
    double seconds = 0;
    for (StageOp stage : stages[number]) {
      if ((stage.getPhase() == Phase::forward) != forward ||
          stage.getPhase() == Phase::update)
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

  void writeStage(J &j, int64_t number, MemoryOp memory) {
    j.attribute("name", "stage" + std::to_string(number));
    SmallVector<StringRef> nodes;
    for (StageOp stage : stages[number])
      if (stage.getPhase() == Phase::forward)
        for (Operation &op : stage.getBody().front())
          if (op.hasAttr(costAttrName))
            nodeNames(&op, nodes);
    j.attributeArray("nodes", [&] {
      j.value(nodes.empty() ? "" : nodes.front());
      j.value(nodes.empty() ? "" : nodes.back());
    });
    j.attribute("forward_seconds", secondsOf(number, true));
    j.attribute("backward_seconds", secondsOf(number, false));
    j.attribute("memory_bytes", static_cast<int64_t>(memory.getTotal()));
    j.attributeObject("areas", [&] { writeAreas(j, memory); });
    writeSymbols(j, memory, "parameters");
    writeSymbols(j, memory, "buffers");
    j.attributeArray("kernels", [&] {
      for (auto kernel : memory->getAttrOfType<ArrayAttr>("library")
                             .getAsRange<DictionaryAttr>())
        j.object([&] {
          j.attribute("descriptor",
                      cast<StringAttr>(kernel.get("descriptor")).getValue());
          j.attribute("scratchpad",
                      cast<IntegerAttr>(kernel.get("scratchpad")).getInt());
        });
    });
    for (StringRef key : {"optimizer_kernel", "finite_kernel",
                          "finite_loss_kernel", "loss_scale_kernel"})
      if (auto kernel = memory->getAttrOfType<IntegerAttr>(key))
        j.attribute(key, kernel.getInt());
    j.attributeObject("phases", [&] { writePhases(j, number, memory); });
  }

  void writeAreas(J &j, MemoryOp memory) {
    // In the order of their offsets, which is that of the documentation.
    static constexpr StringLiteral order[] = {
        "parameters", "gradients", "optimizer",  "buffers",
        "statistics", "residuals", "scratch",    "channels",
        "discard",    "loss",      "loss_scale", "exchange"};
    for (StringRef name : order) {
      auto area = memory.getAreas().getAs<DictionaryAttr>(name);
      if (!area)
        continue;
      j.attributeObject(name, [&] {
        for (StringRef key : {"offset", "bytes", "slots", "slot_bytes"})
          if (auto value = area.getAs<IntegerAttr>(key))
            j.attribute(key, value.getInt());
      });
    }
  }

  void writeSymbols(J &j, MemoryOp memory, StringRef area) {
    auto symbols = cast<DictionaryAttr>(memory.getSymbols().get(area));
    SmallVector<std::pair<int64_t, StringRef>> order;
    for (NamedAttribute entry : symbols)
      order.push_back({cast<IntegerAttr>(entry.getValue()).getInt(),
                       entry.getName().getValue()});
    llvm::sort(order);
    j.attributeArray(area, [&] {
      for (auto [offset, name] : order) {
        auto global = symbolTable.lookup<ml_program::GlobalOp>(name);
        if (!global) {
          memory.emitOpError()
              << "places '" << name << "', which is no global of the program";
          failed_ = true;
          continue;
        }
        j.object([&, offset = offset, name = name] {
          j.attribute("name", name);
          writeTensor(j, cast<RankedTensorType>(global.getType()));
          j.attribute("offset", offset);
          if (area == "buffers")
            j.attribute("mutable", global.getIsMutable());
          if (auto reason =
                  global->getAttrOfType<StringAttr>(nn::trainingReasonAttrName);
              reason && isTraining())
            j.attribute("reason", reason.getValue());
          j.attributeObject("source",
                            [&] { writeSource(j, global.getValueAttr()); });
        });
      }
    });
  }

  void writeSource(J &j, Attribute value) {
    if (auto external = dyn_cast_or_null<nn::ExternalAttr>(value)) {
      j.attribute("file",
                  static_cast<int64_t>(weights[external.getFile().getValue()]));
      j.attribute("offset", static_cast<int64_t>(external.getOffset()));
      j.attribute("bytes", static_cast<int64_t>(external.getBytes()));
      if (external.getTransposed())
        j.attribute("transposed", true);
      StringRef file = external.getFile().getValue();
      auto hash = hashes.get(file, external.getOffset(), external.getBytes());
      if (hash) {
        j.attribute("hash", *hash);
      } else {
        module.emitError() << "cannot read " << external.getBytes()
                           << " bytes of weights at " << external.getOffset()
                           << " in '" << file
                           << "': " << hash.getError().message();
        failed_ = true;
      }
      return;
    }
    auto dense = dyn_cast_or_null<DenseElementsAttr>(value);
    if (!dense) {
      module.emitError("has a parameter without an initial value");
      failed_ = true;
      return;
    }
    j.attribute("hex", hexOf(dense));
  }

  /// Little-endian bytes, i1 as a byte.
  static std::string hexOf(DenseElementsAttr dense) {
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
    return llvm::toHex(bytes, /*LowerCase=*/true);
  }

  void writePhases(J &j, int64_t number, MemoryOp memory) {
    SmallVector<Phase> phases = {Phase::forward};
    if (isTraining())
      phases.append({Phase::backward_input, Phase::backward_weight});
    for (Phase phase : phases) {
      StageOp found;
      for (StageOp stage : stages[number])
        if (stage.getPhase() == phase)
          found = stage;
      j.attributeObject(phaseLetter(phase), [&] {
        writeEnds(j, "inputs", found, "pp.inputs");
        writeEnds(j, "outputs", found, "pp.outputs");
        if (isTraining() && found)
          writeProbes(j, found);
        if (phase != Phase::forward || schedule.getCheckpoint() == "never")
          return;
        j.attributeArray("discards", [&] {
          for (auto offset : memory->getAttrOfType<ArrayAttr>("discards")
                                 .getAsRange<IntegerAttr>())
            j.value(offset.getInt());
        });
        j.attribute(
            "discard_statistics",
            memory->getAttrOfType<IntegerAttr>("discard_statistics").getInt());
      });
    }
  }

  /// The floats that each kernel writes, for the search for the first one that
  /// is not finite.
  void writeProbes(J &j, StageOp stage) {
    SmallVector<Operation *> kernels;
    for (Operation &op : stage.getBody().front())
      if (op.hasAttr(probeAttrName))
        kernels.push_back(&op);
    if (kernels.empty())
      return;
    j.attributeArray("probes", [&] {
      for (Operation *op : kernels)
        j.object([&] {
          SmallVector<StringRef> names;
          nodeNames(op, names);
          j.attribute("node", names.empty() ? op->getName().getStringRef()
                                            : names.front());
          j.attributeArray("outputs", [&] {
            auto buffers = op->getAttrOfType<ArrayAttr>(buffersAttrName);
            for (auto [result, buffer] :
                 llvm::zip(op->getResults(), buffers.getAsRange<BufferAttr>()))
              writeProbe(j, cast<RankedTensorType>(result.getType()), buffer);
          });
        });
    });
  }

  void writeProbe(J &j, RankedTensorType type, BufferAttr buffer) {
    if (!type.getElementType().isF32())
      return;
    j.array([&] {
      j.value(stringifyArea(buffer.getArea()));
      j.value(buffer.getOffset());
      j.value(type.getNumElements());
    });
  }

  void writeEnds(J &j, StringRef key, StageOp stage, StringRef attribute) {
    auto ends =
        stage ? stage->getAttrOfType<ArrayAttr>(attribute) : ArrayAttr();
    j.attributeArray(key, [&] {
      if (!ends)
        return;
      for (auto end : ends.getAsRange<DictionaryAttr>())
        j.object([&] {
          NamedAttribute entry = *end.begin();
          if (auto number = dyn_cast<IntegerAttr>(entry.getValue());
              number && !isa<BoolAttr>(entry.getValue()))
            j.attribute(entry.getName().getValue(), number.getInt());
          else
            j.attribute(entry.getName().getValue(), true);
        });
    });
  }

  //===--------------------------------------------------------------------===//
  // Actions
  //===--------------------------------------------------------------------===//

  void writeRanks(J &j) {
    ArrayAttr slots = *schedule.getSlots();
    for (auto [rank, actions] :
         llvm::enumerate(schedule.getRanks().getAsRange<ArrayAttr>())) {
      auto numbers = cast<ArrayAttr>(slots[rank]);
      j.object([&, actions = actions] {
        llvm::SetVector<int64_t> own;
        for (auto action : actions.getAsRange<StringAttr>()) {
          int64_t stage;
          StringRef text = action.getValue();
          if (!text.consumeInteger(10, stage))
            own.insert(stage);
        }
        j.attributeArray("stages", [&] {
          for (int64_t stage : own)
            j.value(stage);
        });
        j.attributeArray("actions", [&] {
          for (auto [index, action] :
               llvm::enumerate(actions.getAsRange<StringAttr>()))
            writeAction(j, action.getValue(),
                        cast<IntegerAttr>(numbers[index]).getInt());
        });
      });
    }
  }

  /// The channels of a stage and direction, as the notation counts them.
  int64_t channelOf(StringRef kind, int64_t stage, bool forward,
                    std::optional<int64_t> number) {
    if (number)
      return *number;
    for (auto [index, channel] : llvm::enumerate(module.getOps<ChannelOp>())) {
      int64_t end = kind == "SEND" ? channel.getFrom() : channel.getTo();
      if (end == stage && (channel.getFromPhase() == Phase::forward) == forward)
        return index;
    }
    return -1;
  }

  void writeAction(J &j, StringRef text, int64_t slot) {
    int64_t stage;
    (void)text.consumeInteger(10, stage);
    StringRef kind =
        text.take_while([](char c) { return llvm::isAlpha(c) || c == '_'; });
    text = text.drop_front(kind.size());
    int64_t microbatch = 0;
    (void)text.consumeInteger(10, microbatch);
    j.array([&] {
      if (kind == "U" || kind == "REDUCE_GRAD") {
        j.value(kind);
        j.value(stage);
        return;
      }
      auto [verb, direction] = kind.split('_');
      if (direction.empty()) {
        j.value(kind);
        j.value(stage);
        j.value(microbatch);
        j.value(slot);
        return;
      }
      std::optional<int64_t> number;
      int64_t parsed;
      if (text.consume_front("#") && !text.consumeInteger(10, parsed))
        number = parsed;
      j.value(verb);
      j.value(channelOf(verb, stage, direction == "F", number));
      j.value(microbatch);
    });
  }

  ModuleOp module;
  SymbolTable symbolTable;
  StringRef model;
  func::FuncOp step, optimizer;
  ScheduleOp schedule;
  std::map<int64_t, MemoryOp> memories;
  std::map<int64_t, SmallVector<StageOp>> stages;
  llvm::MapVector<StringRef, size_t> weights;
  WeightHashes hashes;
  bool failed_ = false;
};

} // namespace

FailureOr<std::string> pp::writePlan(ModuleOp module, StringRef model) {
  return Writer(module, model).run();
}
