//===- SharedMemory.h - Memory that several processes map -----------------===//
#ifndef PP_RUNTIME_SUPPORT_SHAREDMEMORY_H
#define PP_RUNTIME_SUPPORT_SHAREDMEMORY_H

#include <cstdint>
#include <string>

namespace pp::runtime {

/// Zeroed memory at a multiple of the page size. It has no name that could be
/// left behind: another process of the same user opens it through the one that
/// made it, as long as that has the object.
class SharedMemory {
public:
  SharedMemory() = default;
  /// Makes new memory. Throws Error(IO).
  explicit SharedMemory(uint64_t bytes);
  /// Opens another's. Throws Error(IO).
  explicit SharedMemory(const std::string &handle);
  SharedMemory(SharedMemory &&other) noexcept;
  SharedMemory &operator=(SharedMemory &&other) noexcept;
  ~SharedMemory();

  char *data() const { return base; }
  uint64_t size() const { return bytes; }
  /// For another process of this machine to open.
  std::string getHandle() const;
  /// Says which machine (and which process numbers) handles are for: equal
  /// where they can be opened.
  static std::string machine();

private:
  void map();

  char *base = nullptr;
  uint64_t bytes = 0;
  int descriptor = -1;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_SHAREDMEMORY_H
