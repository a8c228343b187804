//===- NodeImporter.cpp - Shared by the handlers of ONNX operators --------===//

#include "NodeImporter.h"
#include "NarrowType.h"

#include "mlir/Dialect/MLProgram/IR/MLProgram.h"
#include "pp/Dialect/NN/IR/MergedTensors.h"
#include "pp/Dialect/NN/IR/NN.h"
#include "pp/Interfaces/Step.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/InterleavedRange.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

//===----------------------------------------------------------------------===//
// Tensors of the file
//===----------------------------------------------------------------------===//

Type NodeImporter::elementType(onnx::DataType dataType) {
  switch (dataType) {
  case onnx::DataType::Float:
    return builder.getF32Type();
  case onnx::DataType::Double:
    return builder.getF64Type();
  case onnx::DataType::Int64:
    return builder.getI64Type();
  case onnx::DataType::Int32:
    return builder.getI32Type();
  case onnx::DataType::Float16:
    return builder.getF16Type();
  case onnx::DataType::BFloat16:
    return builder.getBF16Type();
  case onnx::DataType::Int16:
    return builder.getI16Type();
  case onnx::DataType::Int8:
    return builder.getI8Type();
  case onnx::DataType::UInt64:
    return builder.getIntegerType(64, /*isSigned=*/false);
  case onnx::DataType::UInt32:
    return builder.getIntegerType(32, /*isSigned=*/false);
  case onnx::DataType::UInt16:
    return builder.getIntegerType(16, /*isSigned=*/false);
  case onnx::DataType::UInt8:
    return builder.getIntegerType(8, /*isSigned=*/false);
  case onnx::DataType::Bool:
    return builder.getI1Type();
  default:
    return nullptr;
  }
}

llvm::Expected<Constant> NodeImporter::readTensor(const onnx::Tensor &tensor) {
  Type element = storedType(tensor.type);
  if (!element)
    return llvm::createStringError("elements of type %s are not supported",
                                   onnx::dataTypeName(tensor.type).data());
  auto bytes = model.bytes(tensor);
  if (!bytes)
    return bytes.takeError();
  auto type = RankedTensorType::get(tensor.dims, element);
  if (tensor.type == onnx::DataType::Bool) {
    SmallVector<bool> values(
        llvm::map_range(*bytes, [](uint8_t byte) { return byte != 0; }));
    return Constant(DenseElementsAttr::get(type, values));
  }
  std::vector<uint8_t> unpacked;
  if (isNarrow(tensor.type)) {
    unpacked = unpackNarrow(tensor.type, tensor.elements, *bytes);
    bytes = ArrayRef(unpacked);
  }
  ArrayRef<char> raw(reinterpret_cast<const char *>(bytes->data()),
                     bytes->size());
  return Constant(DenseElementsAttr::getFromRawBuffer(type, raw));
}

llvm::Expected<Entry> NodeImporter::readEntry(const onnx::Tensor &tensor) {
  auto constant = readTensor(tensor);
  if (!constant)
    return constant.takeError();
  Entry entry;
  entry.constant = *constant;
  if (isNarrow(tensor.type))
    entry.narrow = tensor.type;
  return entry;
}

