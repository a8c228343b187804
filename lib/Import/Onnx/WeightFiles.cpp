//===- WeightFiles.cpp - The files a model's tensors lie in ---------------===//
#include "pp/Import/Onnx/WeightFiles.h"
#include "SecureOpen.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace pp::onnx;
using llvm::createStringError;
using llvm::Twine;

static std::string errnoText() {
  return std::error_code(errno, std::generic_category()).message();
}

WeightFiles::~WeightFiles() {
  for (File &file : files)
    if (file.data && file.size)
      ::munmap(const_cast<uint8_t *>(file.data), file.size);
  if (folderDescriptor >= 0)
    ::close(folderDescriptor);
}

llvm::Error WeightFiles::mapDescriptor(int descriptor, File &file) {
  static const uint8_t nothing = 0;
  if (file.size == 0) {
    file.data = &nothing;
    return llvm::Error::success();
  }
  void *data =
      ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED)
    return createStringError("cannot map '" + file.path + "': " + errnoText());
  file.data = static_cast<const uint8_t *>(data);
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<WeightFiles>>
WeightFiles::open(llvm::StringRef modelPath) {
  std::unique_ptr<WeightFiles> result(new WeightFiles());
  result->folder = llvm::sys::path::parent_path(modelPath).str();
  if (modelPath.contains('\0'))
    return createStringError("the path holds a null character");
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  int descriptor = ::open(modelPath.str().c_str(),
                          O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (descriptor < 0)
    return createStringError("cannot open the file: " + errnoText());
  struct stat status;
  File file;
  file.path = modelPath.str();
  llvm::Error error = llvm::Error::success();
  if (::fstat(descriptor, &status) != 0) {
    error = createStringError("cannot read the file: " + errnoText());
  } else if (!S_ISREG(status.st_mode)) {
    error = createStringError("not a regular file");
  } else {
    file.size = status.st_size;
    file.device = status.st_dev;
    file.inode = status.st_ino;
    error = mapDescriptor(descriptor, file);
  }
  ::close(descriptor);
  if (error)
    return std::move(error);
  result->files.push_back(std::move(file));
  const char *folder = result->folder.empty() ? "." : result->folder.c_str();
  result->folderDescriptor = ::open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (result->folderDescriptor < 0)
    return createStringError("cannot open the model's folder: " + errnoText());
  return result;
}

llvm::Expected<unsigned> WeightFiles::addExternal(llvm::StringRef location,
                                                  bool allowHardlinks) {
  llvm::Expected<std::string> normal = normalizeLocation(location);
  if (!normal)
    return normal.takeError();
  auto [known, isNew] = byLocation.try_emplace(*normal, 0);
  if (!isNew)
    return known->second;
  // A location that fails is looked at again by the next tensor.
  auto forget = [&](llvm::Error error) {
    byLocation.erase(*normal);
    return error;
  };
  llvm::Expected<int> descriptor = openBeneath(folderDescriptor, *normal);
  if (!descriptor)
    return forget(descriptor.takeError());
  struct stat status;
  int result = ::fstat(*descriptor, &status);
  ::close(*descriptor);
  if (result != 0)
    return forget(createStringError(errnoText()));
  if (!S_ISREG(status.st_mode))
    return forget(createStringError("it is not a regular file"));
  if (status.st_nlink != 1 && !allowHardlinks)
    return forget(createStringError(
        "it has " + Twine(status.st_nlink) +
        " hard links, so it may be another file in disguise"));
  File file;
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, *normal);
  file.path = path.str().str();
  file.location = *normal;
  file.size = status.st_size;
  file.device = status.st_dev;
  file.inode = status.st_ino;
  known->second = files.size();
  files.push_back(std::move(file));
  return known->second;
}

llvm::Expected<llvm::ArrayRef<uint8_t>> WeightFiles::map(unsigned index) {
  File &file = files[index];
  if (!file.data) {
    llvm::Expected<int> descriptor =
        openBeneath(folderDescriptor, file.location);
    if (!descriptor)
      return descriptor.takeError();
    struct stat status;
    llvm::Error error = llvm::Error::success();
    if (::fstat(*descriptor, &status) != 0)
      error =
          createStringError("cannot read '" + file.path + "': " + errnoText());
    else if (status.st_dev != file.device || status.st_ino != file.inode ||
             static_cast<uint64_t>(status.st_size) != file.size)
      error = createStringError("'" + file.path +
                                "' changed while the model was read");
    else
      error = mapDescriptor(*descriptor, file);
    ::close(*descriptor);
    if (error)
      return std::move(error);
  }
  return llvm::ArrayRef<uint8_t>(file.data, file.size);
}
