//===- CostFileTest.cpp - What a file of measured costs knows -------------===//
#include "pp/Interfaces/CostFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace pp;

namespace {

CostFile read(llvm::StringRef json) {
  llvm::SmallString<128> path;
  EXPECT_FALSE(llvm::sys::fs::createTemporaryFile("costs", "json", path));
  llvm::FileRemover remover(path);
  std::error_code error;
  llvm::raw_fd_ostream(path, error) << json;
  auto file = CostFile::read(path, "cpu");
  EXPECT_TRUE(static_cast<bool>(file)) << llvm::toString(file.takeError());
  return std::move(*file);
}

/// Costs of inference have no update, whose fields would name threads.
TEST(CostFile, KnowsThreadsByKernels) {
  CostFile file = read(R"({"version": 1, "kernels": {
      "a threads": 1, "a threads alone": 2, "a threads threads=2": 3,
      "b": 4, "b threads=4 alone": 5}})");
  EXPECT_EQ(file.threads, (std::set<int64_t>{1, 2}));
  EXPECT_TRUE(file.knowsAlone(1));
  EXPECT_FALSE(file.knowsAlone(2));
  EXPECT_TRUE(file.knowsAlone(4));
  EXPECT_EQ(file.findKernel(1, "a threads", CostFile::Others::Idle), 2);
  EXPECT_EQ(file.findKernel(1, "a threads", CostFile::Others::Busy), 1);
  EXPECT_EQ(file.findKernel(2, "a threads", CostFile::Others::Idle), 3);
  EXPECT_EQ(file.findKernel(4, "b", CostFile::Others::Busy), std::nullopt);
}

TEST(CostFile, KnowsThreadsByUpdates) {
  CostFile file = read(R"({"version": 1, "kernels": {},
      "update_alone_seconds_per_byte": 1,
      "threads": {"2": {"update_seconds_per_byte": 3}}})");
  EXPECT_EQ(file.threads, (std::set<int64_t>{1, 2}));
  EXPECT_TRUE(file.knowsAlone(1));
  EXPECT_FALSE(file.knowsAlone(2));
  EXPECT_EQ(file.findUpdate(1, CostFile::Others::Idle), 1);
  EXPECT_EQ(file.findUpdate(2, CostFile::Others::Idle), 3);
}

} // namespace