llvm::Error NodeImporter::declareInitializer(const onnx::Tensor &tensor) {
  bool isFloat =
      llvm::is_contained({onnx::DataType::Float, onnx::DataType::Double,
                          onnx::DataType::Float16, onnx::DataType::BFloat16},
                         tensor.type);
  bool isWeight = isFloat && training.isParameter(tensor);
  if ((isWeight && tensor.elements > 0) ||
      tensor.elements > maxConstantElements) {
    if (!elementType(tensor.type))
      return llvm::createStringError("elements of type %s are not supported",
                                     onnx::dataTypeName(tensor.type).data());
    parameters[tensor.name] = &tensor;
    return llvm::Error::success();
  }
  auto entry = readEntry(tensor);
  if (!entry)
    return entry.takeError();
  entries[tensor.name] = *entry;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The node at hand
//===----------------------------------------------------------------------===//

LogicalResult NodeImporter::error(const llvm::Twine &message,
                                  llvm::StringRef help) {
  onnx::Diagnostic diagnostic;
  diagnostic.file = model.path;
  diagnostic.nodeName = node->name;
  diagnostic.nodeOp = node->opType;
  diagnostic.nodeIndex = node->index;
  diagnostic.message = message.str();
  diagnostic.help = help.str();
  diagnostics.push_back(std::move(diagnostic));
  return failure();
}

void NodeImporter::help(const llvm::Twine &text) {
  if (!diagnostics.empty() && diagnostics.back().help.empty())
    diagnostics.back().help = text.str();
}

std::string NodeImporter::howToKnow() const {
  std::string text = "export the model with static shapes";
  SmallVector<StringRef> inputs;
  for (const onnx::ValueInfo &input : model.graph.inputs) {
    auto entry = entries.find(input.name);
    if (entry != entries.end() && entry->second.value &&
        isa<IntegerType>(type(entry->second.value).getElementType()))
      inputs.push_back(input.name);
  }
  if (!inputs.empty())
    text += ", or give the input that it depends on a value, as --value=" +
            llvm::join(inputs, "=NUMBER, --value=") + "=NUMBER";
  return text;
}

void NodeImporter::warning(const llvm::Twine &message) {
  (void)error(message);
  diagnostics.back().severity = onnx::Severity::Warning;
}

void NodeImporter::warnOnce(llvm::StringRef message) {
  if (given.insert(message).second)
    warning(message);
}

LogicalResult NodeImporter::importNode(const onnx::Node &next) {
  node = &next;
  std::string name = next.name;
  if (name.empty() && !next.outputs.empty())
    name = next.opType + ":" + next.outputs.front();
  location = NameLoc::get(builder.getStringAttr(name));

  bool poisoned = false;
  for (const std::string &inputName : next.inputs)
    poisoned |= !inputName.empty() && entries[inputName].poisoned;
  const ImportedOperator *entry = findImportedOperator(onnx::operatorKey(next));
  Block *block = builder.getInsertionBlock();
  Operation *last = block->empty() ? nullptr : &block->back();
  LogicalResult result = failure();
  understood.clear();
  for (const std::string &output : next.outputs)
    entries[output] = Entry();
  types = entry ? entry->types : allTypes;
  if (!poisoned && !entry)
    result = error("operator is not supported");
  else if (!poisoned && succeeded(checkDefinition(*entry)))
    result = entry->handler(*this);
  if (succeeded(result)) {
    shortenOutputs();
    emptyOutputs();
    foldOutputs(last);
    eraseUnused(last);
  }
  if (failed(result) || failed(checkUnderstood()) ||
      failed(checkOperations(last)) || failed(checkSizes()) ||
      failed(checkDeclared())) {
    for (const std::string &output : next.outputs)
      entries[output].poisoned = true;
    return failure();
  }
  return success();
}

void NodeImporter::emptyOutputs() {
  for (const std::string &output : node->outputs) {
    Entry &entry = entries[output];
    if (!entry.value || !llvm::is_contained(shape(entry.value), 0))
      continue;
    entry.constant = Constant(
        DenseElementsAttr::get(type(entry.value), ArrayRef<Attribute>()));
    entry.value = nullptr;
  }
}

Value NodeImporter::valueOf(const Entry &entry) {
  if (entry.isSequence || entry.isAbsent)
    return nullptr;
  return entry.constant && !entry.value ? constant(entry.constant)
                                        : entry.value;
}

Entry NodeImporter::entryOf(Value value) {
  Entry entry;
  entry.value = folded(value);
  if (auto known = entry.value.getDefiningOp<ConstantOp>();
      known && known->use_empty()) {
    entry.constant = Constant(cast<DenseElementsAttr>(known.getValue()));
    entry.value = nullptr;
    known->erase();
  }
  return entry;
}

void NodeImporter::foldOutputs(Operation *last) {
  for (const std::string &input : node->inputs)
    if (!input.empty() && !entries[input].constant)
      return;
  SmallVector<Entry *> outputs;
  for (const std::string &output : node->outputs)
    if (Entry &entry = entries[output]; entry.value) {
      entry.constant = evaluate(entry.value);
      if (!entry.constant)
        return;
      outputs.push_back(&entry);
    }
  for (Entry *entry : outputs)
    entry->value = nullptr;
}

/// The values that an entry stands for.
static void collectValues(const Entry &entry, SmallPtrSetImpl<Value> &values) {
  if (entry.value)
    values.insert(entry.value);
  for (const Entry &element : entry.sequence)
    collectValues(element, values);
}

void NodeImporter::eraseUnused(Operation *last) {
  SmallPtrSet<Value, 8> kept;
  for (const std::string &output : node->outputs)
    collectValues(entries[output], kept);
  Block *block = builder.getInsertionBlock();
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(block->getOperations()))) {
    if (&op == last)
      return;
    bool isKept = llvm::any_of(
        op.getResults(), [&](Value result) { return kept.contains(result); });
    // Parameters and what widens them are made once for all readers.
    bool isShared =
        isa<ParameterOp>(op) ||
        (isa<CastOp>(op) && op.getOperand(0).getDefiningOp<ParameterOp>());
    if (!isKept && !isShared && op.use_empty() && isMemoryEffectFree(&op))
      op.erase();
  }
}

