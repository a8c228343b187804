//===- OnnxFileTest.cpp - ONNX files that are written again ---------------===//
#include "formats/OnnxFile.h"
#include "TestFiles.h"
#include "support/AtomicFile.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace pp::runtime;

namespace {

std::string varint(uint64_t value) {
  std::string text;
  for (; value > 127; value >>= 7)
    text += static_cast<char>(value | 128);
  return text + static_cast<char>(value);
}
std::string field(unsigned number, const std::string &bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string field(unsigned number, uint64_t value) {
  return varint(number << 3) + varint(value);
}

std::string tensor(const std::string &name, unsigned type, unsigned size,
                   const std::string &values) {
  return field(5, field(1, uint64_t(size)) + field(2, uint64_t(type)) +
                      field(8, name) + values);
}
std::string node(const std::string &type,
                 const std::vector<std::string> &inputs,
                 const std::vector<std::string> &outputs,
                 const std::string &more = "") {
  std::string text;
  for (const std::string &input : inputs)
    text += field(1, input);
  for (const std::string &output : outputs)
    text += field(2, output);
  return field(1, text + field(4, type) + more);
}
std::string model(const std::string &graph, unsigned version = 17) {
  return field(1, uint64_t(8)) + field(7, graph) +
         field(8, field(2, uint64_t(version)));
}
std::string mode(const std::string &name, uint64_t value) {
  return field(5, field(1, name) + field(3, value) + field(20, uint64_t(2)));
}
std::string floats(std::initializer_list<float> values) {
  std::string text;
  for (float value : values)
    text.append(reinterpret_cast<const char *>(&value), sizeof(value));
  return text;
}

class OnnxFileTest : public testing::Test {
protected:
  std::string write(const std::string &content) {
    writeText(directory.file("m.onnx"), content);
    return directory.file("m.onnx");
  }
  /// With `values` for the initializers that are replaced.
  std::string rewritten(OnnxFile &file,
                        std::map<size_t, std::string> values = {}) {
    std::vector<size_t> asked;
    AtomicFile out(directory.file("out.onnx"));
    file.write(out, [&](size_t number) {
      asked.push_back(number);
      return std::string_view(values.at(number));
    });
    out.commit();
    EXPECT_EQ(asked, file.order());
    return readText(directory.file("out.onnx"));
  }

  TemporaryDirectory directory;
};

TEST_F(OnnxFileTest, NothingChangesWhereNothingIsReplaced) {
  // Lengths with more digits than they need, fields that nobody knows.
  std::string graph = node("Relu", {"x"}, {"y"}) + field(900, "kept");
  std::string text = field(1, uint64_t(8)) + varint(7 << 3 | 2) +
                     static_cast<char>(graph.size() | 128) + '\0' + graph +
                     field(8, field(2, uint64_t(17))) + field(901, "kept");
  OnnxFile file(write(text));
  EXPECT_EQ(file.getInferenceNodes(), 0u);
  EXPECT_EQ(rewritten(file), text);
}

TEST_F(OnnxFileTest, ValuesGoWhereTheyWere) {
  std::string before = floats({1, 2}), after = floats({5, 6});
  // In f16: 1 and 2, and 5 and 6; their digits have other lengths.
  std::string short1 = std::string("\x00\x3c\x00\x40", 4);
  std::string short2 = std::string("\x00\x00\x01\x00", 4);
  auto build = [&](const std::string &raw, const std::string &typed,
                   const std::string &integers) {
    return model(tensor("raw", 1, 2, field(9, raw) + field(12, "doc")) +
                 tensor("typed", 1, 2, typed) +
                 tensor("short", 10, 2, integers));
  };
  std::string one = varint(4 << 3 | 5) + before.substr(0, 4);
  std::string two = varint(4 << 3 | 5) + before.substr(4, 4);
  OnnxFile file(write(
      build(before, one + two, field(5, varint(0x3c00) + varint(0x4000)))));
  ASSERT_EQ(file.getInitializers().size(), 3u);
  EXPECT_EQ(file.getInitializers()[0].form, OnnxInitializer::Form::Raw);
  EXPECT_EQ(file.getInitializers()[1].form, OnnxInitializer::Form::Floats);
  EXPECT_EQ(file.getInitializers()[2].form, OnnxInitializer::Form::Integers);
  for (size_t i = 0; i < 3; ++i)
    file.replace(i);
  EXPECT_EQ(rewritten(file, {{0, after}, {1, after}, {2, short2}}),
            build(after, field(4, after), field(5, varint(0) + varint(1))));
}

TEST_F(OnnxFileTest, ConstantsOfNodesAreValues) {
  std::string before = floats({1, 2}), after = floats({5, 6});
  auto constant = [](const std::string &name, const std::string &values) {
    std::string value = field(1, uint64_t(2)) + field(2, uint64_t(1)) +
                        field(8, "its own name") + values;
    return node(
        "Constant", {}, {name},
        field(5, field(1, "value") + field(5, value) + field(20, uint64_t(4))));
  };
  auto build = [&](const std::string &values) {
    return model(constant("w", field(9, values)) +
                 node("Constant", {}, {"n"}, mode("value_int", 3)) +
                 node("Other", {}, {"o"}));
  };
  OnnxFile file(write(build(before)));
  ASSERT_EQ(file.getInitializers().size(), 1u);
  EXPECT_EQ(file.getInitializers()[0].name, "w");
  EXPECT_EQ(file.getInitializers()[0].shape, Shape{2});
  file.replace(0);
  EXPECT_EQ(rewritten(file, {{0, after}}), build(after));
}

TEST_F(OnnxFileTest, NodesAreSetForInference) {
  struct {
    unsigned version;
    std::string before, after;
  } cases[] = {
      {14,
       node("BatchNormalization", {"x", "s"}, {"y", "m", "v"},
            mode("training_mode", 1)),
       node("BatchNormalization", {"x", "s"}, {"y"}, mode("training_mode", 0))},
      {9, node("BatchNormalization", {"x"}, {"y", "m", "v", "a", "b"}),
       node("BatchNormalization", {"x"}, {"y"})},
      {6, node("BatchNormalization", {"x"}, {"y"}, mode("is_test", 0)),
       node("BatchNormalization", {"x"}, {"y"}, mode("is_test", 1))},
      {6, node("Dropout", {"x"}, {"y"}),
       node("Dropout", {"x"}, {"y"}, mode("is_test", 1))},
      {7, node("Dropout", {"x"}, {"y"}), node("Dropout", {"x"}, {"y"})},
      {13, node("Dropout", {"x", "r", "t"}, {"y"}),
       node("Dropout", {"x", "r"}, {"y"})},
      // Only these.
      {17, node("Gru", {"x", "r", "t"}, {"y", "z"}),
       node("Gru", {"x", "r", "t"}, {"y", "z"})},
  };
  for (const auto &test : cases) {
    // In the graph, and in a graph of a node.
    auto wrap = [&](const std::string &text) {
      return model(node("If", {"c"}, {"o"}, field(5, field(6, text))) + text,
                   test.version);
    };
    OnnxFile file(write(wrap(test.before)));
    EXPECT_EQ(rewritten(file), wrap(test.after)) << test.version;
    EXPECT_EQ(file.getInferenceNodes(), test.before == test.after ? 0u : 2u);
  }
}

TEST_F(OnnxFileTest, RandomNumbersAreCounted) {
  OnnxFile file(write(model(node("RandomUniformLike", {"x"}, {"y"}) +
                                node("Bernoulli", {"y"}, {"z"}) +
                                node("Dropout", {"z"}, {"o"}),
                            17)));
  EXPECT_EQ(file.getRandomNodes(), 2u);
}

TEST_F(OnnxFileTest, CopiesGetNamesOfTheirOwn) {
  std::string value = floats({1, 2});
  auto graph = [&](const std::string &name, const std::string &more) {
    return model(tensor("w", 1, 2, field(9, value)) + more +
                 node("Mul", {"x", "w"}, {"y"}) +
                 node("Mul", {"y", name}, {"z"}));
  };
  OnnxFile file(write(graph("w", "")));
  EXPECT_EQ(file.getInput(1, 1), "w");
  size_t copy = file.addCopy(0, "another");
  file.setInput(1, 1, "w", "another");
  EXPECT_NE(errorOf([&] { file.setInput(7, 0, "w", "v"); }).find("node 7"),
            std::string::npos);
  std::string added = floats({3, 4});
  EXPECT_EQ(rewritten(file, {{copy, added}}),
            graph("another", tensor("another", 1, 2, field(9, added))));
}

TEST_F(OnnxFileTest, DamagedFilesAreRefused) {
  std::string good = model(
      tensor("w", 1, 2, field(9, floats({1, 2}))) +
      node("BatchNormalization", {"x"}, {"y", "m"}, mode("training_mode", 1)));
  for (size_t length = 0; length < good.size(); ++length) {
    std::string path = write(good.substr(0, length));
    std::string error = errorOf([&] { OnnxFile file(path); });
    // The opsets stand behind the graph, so a part may be a model.
    if (length < good.size() - 4)
      EXPECT_NE(error.find("not an ONNX file"), std::string::npos) << length;
  }
  // Any byte, any value: an error, or a file.
  for (size_t at = 0; at < good.size(); ++at)
    for (int bits : {1, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ bits);
      std::string path = write(bad);
      errorOf([&] {
        OnnxFile file(path);
        if (!file.getInitializers().empty())
          file.replace(0);
        std::string values(file.getInitializers().empty()
                               ? 0
                               : file.getInitializers()[0].bytes(),
                           'v');
        AtomicFile out(directory.file("out.onnx"));
        file.write(out, [&](size_t) { return std::string_view(values); });
      });
    }
  std::string deep = node("Relu", {"x"}, {"y"});
  for (int i = 0; i < 200; ++i)
    deep = node("If", {"c"}, {"o"}, field(5, field(6, deep)));
  std::string path = write(model(deep));
  EXPECT_NE(errorOf([&] { OnnxFile file(path); }).find("nested too deep"),
            std::string::npos);
}

} // namespace
