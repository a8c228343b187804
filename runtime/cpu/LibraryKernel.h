//===- LibraryKernel.h - A kernel of oneDNN behind a text descriptor ------===//
//
// The table at the end of docs/plan-format.md lists the descriptors. Neither
// oneDNN's headers nor exceptions cross this interface, so the compiler can use
// it to ask for scratchpad sizes and to measure times.
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_CPU_LIBRARYKERNEL_H
#define PP_RUNTIME_CPU_LIBRARYKERNEL_H

#include "cpu/KernelTensor.h"
#include "kernel/Kernel.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pp::runtime {

/// One library call with fixed shapes. Creating it generates code (0.1 ms to a
/// few ms); executing it does not allocate. An object may be used by one thread
/// at a time; different objects by different threads at once. The number of
/// OpenMP threads set in the creating thread is part of the kernel, so set it
/// before (see setKernelThreads).
class LibraryKernel : public Kernel {
public:
  /// Makes the kernel, or returns null and sets `error`.
  static std::unique_ptr<LibraryKernel> create(std::string_view descriptor,
                                               std::string &error) noexcept;
  ~LibraryKernel() override;
  LibraryKernel(const LibraryKernel &) = delete;
  LibraryKernel &operator=(const LibraryKernel &) = delete;

  /// Size of the scratchpad for `execute`; a multiple of 64, or 0.
  uint64_t scratchpadBytes() const;

  /// Number of pointers that `execute` reads from `tensors`.
  unsigned tensorCount() const;
  /// Of a kernel without the key `parts`: what those are.
  std::vector<KernelTensor> describeTensors() const;

  /// How many calls of a kernel that adds executeTogether() makes one of; 0: it
  /// runs one after the other.
  unsigned mostTogether() const;

  /// Runs the kernel, or of a kernel with parts those that are the calling
  /// thread's (see currentPart); a kernel without is the first thread's.
  /// `tensors` are in the order of the table; `scratchpad` has
  /// `scratchpadBytes()` bytes and starts at a multiple of 64 (null where the
  /// size is 0). Returns false where oneDNN refused; see takeKernelError().
  bool execute(void *const *tensors, void *scratchpad) noexcept override;
  /// At once where the descriptor has the key `together`.
  bool executeTogether(std::span<void *const *const> tensors, Kernel *first,
                       void *scratchpad) noexcept override;

private:
  struct Implementation;
  /// Calls `run` with each part that is the calling thread's, and its place in
  /// the scratchpad.
  template <typename Run>
  bool runParts(void *scratchpad, const Run &run) noexcept;
  explicit LibraryKernel(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation;
};

/// The bytes that factor b of a `matmul`, or the weights of a `conv_forward` or
/// `conv_backward_data`, take in the layout that the library chooses for this
/// kernel; 0 where it chooses none but strides, or the descriptor is wrong.
uint64_t getPackedBytes(std::string_view product) noexcept;

/// Whether the bias and the residual of a `conv_forward` are added, and its key
/// `activation` applied, before the result is written or while a cache has it,
/// with the code that there is for the convolution alone. Otherwise such a
/// kernel passes over the result again.
bool isFused(std::string_view convolution) noexcept;

/// Whether a `matmul`, or the gradient of the weights of a convolution, with
/// the key `accumulate=1` takes less time on this processor than without it and
/// an addition afterwards. A sum in one pass over memory is hard to beat: only
/// matrix tiles do, which write a result past the caches otherwise.
bool addsInPlace(std::string_view gradient) noexcept;

/// Whether a `matmul`, or the gradient of the weights of a convolution, with
/// the key `accumulate=1` has a way to add those of several micro-batches in
/// one pass over the result, for which the key `together` leaves room.
bool addsTogether(std::string_view gradient) noexcept;

/// Sets how many OpenMP threads the kernels of the calling thread use.
void setKernelThreads(int count);
int getKernelThreads();

/// The text of the first kernel that failed in the calling thread since the
/// last call, or an empty string. Generated code has no way to report a failing
/// kernel and no unwind tables, so pp_execute_kernel leaves the text here.
std::string takeKernelError();

/// Keeps a text for takeKernelError(), if there is none yet.
void keepKernelError(std::string text) noexcept;

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_LIBRARYKERNEL_H
