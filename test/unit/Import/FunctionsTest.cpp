//===- FunctionsTest.cpp - Model-local functions, hints, tensors ----------===//
#include "TemporaryFolder.h"
#include "pp/Import/Onnx/Reader.h"
#include "ppmlir_onnx.pb.h"
#include "gtest/gtest.h"

using namespace ppmlir_onnx;
using pp::onnx::Attribute;
using pp::onnx::Model;
using pp::onnx::Node;
using pp::onnx::ReaderOptions;
using pp::onnx::readModel;

namespace {

void addOpset(google::protobuf::RepeatedPtrField<OperatorSetIdProto> &opsets,
              const std::string &domain, int64_t version) {
  OperatorSetIdProto &opset = *opsets.Add();
  opset.set_domain(domain);
  opset.set_version(version);
}

template <typename Parent>
NodeProto &
addNode(Parent &parent, const std::string &op, std::vector<std::string> inputs,
        std::vector<std::string> outputs, const std::string &name = "",
        const std::string &domain = "") {
  NodeProto &node = *parent.add_node();
  node.set_op_type(op);
  node.set_name(name);
  node.set_domain(domain);
  for (const std::string &input : inputs)
    node.add_input(input);
  for (const std::string &output : outputs)
    node.add_output(output);
  return node;
}

void addValue(google::protobuf::RepeatedPtrField<ValueInfoProto> &values,
              const std::string &name) {
  ValueInfoProto &value = *values.Add();
  value.set_name(name);
  value.mutable_type()->mutable_tensor_type()->set_elem_type(1);
}

class Functions : public testing::Test {
protected:
  Functions() {
    proto.set_ir_version(10);
    addOpset(*proto.mutable_opset_import(), "ai.onnx", 17);
    addOpset(*proto.mutable_opset_import(), "local", 1);
    graph().set_name("graph");
    addValue(*graph().mutable_input(), "x");
    addValue(*graph().mutable_output(), "y");
  }

  GraphProto &graph() { return *proto.mutable_graph(); }

  FunctionProto &addFunction(const std::string &name,
                             std::vector<std::string> inputs,
                             std::vector<std::string> outputs) {
    FunctionProto &function = *proto.add_functions();
    function.set_name(name);
    function.set_domain("local");
    addOpset(*function.mutable_opset_import(), "", 15);
    for (const std::string &input : inputs)
      function.add_input(input);
    for (const std::string &output : outputs)
      function.add_output(output);
    return function;
  }

  /// The model, or null with `message` set.
  std::unique_ptr<Model> read(const ReaderOptions &options = {}) {
    std::string path = folder.write("model.onnx", proto.SerializeAsString());
    auto model = readModel(path, options);
    if (model)
      return std::move(*model);
    message = llvm::toString(model.takeError());
    return nullptr;
  }