FailureOr<std::vector<Entry>>
NodeImporter::importGraph(const onnx::Graph &graph, ArrayRef<Entry> inputs) {
  constexpr int64_t most = 1 << 17;
  unrolled += static_cast<int64_t>(graph.nodes.size()) + 1;
  if (unrolled > most)
    return error("loops unroll to more than " + llvm::Twine(most) + " nodes");
  if (graph.inputs.size() != inputs.size())
    return error("has a subgraph with " + llvm::Twine(graph.inputs.size()) +
                 " inputs; it takes " + llvm::Twine(inputs.size()));
  // What the handler of the node around it still needs.
  const onnx::Node *outerNode = node;
  auto outerUnderstood = understood;
  auto outerVariables = typeVariables;
  uint64_t outerTypes = types;
  Location outerLocation = location;
  // Names inside hide those outside.
  std::vector<std::pair<StringRef, Entry>> hidden;
  std::vector<std::pair<StringRef, const onnx::Tensor *>> hiddenParameters;
  auto hide = [&](StringRef name) {
    hidden.emplace_back(name, std::move(entries[name]));
    entries[name] = Entry();
    if (auto found = parameters.find(name); found != parameters.end()) {
      hiddenParameters.emplace_back(name, found->second);
      parameters.erase(found);
    }
  };
  for (const onnx::ValueInfo &input : graph.inputs)
    hide(input.name);
  for (const onnx::Tensor &tensor : graph.initializers)
    hide(tensor.name);
  for (const onnx::Node &inner : graph.nodes)
    for (const std::string &output : inner.outputs)
      if (!output.empty())
        hide(output);

  for (auto [input, entry] : llvm::zip(graph.inputs, inputs))
    entries[input.name] = entry;
  LogicalResult result = success();
  for (const onnx::Tensor &tensor : graph.initializers)
    if (llvm::Error fault = declareSubgraphInitializer(tensor))
      result = error("initializer '" + tensor.name +
                     "': " + llvm::toString(std::move(fault)));
  for (const onnx::Node &inner : graph.nodes)
    if (succeeded(result))
      result = importNode(inner);
  node = outerNode;
  understood = std::move(outerUnderstood);
  typeVariables = std::move(outerVariables);
  types = outerTypes;
  location = outerLocation;

  std::vector<Entry> outputs;
  for (const onnx::ValueInfo &output : graph.outputs) {
    if (auto pending = parameters.find(output.name);
        pending != parameters.end())
      entries[output.name].value = parameter(*pending->second);
    outputs.push_back(entries[output.name]);
  }
  for (const onnx::Tensor &tensor : graph.initializers)
    parameters.erase(tensor.name);
  for (auto &[name, entry] : llvm::reverse(hidden))
    entries[name] = std::move(entry);
  for (auto [name, tensor] : hiddenParameters)
    parameters[name] = tensor;
  if (failed(result))
    return failure();
  return outputs;
}

