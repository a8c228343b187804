//===- WeightFiles.h - The files a model's tensors lie in -----------------===//
#ifndef PP_IMPORT_ONNX_WEIGHTFILES_H
#define PP_IMPORT_ONNX_WEIGHTFILES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace pp::onnx {

/// File 0 is the model; others hold external data, and lie in the model's
/// folder or below it. Files are opened to check them and closed again, so a
/// model may refer to more files than a process may hold open; a file that is
/// mapped later must still be the one that was checked.
///
/// A file must not be cut short while it is mapped (the process would get
/// SIGBUS), as with every use of mmap. Not thread-safe.
class WeightFiles {
public:
  /// Opens and maps the model. Fails for what is not a regular file.
  static llvm::Expected<std::unique_ptr<WeightFiles>>
  open(llvm::StringRef modelPath);
  ~WeightFiles();
  WeightFiles(const WeightFiles &) = delete;
  WeightFiles &operator=(const WeightFiles &) = delete;

  size_t size() const { return files.size(); }
  /// The model's path as given, or its folder joined with the location.
  llvm::StringRef path(unsigned file) const { return files[file].path; }
  uint64_t fileSize(unsigned file) const { return files[file].size; }

  /// The index of the file at `location`, a path relative to the model's
  /// folder. The same file is checked once. Fails if the location is absolute,
  /// has a `..` component, crosses a symbolic link, does not exist, is not a
  /// regular file, or has several hard links without `allowHardlinks`: each of
  /// these has been used to make a program read a file it should not.
  llvm::Expected<unsigned> addExternal(llvm::StringRef location,
                                       bool allowHardlinks);

  /// The whole file, mapped read-only at the first use until destruction.
  llvm::Expected<llvm::ArrayRef<uint8_t>> map(unsigned file);

private:
  struct File {
    std::string path;
    std::string location; // Normalised; empty for the model.
    uint64_t size = 0;
    uint64_t device = 0, inode = 0;
    const uint8_t *data = nullptr; // Null until mapped.
  };

  WeightFiles() = default;
  static llvm::Error mapDescriptor(int descriptor, File &file);

  std::string folder;
  int folderDescriptor = -1;
  std::vector<File> files;
  llvm::StringMap<unsigned> byLocation;
};

} // namespace pp::onnx

#endif // PP_IMPORT_ONNX_WEIGHTFILES_H
