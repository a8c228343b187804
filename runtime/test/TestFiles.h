//===- TestFiles.h - Temporary directories for tests ----------------------===//
#ifndef PP_RUNTIME_TEST_TESTFILES_H
#define PP_RUNTIME_TEST_TESTFILES_H

#include "support/Error.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

/// A directory that lives as long as the object.
class TemporaryDirectory {
public:
  TemporaryDirectory() {
    std::string name =
        (std::filesystem::temp_directory_path() / "pprt-test-XXXXXX").string();
    if (!::mkdtemp(name.data()))
      std::abort();
    path = name;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }
  std::string file(const std::string &name) const { return path + "/" + name; }

  std::string path;
};

inline void writeText(const std::string &path, const std::string &text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string readText(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Message of the pp::runtime::Error that `body` throws, or "no error".
template <typename Body> std::string errorOf(Body body) {
  try {
    body();
  } catch (const pp::runtime::Error &e) {
    return e.what();
  }
  return "no error";
}

#endif // PP_RUNTIME_TEST_TESTFILES_H