llvm::Error
NodeImporter::declareSubgraphInitializer(const onnx::Tensor &tensor) {
  // Iterations share a parameter; graphs that give one name to two do not.
  const onnx::Tensor *&owner = subgraphInitializers[tensor.name];
  bool isTaken =
      (owner && owner != &tensor) ||
      llvm::any_of(model.graph.initializers, [&](const onnx::Tensor &outer) {
        return outer.name == tensor.name;
      });
  if (auto fault = declareInitializer(tensor))
    return fault;
  if (isTaken && parameters.contains(tensor.name))
    return llvm::createStringError("another initializer has this name");
  owner = &tensor;
  return llvm::Error::success();
}

void NodeImporter::shortenOutputs() {
  auto definition = onnx::findOperator(onnx::operatorKey(*node), opset());
  for (auto [index, name] : llvm::enumerate(node->outputs)) {
    size_t last = definition->outputs.size() - 1;
    int8_t variable = definition->outputs[std::min(index, last)].typeVariable;
    auto bound = typeVariables.find(variable);
    if (name.empty() || bound == typeVariables.end())
      continue;
    onnx::DataType wanted = bound->second.second;
    Entry &entry = entries[name];
    if (isNarrow(wanted)) {
      if (!entry.isSequence)
        entry.narrow = wanted;
      continue;
    }
    if (entry.value && elementType(getComputedType(wanted)) ==
                           type(entry.value).getElementType())
      entry.value = cast(entry.value, elementType(wanted));
  }
}

Value NodeImporter::widened(Value value) {
  onnx::DataType actual = dataType(type(value).getElementType());
  if (types >> static_cast<int>(actual) & 1)
    return value;
  return cast(value, elementType(getComputedType(actual)));
}

Value NodeImporter::tensor(size_t index) {
  if (!hasInput(index)) {
    (void)error("input #" + llvm::Twine(index) + " is missing");
    return nullptr;
  }
  Entry &entry = input(index);
  if (entry.isSequence) {
    (void)error("input #" + llvm::Twine(index) + " is a sequence");
    return nullptr;
  }
  if (entry.constant && !entry.value)
    return widened(constant(entry.constant));
  return entry.value ? widened(entry.value) : Value();
}

FailureOr<SmallVector<int64_t>>
NodeImporter::integers(llvm::StringRef name, int index,
                       ArrayRef<int64_t> fallback) {
  if (const onnx::Attribute *found = findAttribute(name))
    return SmallVector<int64_t>(found->ints.begin(), found->ints.end());
  if (index < 0 || !hasInput(index))
    return SmallVector<int64_t>(fallback);
  FailureOr<SmallVector<int64_t>> list = known(index).integers();
  if (failed(list))
    return error("input '" + node->inputs[index] + "' (" + name +
                 ") is no list of integers known at compile time");
  return list;
}

onnx::DataType NodeImporter::castTarget() {
  const onnx::Attribute *to = findAttribute("to");
  if (!to)
    return onnx::DataType::Undefined;
  // Before opset 6 the type was a word.
  if (to->kind == onnx::Attribute::Kind::String) {
    for (int32_t value = 1; onnx::isDataType(value); ++value)
      if (onnx::dataTypeName(static_cast<onnx::DataType>(value)) == to->s)
        return static_cast<onnx::DataType>(value);
    return onnx::DataType::Undefined;
  }
  return onnx::isDataType(to->i) ? static_cast<onnx::DataType>(to->i)
                                 : onnx::DataType::Undefined;
}

