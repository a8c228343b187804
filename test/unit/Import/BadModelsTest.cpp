//===- BadModelsTest.cpp - Files that must be rejected without harm -------===//
#include "pp/Import/Onnx/Reader.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"

using namespace pp::onnx;

namespace {

struct BadModel {
  std::string file;
  std::string severity, stage;
  std::vector<std::string> fragments;
};

void PrintTo(const BadModel &model, std::ostream *os) { *os << model.file; }

std::vector<BadModel> badModels() {
  auto buffer = llvm::MemoryBuffer::getFile(PP_BAD_MODELS "/expected.json");
  if (!buffer)
    return {};
  llvm::json::Value json =
      llvm::cantFail(llvm::json::parse((*buffer)->getBuffer()));
  std::vector<BadModel> result;
  for (auto &[file, value] : *json.getAsObject()) {
    llvm::json::Object &entry = *value.getAsObject();
    BadModel model{file.str(),
                   entry.getString("severity")->str(),
                   entry.getString("stage")->str(),
                   {}};
    for (auto &fragment : *entry.getArray("fragments"))
      model.fragments.push_back(fragment.getAsString()->str());
    result.push_back(std::move(model));
  }
  std::sort(result.begin(), result.end(),
            [](auto &a, auto &b) { return a.file < b.file; });
  return result;
}

std::string print(const std::vector<Diagnostic> &diagnostics) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const Diagnostic &diagnostic : diagnostics)
    diagnostic.print(os);
  return text;
}

class BadModels : public testing::TestWithParam<BadModel> {};

TEST_P(BadModels, saysWhatIsWrong) {
  const BadModel &bad = GetParam();
  std::string path = std::string(PP_BAD_MODELS "/") + bad.file;
  std::string text;
  llvm::Expected<std::unique_ptr<Model>> model = readModel(path);
  if (model) {
    EXPECT_TRUE(bad.stage == "import" || bad.severity == "warning")
        << "was read without an error";
    text = print((*model)->warnings);
    if (bad.stage == "import")
      return;
  } else {
    llvm::handleAllErrors(model.takeError(), [&](const ReadError &error) {
      text = print(error.diagnostics);
    });
    EXPECT_TRUE(bad.stage == "read" && bad.severity == "error") << text;
  }
  EXPECT_NE(text.find(path + ":"), std::string::npos) << text;
  for (const std::string &fragment : bad.fragments)
    EXPECT_NE(text.find(fragment), std::string::npos)
        << "no \"" << fragment << "\" in: " << text;
}

INSTANTIATE_TEST_SUITE_P(Checklist, BadModels, testing::ValuesIn(badModels()),
                         [](const auto &info) {
                           std::string name = info.param.file;
                           for (char &c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           return name;
                         });

TEST(BadModels, thereAreSome) { EXPECT_GT(badModels().size(), 50u); }

TEST(BadModels, committedFilesAreCurrent) {
  for (const BadModel &bad : badModels()) {
    auto made = llvm::MemoryBuffer::getFile(PP_BAD_MODELS "/" + bad.file);
    auto committed = llvm::MemoryBuffer::getFile(PP_MODELS "/bad/" + bad.file);
    ASSERT_TRUE(bool(committed)) << bad.file << ": run make.py";
    EXPECT_EQ((*committed)->getBuffer(), (*made)->getBuffer())
        << bad.file << ": run make.py";
  }
}

TEST(BadModels, missingFileIsInputOutput) {
  auto model = readModel(PP_BAD_MODELS "/none.onnx");
  ASSERT_FALSE(bool(model));
  llvm::handleAllErrors(model.takeError(), [&](const ReadError &error) {
    ASSERT_EQ(error.diagnostics.size(), 1u);
    EXPECT_EQ(error.diagnostics[0].category, Category::InputOutput);
  });
}

TEST(BadModels, folderAndFifoAreNotOpenedAsModels) {
  for (const char *path : {PP_BAD_MODELS "/folder", PP_BAD_MODELS "/fifo"}) {
    auto model = readModel(path);
    ASSERT_FALSE(bool(model));
    EXPECT_NE(llvm::toString(model.takeError()).find("not a regular file"),
              std::string::npos);
  }
}

TEST(BadModels, hardlinksCanBeAllowed) {
  ReaderOptions options;
  options.allowHardlinks = true;
  auto model = readModel(PP_BAD_MODELS "/B33-hardlink.onnx", options);
  ASSERT_TRUE(bool(model)) << llvm::toString(model.takeError());
  EXPECT_EQ(
      llvm::cantFail((*model)->bytes((*model)->graph.initializers[0])).size(),
      16u);
}

} // namespace
