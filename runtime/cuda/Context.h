//===- Context.h - One GPU ------------------------------------------------===//
#ifndef PP_RUNTIME_CUDA_CONTEXT_H
#define PP_RUNTIME_CUDA_CONTEXT_H

#include "Driver.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace pp::cuda {

/// A GPU and its primary context, and pinned memory of it. Its functions may be
/// called by any thread.
class Context {
public:
  /// Throws Failure(Usage) where there is no such GPU.
  explicit Context(unsigned number);
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  /// Makes it the calling thread's context, as all but a few functions of the
  /// driver want it.
  const Driver &enter() const;
  /// For destructors: null where the driver has given the context up, and with
  /// it everything in it.
  const Driver *tryEnter() const noexcept;

  /// "NVIDIA H200".
  const std::string &getName() const { return name; }
  /// 90 for sm_90.
  int getArchitecture() const { return architecture; }
  /// Whether streams can write words of 64 bits.
  bool hasStreamWrites() const { return streamWrites; }

  /// Zeroed memory of the GPU, aligned to 256 bytes.
  void *allocate(uint64_t bytes);
  void free(void *memory) noexcept;

  /// Memory that other processes of the machine may open.
  void *allocateShared(uint64_t bytes, CUipcMemHandle &handle);
  void *openShared(const CUipcMemHandle &handle);
  void closeShared(void *memory) noexcept;

  /// Host memory that the GPU reads and writes directly. At least `bytes`
  /// bytes, at a multiple of 64; kept for the next call when given back.
  void *takePinned(uint64_t bytes);
  void givePinned(void *memory) noexcept;

private:
  const Driver &driver;
  CUdevice device = 0;
  CUcontext context = nullptr;
  std::string name;
  int architecture = 0;
  bool streamWrites = false;

  std::mutex mutex;
  std::map<void *, uint64_t> pinnedSizes;       // of all blocks
  std::multimap<uint64_t, void *> pinnedBlocks; // free ones, by size
};

} // namespace pp::cuda

#endif // PP_RUNTIME_CUDA_CONTEXT_H
