//===- SharedMemory.h - Memory that several processes map -----------------===//
#ifndef PP_RUNTIME_SUPPORT_SHAREDMEMORY_H
#define PP_RUNTIME_SUPPORT_SHAREDMEMORY_H

#include <cstdint>
#include <memory>
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
  /// Opens another's. Throws Error(IO). In the process that made it, it is the
  /// same mapping, so that ThreadSanitizer knows both as one.
  explicit SharedMemory(const std::string &handle);

  char *data() const { return mapping->base; }
  /// For another process of this machine to open.
  std::string getHandle() const;
  /// Says which machine (and which process numbers) handles are for: equal
  /// where they can be opened.
  static std::string machine();

private:
  struct Mapping {
    explicit Mapping(int descriptor);
    ~Mapping();
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;

    int descriptor;
    uint64_t bytes = 0;
    char *base = nullptr;
  };
  std::shared_ptr<Mapping> mapping;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_SHAREDMEMORY_H
