//===- TorchNoGrad.cpp - torch.no_grad() in exported programs -------------===//
//
// torch.export makes a function of what runs under torch.no_grad() or under
// torch.autocast(), and then inlines it. The file has no word of that, but for
// the stack trace of each node, which is in the code of that function:
//
//   File "<eval_with_key>.36", line 5, in forward
//     linear = torch.ops.aten.linear.default(x, p_b_weight, p_b_bias); ...
//
// Functions of no_grad are made when the program's inputs have their names
// (p_b_weight), those of autocast before (arg4_1).
//
//===----------------------------------------------------------------------===//
#include "pp/Import/Onnx/TorchExport.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace pp::onnx;
using llvm::StringRef;

namespace {

/// What the nodes of an inlined function say of it.
struct Region {
  bool namesTensors = false, namesInputs = false, hasNumbers = false;
  /// Whether something that is trained comes in, and goes out again.
  bool isReached = false, isLeft = false;
  /// The names in its code.
  llvm::StringSet<> read, assigned;
  const Node *first = nullptr;
  int64_t nodes = 0;

  bool isNoGrad() const { return namesTensors || (namesInputs && !hasNumbers); }
  bool isUnknown() const { return !isNoGrad() && !hasNumbers; }
};

StringRef stackTrace(const Node &node) {
  for (const auto &[name, value] : node.metadata)
    if (name == "pkg.torch.onnx.stack_trace")
      return value;
  return "";
}

/// The number of the outermost function in a trace; "" in the model's own code.
StringRef functionIn(StringRef trace) {
  return trace.split("<eval_with_key>.").second.take_while(llvm::isDigit);
}

/// arg4_1, the name of an input before it has one.
bool isNumberOfInput(StringRef word) {
  if (!word.consume_front("arg"))
    return false;
  auto [first, second] = word.split('_');
  return !first.empty() && !second.empty() &&
         llvm::all_of(first, llvm::isDigit) &&
         llvm::all_of(second, llvm::isDigit);
}

class NoGradFinder {
public:
  explicit NoGradFinder(Model &model) : model(model), signature(model.graph) {}

  std::vector<Diagnostic> run() {
    findRegions();
    if (regions.size() == 1)
      return {};
    findReach();
    findExits();
    std::vector<Diagnostic> warnings = describeUnknown();
    stopAtExits();
    return warnings;
  }

private:
  void findRegions() {
    llvm::StringMap<unsigned> numbers;
    for (const Node &node : model.graph.nodes) {
      StringRef trace = stackTrace(node), function = functionIn(trace);
      // What the exporter's optimizer made has no trace: it is where all that
      // it reads is.
      unsigned number = trace.empty() ? commonRegion(node) : 0;
      if (!function.empty()) {
        auto [found, isNew] = numbers.try_emplace(function, regions.size());
        if (isNew)
          regions.emplace_back().first = &node;
        number = found->second;
      }
      for (const std::string &output : node.outputs)
        if (!output.empty())
          regionOfValue[output] = number;
      regionOfNode.push_back(number);
      Region &region = regions[number];
      ++region.nodes;
      readTrace(trace, region);
    }
    for (const ValueInfo &input : model.graph.inputs)
      for (Region &region : regions)
        region.namesInputs |= region.read.contains(input.name) &&
                              !region.assigned.contains(input.name);
  }

  /// Reads "mul = torch.ops.aten.mul.Tensor(relu, b_scale);  relu = None".
  void readTrace(StringRef trace, Region &region) {
    auto isInWord = [](char c) {
      return llvm::isAlnum(c) || c == '_' || c == '.';
    };
    llvm::SmallVector<StringRef> lines;
    trace.split(lines, '\n');
    for (StringRef line : lines) {
      auto [result, call] = line.split(';').first.split(" = ");
      region.assigned.insert(result.trim());
      while (!call.empty()) {
        StringRef word = call.take_while(isInWord);
        region.read.insert(word);
        region.namesTensors |= !signature.tensorOf(word).empty();
        region.hasNumbers |= isNumberOfInput(word);
        call = call.drop_front(word.size()).drop_until(isInWord);
      }
    }
  }