  TemporaryFolder folder;
  ModelProto proto;
  std::string message;
};

TEST_F(Functions, bodiesReplaceCalls) {
  FunctionProto &twice = addFunction("twice", {"a"}, {"b"});
  addNode(twice, "Add", {"a", "a"}, {"sum"}, "add");
  addNode(twice, "Relu", {"sum"}, {"b"}, "relu");
  addNode(graph(), "twice", {"x"}, {"sum"}, "first", "local");
  addNode(graph(), "twice", {"sum"}, {"y"}, "second", "local");
  auto model = read();
  ASSERT_TRUE(model) << message;
  const std::vector<Node> &nodes = model->graph.nodes;
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_EQ(nodes[0].name, "first/add");
  EXPECT_EQ(nodes[0].inputs, (std::vector<std::string>{"x", "x"}));
  EXPECT_EQ(nodes[0].version, 15); // The function's own opset.
  EXPECT_EQ(nodes[1].outputs, (std::vector<std::string>{"sum"}));
  EXPECT_NE(nodes[0].outputs[0], "sum"); // That name is taken.
  EXPECT_NE(nodes[0].outputs, nodes[2].outputs);
  EXPECT_EQ(nodes[3].name, "second/relu");
  EXPECT_EQ(nodes[3].outputs, (std::vector<std::string>{"y"}));
  EXPECT_EQ(nodes[3].index, 1);
}

TEST_F(Functions, attributesAreBound) {
  FunctionProto &function = addFunction("f", {"a"}, {"b"});
  function.add_attribute("slope");
  AttributeProto &standard = *function.add_attribute_proto();
  standard.set_name("limit");
  standard.set_type(1);
  standard.set_f(6);
  NodeProto &node = addNode(function, "Custom", {"a"}, {"b"});
  for (const char *name : {"slope", "limit", "missing"}) {
    AttributeProto &attribute = *node.add_attribute();
    attribute.set_name(std::string("inner_") + name);
    attribute.set_ref_attr_name(name);
    attribute.set_type(1);
  }
  NodeProto &call = addNode(graph(), "f", {"x"}, {"y"}, "call", "local");
  AttributeProto &slope = *call.add_attribute();
  slope.set_name("slope");
  slope.set_type(1);
  slope.set_f(0.25);
  auto model = read();
  ASSERT_TRUE(model) << message;
  const Node &inner = model->graph.nodes[0];
  ASSERT_EQ(inner.attributes.size(), 2u);
  EXPECT_EQ(inner.attribute("inner_slope")->f, 0.25);
  EXPECT_EQ(inner.attribute("inner_limit")->f, 6);
  EXPECT_FALSE(inner.attribute("inner_missing"));
}

TEST_F(Functions, overloadsAreDistinct) {
  FunctionProto &plain = addFunction("f", {"a"}, {"b"});
  addNode(plain, "Relu", {"a"}, {"b"});
  FunctionProto &other = addFunction("f", {"a"}, {"b"});
  other.set_overload("other");
  addNode(other, "Tanh", {"a"}, {"b"});
  addNode(graph(), "f", {"x"}, {"y"}, "call", "local").set_overload("other");
  auto model = read();
  ASSERT_TRUE(model) << message;
  EXPECT_EQ(model->graph.nodes[0].opType, "Tanh");
}

TEST_F(Functions, optionalInputsAndUnusedOutputs) {
  FunctionProto &f = addFunction("f", {"a", "bias"}, {"b", "c"});
  addNode(f, "Op", {"a", "bias"}, {"b", "c"});
  addNode(graph(), "f", {"x"}, {"", "y"}, "call", "local");
  auto model = read();
  ASSERT_TRUE(model) << message;
  const Node &node = model->graph.nodes[0];
  EXPECT_EQ(node.inputs, (std::vector<std::string>{"x", ""}));
  EXPECT_EQ(node.outputs, (std::vector<std::string>{"call/b", "y"}));
}

TEST_F(Functions, outputThatIsAnInput) {
  addFunction("f", {"a"}, {"a"});
  addNode(graph(), "f", {"x"}, {"y"}, "call", "local");
  auto model = read();
  ASSERT_TRUE(model) << message;
  ASSERT_EQ(model->graph.nodes.size(), 1u);
  EXPECT_EQ(model->graph.nodes[0].opType, "Identity");
}

TEST_F(Functions, subgraphsAreRenamedToo) {
  FunctionProto &f = addFunction("f", {"a"}, {"b"});
  addNode(f, "Relu", {"a"}, {"inner"});
  NodeProto &branch = addNode(f, "If", {"a"}, {"b"}, "if");
  AttributeProto &attribute = *branch.add_attribute();
  attribute.set_name("then_branch");
  attribute.set_type(5);
  GraphProto &then = *attribute.mutable_g();
  then.set_name("then");
  addNode(then, "Neg", {"inner"}, {"out"});
  addValue(*then.mutable_output(), "out");
  addNode(graph(), "f", {"x"}, {"z"}, "one", "local");
  addNode(graph(), "f", {"z"}, {"y"}, "two", "local");
  auto model = read();
  ASSERT_TRUE(model) << message;
  const auto &subgraph = model->graph.nodes[3].attributes[0].graphs[0];
  EXPECT_EQ(subgraph.nodes[0].inputs[0], "two/inner");
  EXPECT_EQ(subgraph.outputs[0].name, "two/out");
}

TEST_F(Functions, tooManyArguments) {
  FunctionProto &f = addFunction("f", {"a"}, {"b"});
  addNode(f, "Relu", {"a"}, {"b"});
  addNode(graph(), "f", {"x", "x"}, {"y"}, "call", "local");
  EXPECT_FALSE(read());
  EXPECT_NE(message.find("\"call\" (f, #0): error: the call has 2 inputs"),
            std::string::npos)
      << message;
}

TEST_F(Functions, largeConstantsCannotBeMultiplied) {
  FunctionProto &f = addFunction("f", {"a"}, {"b"});
  NodeProto &constant = addNode(f, "Constant", {}, {"b"});
  AttributeProto &value = *constant.add_attribute();
  value.set_name("value");
  value.set_type(4);
  value.mutable_t()->set_data_type(1);
  value.mutable_t()->add_dims(1 << 18);
  for (int i = 0; i < 1 << 18; ++i)
    value.mutable_t()->add_float_data(0);
  for (int i = 0; i < 1000; ++i)
    addNode(graph(), "f", {"x"}, {i ? "v" + std::to_string(i) : "y"}, "call",
            "local");
  EXPECT_FALSE(read());
  EXPECT_NE(message.find("MiB"), std::string::npos) << message;
}

TEST_F(Functions, deepCallsAreRefused) {
  for (int i = 0; i < 102; ++i) {
    FunctionProto &f = addFunction("f" + std::to_string(i), {"a"}, {"b"});
    if (i == 0)
      addNode(f, "Relu", {"a"}, {"b"});
    else
      addNode(f, "f" + std::to_string(i - 1), {"a"}, {"b"}, "", "local");
  }
  addNode(graph(), "f101", {"x"}, {"y"}, "call", "local");
  EXPECT_FALSE(read());
  EXPECT_NE(message.find("102 deep, the limit is 100"), std::string::npos)
      << message;
}

TEST_F(Functions, pipelineStageIsRead) {
  DeviceConfigurationProto &configuration = *proto.add_configuration();
  configuration.set_name("two");
  configuration.set_num_devices(2);
  FunctionProto &f = addFunction("f", {"a"}, {"b"});
  addNode(f, "Relu", {"a"}, {"b"});
  auto setStage = [](NodeProto &node, int stage) {
    NodeDeviceConfigurationProto &device = *node.add_device_configurations();
    device.set_configuration_id("two");
    device.set_pipeline_stage(stage);
  };
  setStage(addNode(graph(), "Relu", {"x"}, {"z"}, "a"), 0);
  setStage(addNode(graph(), "f", {"z"}, {"w"}, "b", "local"), 1);
  addNode(graph(), "Relu", {"w"}, {"y"}, "c");
  auto model = read();
  ASSERT_TRUE(model) << message;
  EXPECT_EQ(model->configurations.at(0).deviceCount, 2);
  EXPECT_EQ(model->graph.nodes[0].pipelineStage, 0);
  EXPECT_EQ(model->graph.nodes[1].pipelineStage, 1); // From the call.
  EXPECT_FALSE(model->graph.nodes[2].pipelineStage);
}

TEST_F(Functions, initializersAreNotInputs) {
  addValue(*graph().mutable_input(), "w");
  TensorProto &w = *graph().add_initializer();
  w.set_name("w");
  w.set_data_type(7);
  w.add_dims(2);
  w.add_int64_data(3);
  w.add_int64_data(-1);
  addNode(graph(), "Add", {"x", "w"}, {"y"});
  auto model = read();
  ASSERT_TRUE(model) << message;
  EXPECT_EQ(model->graph.inputs.size(), 1u);
  const pp::onnx::Tensor &tensor = model->graph.initializers[0];
  EXPECT_FALSE(tensor.location);
  auto bytes = llvm::cantFail(model->bytes(tensor));
  ASSERT_EQ(bytes.size(), 16u);
  EXPECT_EQ(bytes[0], 3);
  EXPECT_EQ(bytes[15], 255);
}

TEST_F(Functions, rawConstantsInNodesAreLocated) {
  NodeProto &constant = addNode(graph(), "Constant", {}, {"y"}, "c");
  AttributeProto &value = *constant.add_attribute();
  value.set_name("value");
  value.set_type(4);
  value.mutable_t()->set_data_type(9);
  value.mutable_t()->add_dims(3);
  value.mutable_t()->set_raw_data(std::string("\1\0\1", 3));
  auto model = read();
  ASSERT_TRUE(model) << message;
  const pp::onnx::Tensor &tensor =
      model->graph.nodes[0].attribute("value")->tensors[0];
  ASSERT_TRUE(tensor.location);
  auto bytes = llvm::cantFail(model->bytes(tensor));
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), std::string("\1\0\1", 3));
}