int64_t NodeImporter::attribute(llvm::StringRef name, int64_t fallback) {
  const onnx::Attribute *found = findAttribute(name);
  return found ? found->i : fallback;
}
double NodeImporter::attribute(llvm::StringRef name, double fallback) {
  const onnx::Attribute *found = findAttribute(name);
  return found ? found->f : fallback;
}
std::string NodeImporter::attribute(llvm::StringRef name,
                                    const char *fallback) {
  const onnx::Attribute *found = findAttribute(name);
  return found ? found->s : fallback;
}
SmallVector<int64_t> NodeImporter::attribute(llvm::StringRef name,
                                             ArrayRef<int64_t> fallback) {
  const onnx::Attribute *found = findAttribute(name);
  return found ? SmallVector<int64_t>(found->ints.begin(), found->ints.end())
               : SmallVector<int64_t>(fallback);
}

void NodeImporter::setOutput(size_t index, Value value) {
  if (index < node->outputs.size())
    entries[node->outputs[index]].value = value;
}
void NodeImporter::setOutput(size_t index, Constant constant) {
  if (index < node->outputs.size())
    entries[node->outputs[index]].constant = constant;
}
void NodeImporter::setOutput(size_t index, Entry entry) {
  if (index < node->outputs.size())
    entries[node->outputs[index]] = std::move(entry);
}

FailureOr<int64_t> NodeImporter::normalizeAxis(int64_t axis, int64_t rank) {
  int64_t counted = axis < 0 ? axis + rank : axis;
  if (counted < 0 || counted >= rank) {
    (void)error("axis " + llvm::Twine(axis) +
                " is outside of a tensor of rank " + llvm::Twine(rank));
    return failure();
  }
  return counted;
}

