//===- ExportedModelsTest.cpp - What PyTorch's exporters write ------------===//
//
// Compares with test/models/*/summary.json, which export.py writes with the
// onnx package.
//
//===----------------------------------------------------------------------===//
#include "pp/Import/Onnx/Reader.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"
#include <filesystem>

using namespace pp::onnx;
namespace json = llvm::json;

namespace {

json::Value parseFile(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? llvm::cantFail(json::parse((*buffer)->getBuffer()))
                : json::Value(nullptr);
}

std::vector<std::string> exportedModels() {
  std::vector<std::string> result;
  for (auto &folder : std::filesystem::directory_iterator(PP_MODELS)) {
    std::string summary = folder.path().string() + "/summary.json";
    if (!std::filesystem::exists(summary))
      continue;
    json::Value value = parseFile(summary);
    for (auto &[file, ignored] : *value.getAsObject())
      result.push_back(folder.path().string() + "/" + file.str());
  }
  std::sort(result.begin(), result.end());
  return result;
}

void compareValues(const std::vector<ValueInfo> &values,
                   const json::Array &expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const json::Object &value = *expected[i].getAsObject();
    EXPECT_EQ(values[i].name, *value.getString("name"));
    EXPECT_EQ(dataTypeName(values[i].type), *value.getString("type"));
    const json::Array &dims = *value.getArray("dims");
    ASSERT_EQ(values[i].dims.size(), dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      if (auto size = dims[d].getAsInteger()) {
        EXPECT_EQ(values[i].dims[d].size, *size);
      } else {
        EXPECT_EQ(values[i].dims[d].kind, Dimension::Kind::Symbol);
        EXPECT_EQ(values[i].dims[d].symbol, *dims[d].getAsString());
      }
    }
  }
}

class ExportedModels : public testing::TestWithParam<std::string> {};

TEST_P(ExportedModels, matchesSummary) {
  std::filesystem::path path = GetParam();
  json::Value summaries =
      parseFile((path.parent_path() / "summary.json").string());
  const json::Object &expected =
      *summaries.getAsObject()->getObject(path.filename().string());
  llvm::Expected<std::unique_ptr<Model>> read = readModel(path.string());
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  const Model &model = **read;
  const Graph &graph = model.graph;

  EXPECT_TRUE(model.warnings.empty());
  EXPECT_EQ(model.irVersion, *expected.getInteger("ir_version"));
  EXPECT_EQ(model.opsets.at(""),
            *expected.getObject("opset")->getInteger("ai.onnx"));
  ASSERT_EQ(graph.nodes.size(),
            static_cast<size_t>(*expected.getInteger("nodes")));
  EXPECT_EQ(graph.nodes.front().name, *expected.getString("first_node"));
  EXPECT_EQ(graph.nodes.back().name, *expected.getString("last_node"));
  std::map<std::string, int64_t> ops;
  for (const Node &node : graph.nodes) {
    ++ops[node.opType];
    EXPECT_EQ(node.version, model.opsets.at(node.domain));
  }
  for (auto &[op, count] : *expected.getObject("ops"))
    EXPECT_EQ(ops[op.str()], *count.getAsInteger()) << op.str();

  compareValues(graph.inputs, *expected.getArray("inputs"));
  compareValues(graph.outputs, *expected.getArray("outputs"));

  const json::Array &initializers = *expected.getArray("initializers");
  ASSERT_EQ(graph.initializers.size(), initializers.size());
  for (size_t i = 0; i < initializers.size(); ++i) {
    const json::Object &entry = *initializers[i].getAsObject();
    const Tensor &tensor = graph.initializers[i];
    EXPECT_EQ(tensor.name, *entry.getString("name"));
    EXPECT_EQ(dataTypeName(tensor.type), *entry.getString("type"));
    std::vector<int64_t> dims;
    for (auto &dim : *entry.getArray("dims"))
      dims.push_back(*dim.getAsInteger());
    EXPECT_EQ(tensor.dims, dims);
    auto bytes = model.bytes(tensor);
    ASSERT_TRUE(bool(bytes)) << llvm::toString(bytes.takeError());
    EXPECT_EQ(bytes->size(), static_cast<size_t>(*entry.getInteger("bytes")));
    EXPECT_EQ(llvm::toHex(bytes->take_front(16), /*LowerCase=*/true),
              *entry.getString("first_bytes"));
    // Weights stay in their file.
    if (bytes->size() > 64 * 1024)
      EXPECT_TRUE(tensor.location.has_value());
  }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, ExportedModels,
                         testing::ValuesIn(exportedModels()),
                         [](const auto &info) {
                           std::string name =
                               std::filesystem::path(info.param).stem();
                           for (char &c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           return name;
                         });

TEST(ExportedModels, thereAreSome) { EXPECT_GE(exportedModels().size(), 15u); }

TEST(ExportedModels, externalDataIsLocated) {
  auto model = readModel(PP_MODELS "/mlp/mlp.external.onnx");
  ASSERT_TRUE(bool(model)) << llvm::toString(model.takeError());
  EXPECT_EQ((*model)->files->size(), 2u);
  EXPECT_EQ((*model)->files->path(1), PP_MODELS "/mlp/mlp.external.bin");
  for (const Tensor &tensor : (*model)->graph.initializers)
    EXPECT_EQ(tensor.location->file, 1u);
}

} // namespace
