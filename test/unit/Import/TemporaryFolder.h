//===- TemporaryFolder.h - A folder that is gone after the test -----------===//
#ifndef PP_TEST_UNIT_IMPORT_TEMPORARYFOLDER_H
#define PP_TEST_UNIT_IMPORT_TEMPORARYFOLDER_H

#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>

class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "pp-test-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }

  std::string write(const std::string &name, const std::string &contents) {
    std::ofstream(path / name, std::ios::binary) << contents;
    return (path / name).string();
  }

  std::filesystem::path path;
};

#endif // PP_TEST_UNIT_IMPORT_TEMPORARYFOLDER_H