  unsigned commonRegion(const Node &node) const {
    std::optional<unsigned> common;
    for (const std::string &input : node.inputs)
      if (auto found = regionOfValue.find(input);
          found != regionOfValue.end()) {
        if (common.value_or(found->second) != found->second)
          return 0;
        common = found->second;
      }
    return common.value_or(0);
  }

  /// What depends on something that is trained.
  void findReach() {
    reached.insert_range(signature.parameters());
    for (auto [node, number] :
         llvm::zip_equal(model.graph.nodes, regionOfNode)) {
      bool isReached = llvm::any_of(node.inputs, [&](const std::string &input) {
        return reached.contains(input);
      });
      if (isReached)
        reached.insert_range(node.outputs);
      regions[number].isReached |= isReached;
    }
  }

  /// What is read outside of the region that makes it.
  void findExits() {
    for (auto [node, number] : llvm::zip_equal(model.graph.nodes, regionOfNode))
      read(node, number);
    for (const ValueInfo &output : model.graph.outputs)
      read(output.name, 0);
  }

  void read(const Node &node, unsigned reader) {
    for (const std::string &input : node.inputs)
      read(input, reader);
    for (const Attribute &attribute : node.attributes)
      for (const Graph &subgraph : attribute.graphs) {
        for (const Node &inner : subgraph.nodes)
          read(inner, reader);
        for (const ValueInfo &output : subgraph.outputs)
          read(output.name, reader);
      }
  }

  void read(StringRef value, unsigned reader) {
    unsigned maker = regionOfValue.lookup(value);
    if (maker == 0 || maker == reader || !reached.contains(value))
      return;
    regions[maker].isLeft = true;
    exits.insert(value);
  }

  std::vector<Diagnostic> describeUnknown() const {
    std::vector<Diagnostic> warnings;
    for (const Region &region : llvm::drop_begin(regions)) {
      if (!region.isUnknown() || !region.isReached || !region.isLeft)
        continue;
      Diagnostic &warning = warnings.emplace_back();
      warning.severity = Severity::Warning;
      warning.file = model.path;
      warning.nodeName = region.first->name;
      warning.nodeOp = region.first->opType;
      warning.nodeIndex = region.first->index;
      warning.message =
          "this node begins a region of torch.no_grad() or of "
          "torch.autocast(), " +
          std::to_string(region.nodes) +
          " nodes, and the file does not say of which: gradients flow "
          "through it. If they should not, call detach() on what it gives";
    }
    return warnings;
  }

  /// Inside a region, what leaves it gets another name; a call of detach()
  /// gives it to those outside.
  void stopAtExits() {
    auto isStopped = [&](StringRef value) {
      return exits.contains(value) &&
             regions[regionOfValue.lookup(value)].isNoGrad();
    };
    auto inside = [](StringRef value) {
      return (value + " without gradient").str();
    };
    std::vector<Node> nodes;
    for (auto [node, number] :
         llvm::zip_equal(model.graph.nodes, regionOfNode)) {
      for (std::string &input : node.inputs)
        if (regionOfValue.lookup(input) == number && isStopped(input))
          input = inside(input);
      std::vector<Node> stops;
      for (std::string &output : node.outputs)
        if (isStopped(output)) {
          stops.push_back(makeStop(node, inside(output), output));
          output = stops.back().inputs.front();
        }
      nodes.push_back(std::move(node));
      llvm::move(stops, std::back_inserter(nodes));
    }
    model.graph.nodes = std::move(nodes);
  }

  static Node makeStop(const Node &node, std::string from, std::string to) {
    Node stop;
    stop.name = node.name;
    stop.opType = "Identity";
    stop.version = node.version;
    stop.index = node.index;
    stop.pipelineStage = node.pipelineStage;
    stop.inputs = {std::move(from)};
    stop.outputs = {std::move(to)};
    stop.metadata = {{"pkg.torch.onnx.fx_node",
                      "%detach : call_function[target=torch.ops.aten.detach."
                      "default](args = (%no_grad,), kwargs = {})"}};
    return stop;
  }

  Model &model;
  TorchSignature signature;
  /// The first stands for the model's own code.
  std::vector<Region> regions{1};
  std::vector<unsigned> regionOfNode;
  llvm::StringMap<unsigned> regionOfValue;
  llvm::StringSet<> reached, exits;
};

} // namespace

std::vector<Diagnostic> pp::onnx::stopAtNoGrad(Model &model) {
  return NoGradFinder(model).run();
}