FailureOr<SmallVector<int64_t>>
NodeImporter::normalizeAxes(ArrayRef<int64_t> axes, int64_t rank) {
  SmallVector<int64_t> result;
  llvm::SmallDenseSet<int64_t> named;
  for (int64_t given : axes) {
    auto axis = normalizeAxis(given, rank);
    if (failed(axis))
      return failure();
    if (!named.insert(*axis).second) {
      (void)error("names axis " + llvm::Twine(*axis) + " twice");
      return failure();
    }
    result.push_back(*axis);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

/// The bytes of a tensor that is stated in the file's typed fields.
static SmallVector<char> rowMajor(const onnx::Tensor &tensor) {
  const char *bytes = reinterpret_cast<const char *>(tensor.bytes.data());
  if (!tensor.isTransposed)
    return SmallVector<char>(bytes, bytes + tensor.bytes.size());
  SmallVector<char> result;
  size_t width = onnx::bitWidth(tensor.type) / 8;
  for (int64_t row = 0; row < tensor.dims[0]; ++row)
    for (int64_t column = 0; column < tensor.dims[1]; ++column) {
      const char *at = bytes + (column * tensor.dims[0] + row) * width;
      result.append(at, at + width);
    }
  return result;
}

/// Short floats as f32.
static DenseElementsAttr inSinglePrecision(DenseElementsAttr dense) {
  return dense.mapValues(
      Float32Type::get(dense.getContext()), [](const llvm::APFloat &number) {
        return llvm::APFloat(number.convertToFloat()).bitcastToAPInt();
      });
}

Value NodeImporter::parameter(const onnx::Tensor &tensor) {
  Value &value = parameterValues[tensor.name];
  if (value)
    return value;
  auto type = RankedTensorType::get(tensor.dims, elementType(tensor.type));
  OpBuilder::InsertionGuard guard(builder);
  Location loc = NameLoc::get(builder.getStringAttr(tensor.name));

  Attribute initial;
  if (tensor.location)
    initial = ExternalAttr::get(
        builder.getContext(),
        builder.getStringAttr(model.files->path(tensor.location->file)),
        tensor.location->offset, tensor.location->length, tensor.isTransposed,
        type);
  else
    initial = DenseElementsAttr::getFromRawBuffer(type, rowMajor(tensor));
  // Globals stand before the function, in the order of their first reader.
  auto function = cast<func::FuncOp>(builder.getBlock()->getParentOp());
  builder.setInsertionPoint(function);
  TrainingChoice::Decision choice = training.decide(tensor);
  // Steps are too small for short numbers: an optimizer works on wider copies.
  RankedTensorType kept = type;
  if (choice.isTrained)
    kept = type.clone(elementType(getComputedType(tensor.type)));
  if (auto dense = dyn_cast<DenseElementsAttr>(initial); dense && kept != type)
    initial = inSinglePrecision(dense);
  auto global =
      ml_program::GlobalOp::create(builder, loc, tensor.name, kept,
                                   /*is_mutable=*/choice.isTrained, initial,
                                   builder.getStringAttr("private"));
  globals[tensor.name] = global;
  if (choice.isTrained)
    global->setAttr(trainedAttrName, builder.getUnitAttr());
  if (options.training)
    global->setAttr(trainingReasonAttrName,
                    builder.getStringAttr(choice.reason));
  if (options.training && !tensor.readers.empty()) {
    SmallVector<int64_t> readers;
    for (auto [index, input] : tensor.readers)
      llvm::append_values(readers, index, input);
    global->setAttr(readersAttrName, builder.getDenseI64ArrayAttr(readers));
  }
  // All parameters are named at the top of the function.
  if (lastParameter)
    builder.setInsertionPointAfter(lastParameter);
  else
    builder.setInsertionPointToStart(&function.getBody().front());
  auto op = ParameterOp::create(builder, loc, kept, tensor.name);
  lastParameter = op;
  value = op;
  if (kept != type)
    value = CastOp::create(builder, loc, type, value);
  return value;
}

void NodeImporter::attachStageHint(Operation *op) {
  if (!node->pipelineStage)
    return;
  auto found = llvm::lower_bound(stageHints, *node->pipelineStage);
  op->setAttr(step::stageHintAttrName,
              builder.getI64IntegerAttr(found - stageHints.begin()));
}

void NodeImporter::untrain(llvm::StringRef symbol, bool isMutable) {
  if (ml_program::GlobalOp global = globals.lookup(symbol)) {
    global->removeAttr(trainedAttrName);
    global.setIsMutable(isMutable);
    if (options.training)
      global->setAttr(trainingReasonAttrName,
                      builder.getStringAttr("statistics of batch norm"));
    training.withdraw(symbol);
  }
}

void NodeImporter::widenParameter(llvm::StringRef symbol) {
  ml_program::GlobalOp global = globals.lookup(symbol);
  auto type = cast<RankedTensorType>(global.getType());
  if (!type.getElementType().isF16() && !type.getElementType().isBF16())
    return;
  // Such a parameter is named as it is.
  Value narrow = parameterValues.lookup(symbol);
  auto op = cast<ParameterOp>(narrow.getDefiningOp());
  global.setType(type.clone(builder.getF32Type()));
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(global.getValueAttr()))
    global.setValueAttr(inSinglePrecision(dense));
  op->getResult(0).setType(type.clone(builder.getF32Type()));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfter(op);
  auto cast = CastOp::create(builder, op.getLoc(), type, op.getOutput());
  narrow.replaceAllUsesExcept(cast, cast);
  parameterValues[symbol] = cast;
  for (auto &entry : entries)
    if (entry.second.value == narrow)
      entry.second.value = cast;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

Value NodeImporter::constant(Constant value) {
  return make<ConstantOp>(value.getElements());
}

IntegerAttr NodeImporter::integerAttribute(Type element, int64_t value) {
  return IntegerAttr::get(element,
                          llvm::APInt(element.getIntOrFloatBitWidth(), value,
                                      /*isSigned=*/true,
                                      /*implicitTrunc=*/true));
}

Value NodeImporter::splat(RankedTensorType type, double value) {
  Type element = type.getElementType();
  Attribute number = isa<FloatType>(element)
                         ? Attribute(builder.getFloatAttr(element, value))
                         : integerAttribute(element, towardsZero(value));
  return make<ConstantOp>(DenseElementsAttr::get(type, number));
}

Value NodeImporter::reshape(Value value, ArrayRef<int64_t> newShape) {
  if (shape(value) == newShape)
    return value;
  return make<ReshapeOp>(type(value).clone(newShape), value);
}

Value NodeImporter::transpose(Value value, ArrayRef<int64_t> permutation) {
  if (llvm::is_sorted(permutation))
    return value;
  return make<TransposeOp>(value, permutation);
}

Value NodeImporter::broadcastTo(Value value, ArrayRef<int64_t> target) {
  ArrayRef<int64_t> from = shape(value);
  if (from == target)
    return value;
  size_t offset = target.size() - from.size();
  SmallVector<int64_t> kept, axes;
  for (auto [axis, size] : llvm::enumerate(from))
    if (size == target[axis + offset]) {
      kept.push_back(size);
      axes.push_back(axis + offset);
    }
  Value squeezed = reshape(value, kept);
  return make<BroadcastOp>(type(value).clone(target), squeezed, axes);
}

LogicalResult NodeImporter::broadcastTogether(Value &lhs, Value &rhs) {
  ArrayRef<int64_t> left = shape(lhs), right = shape(rhs);
  size_t rank = std::max(left.size(), right.size());
  SmallVector<int64_t> common(rank);
  for (size_t i = 0; i < rank; ++i) {
    int64_t a = i < left.size() ? left[left.size() - 1 - i] : 1;
    int64_t b = i < right.size() ? right[right.size() - 1 - i] : 1;
    if (a != b && a != 1 && b != 1) {
      std::string text;
      llvm::raw_string_ostream(text)
          << "shapes [" << llvm::interleaved(left) << "] and ["
          << llvm::interleaved(right) << "] do not broadcast";
      return error(text);
    }
    common[rank - 1 - i] = a == 1 ? b : a;
  }
  if (type(lhs).getElementType() != type(rhs).getElementType())
    return error("inputs have different element types");
  lhs = broadcastTo(lhs, common);
  rhs = broadcastTo(rhs, common);
  return success();
}

Value NodeImporter::cast(Value value, Type newType) {
  if (type(value).getElementType() == newType)
    return value;
  return make<CastOp>(type(value).clone(newType), value);
}

/// What no numbers at all reduce to.
static Attribute neutralElement(Reduction reduction, Type element) {
  double infinity = std::numeric_limits<double>::infinity();
  auto number = dyn_cast<FloatType>(element);
  unsigned width = element.getIntOrFloatBitWidth();
  bool isUnsigned = element.isUnsignedInteger();
  Builder b(element.getContext());
  auto make = [&](double real, const llvm::APInt &whole) -> Attribute {
    return number ? Attribute(b.getFloatAttr(number, real))
                  : IntegerAttr::get(element, whole);
  };
  switch (reduction) {
  case Reduction::sum:
    return make(0, llvm::APInt::getZero(width));
  case Reduction::product:
    return make(1, llvm::APInt(width, 1));
  case Reduction::max:
    return make(-infinity, isUnsigned ? llvm::APInt::getMinValue(width)
                                      : llvm::APInt::getSignedMinValue(width));
  case Reduction::min:
    return make(infinity, isUnsigned ? llvm::APInt::getMaxValue(width)
                                     : llvm::APInt::getSignedMaxValue(width));
  }
  llvm_unreachable("no other reduction");
}

Value NodeImporter::reduce(Reduction reduction, Value value,
                           ArrayRef<int64_t> axes, bool keepAxes) {
  SmallVector<int64_t> sorted(axes), kept(shape(value));
  llvm::sort(sorted);
  for (int64_t axis : sorted)
    kept[axis] = 1;
  Value result;
  if (llvm::is_contained(shape(value), 0)) {
    SmallVector<int64_t> left;
    for (auto [axis, size] : llvm::enumerate(shape(value)))
      if (!llvm::is_contained(sorted, axis))
        left.push_back(size);
    auto none = type(value).clone(left);
    result = make<ConstantOp>(DenseElementsAttr::get(
        none, neutralElement(reduction, none.getElementType())));
  } else {
    result = make<ReduceOp>(reduction, value, sorted);
  }
  return keepAxes ? reshape(result, kept) : result;
}

Value NodeImporter::uniform(ArrayRef<int64_t> shape, int64_t seed) {
  if (!randomCounter) {
    auto function = cast<func::FuncOp>(builder.getBlock()->getParentOp());
    StringRef name = stringifyRole(step::Role::RandomCounter);
    if (llvm::any_of(model.graph.inputs, [&](const onnx::ValueInfo &input) {
          return input.name == name;
        })) {
      (void)error("input '" + name +
                  "' has the name that random numbers give an input of their "
                  "own; rename that of the model");
      return nullptr;
    }
    auto counter = step::getRandomCounter(function);
    if (failed(counter))
      return nullptr;
    randomCounter = *counter;
  }
  return make<UniformOp>(RankedTensorType::get(shape, builder.getF32Type()),
                         randomCounter, streams++, seed, DenseI64ArrayAttr());
}

Value NodeImporter::mean(Value value, ArrayRef<int64_t> axes, bool keepAxes) {
  int64_t count = 1;
  for (int64_t axis : axes)
    count *= shape(value)[axis];
  Value sum = reduce(Reduction::sum, value, axes, keepAxes);
  // Whole numbers are divided towards zero.
  if (!isa<FloatType>(type(sum).getElementType()))
    return make<DivOp>(
        sum, make<ConstantOp>(DenseElementsAttr::get(
                 type(sum),
                 builder.getIntegerAttr(type(sum).getElementType(), count))));
  return make<MulOp>(sum, splat(type(sum), 1.0 / static_cast<double>(count)));
}

Value NodeImporter::slice(Value value, int64_t axis, int64_t start,
                          int64_t limit) {
  if (start == 0 && limit == shape(value)[axis])
    return value;
  SmallVector<int64_t> starts(shape(value).size(), 0), limits(shape(value));
  SmallVector<int64_t> strides(shape(value).size(), 1);
  starts[axis] = start;
  limits[axis] = limit;
  return make<SliceOp>(value, starts, limits, strides);
}

Value NodeImporter::take(Value value, int64_t axis,
                         ArrayRef<int64_t> positions) {
  Value indices = constant(Constant::list(builder, positions));
  return make<GatherOp>(value, indices, axis);
}

Value NodeImporter::join(ArrayRef<Value> values, int64_t axis, bool isNew) {
  SmallVector<Value> parts;
  SmallVector<int64_t> joined;
  for (Value value : values) {
    SmallVector<int64_t> own(shape(value));
    if (isNew)
      own.insert(own.begin() + axis, 1);
    if (joined.empty()) {
      joined = own;
      joined[axis] = 0;
    }
    SmallVector<int64_t> expected(joined);
    if (expected.size() == own.size())
      expected[axis] = own[axis];
    if (expected != own ||
        type(value).getElementType() != type(values.front()).getElementType()) {
      (void)error("joins tensors of different types or shapes");
      return nullptr;
    }
    joined[axis] += own[axis];
    if (own[axis] > 0)
      parts.push_back(reshape(value, own));
  }
  if (parts.empty())
    return constant(Constant(DenseElementsAttr::get(
        type(values.front()).clone(joined), ArrayRef<Attribute>())));
  return parts.size() == 1
             ? parts.front()
             : make<ConcatOp>(type(parts.front()).clone(joined), parts, axis);
}

Value NodeImporter::folded(Value value) {
  Constant known = evaluate(value);
  if (!known || value.getDefiningOp<ConstantOp>())
    return value;
  SmallVector<Operation *> unused = {value.getDefiningOp()};
  while (!unused.empty()) {
    Operation *op = unused.pop_back_val();
    if (!op || !op->use_empty())
      continue;
    SmallVector<Value> operands(op->getOperands());
    op->erase();
    for (Value operand : operands)
      if (!llvm::is_contained(unused, operand.getDefiningOp()))
        unused.push_back(operand.getDefiningOp());
  }
  return constant(known);
}