TEST_F(Functions, allErrorsOfAKindAreReported) {
  addNode(graph(), "Relu", {"p"}, {"a"}, "one");
  addNode(graph(), "Relu", {"q"}, {"y"}, "two");
  addNode(graph(), "Relu", {"x"}, {"a"}, "three");
  EXPECT_FALSE(read());
  for (const char *fragment :
       {"'p', which nothing", "'q', which nothing", "'a' is defined twice"})
    EXPECT_NE(message.find(fragment), std::string::npos) << message;
}

TEST_F(Functions, capturesOrderSubgraphs) {
  // The If reads "late" from inside; its producer comes later in the file.
  NodeProto &branch = addNode(graph(), "If", {"x"}, {"y"}, "if");
  AttributeProto &attribute = *branch.add_attribute();
  attribute.set_name("then_branch");
  attribute.set_type(5);
  addNode(*attribute.mutable_g(), "Neg", {"late"}, {"out"});
  addValue(*attribute.mutable_g()->mutable_output(), "out");
  addNode(graph(), "Relu", {"x"}, {"late"}, "relu");
  auto model = read();
  ASSERT_TRUE(model) << message;
  EXPECT_EQ(model->graph.nodes[0].name, "relu");
  EXPECT_EQ(model->warnings.size(), 1u);
}

TEST_F(Functions, namesAreEscaped) {
  addNode(graph(), "Re\x1b[31mlu", {"z"}, {"y"}, std::string(1000, 'n') + "\n");
  EXPECT_FALSE(read());
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 700u);
}

TEST_F(Functions, longChainsAreLinear) {
  constexpr int length = 100000;
  for (int i = 0; i < length; ++i)
    addNode(graph(), "Relu", {i ? "v" + std::to_string(i) : "x"},
            {i + 1 < length ? "v" + std::to_string(i + 1) : "y"});
  auto model = read();
  ASSERT_TRUE(model) << message;
  EXPECT_EQ(model->graph.nodes.size(), static_cast<size_t>(length));
}

} // namespace
