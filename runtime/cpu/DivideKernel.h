//===- DivideKernel.h - Parts of a kernel for threads -----------*- C++ -*-===//
#ifndef PP_RUNTIME_CPU_DIVIDEKERNEL_H
#define PP_RUNTIME_CPU_DIVIDEKERNEL_H

#include <string>

namespace pp::runtime {

/// The descriptor of a kernel that so many threads run together, in so many
/// parts: with the keys `parts` and `threads` (docs/plan-format.md), or an
/// empty text where it cannot be divided so. No kernel is divided on trust: it
/// is tried out on random numbers, in one thread and as each thread for itself,
/// whether each bit of the results is the same as without the keys, and whether
/// no byte is written by two parts. Takes a few times the time and the memory
/// of the kernel.
std::string divideKernel(const std::string &descriptor, unsigned threads,
                         unsigned parts) noexcept;
/// The same in as many parts as there are threads, or in several for each where
/// that costs nothing, so that fast threads take more of them, or in fewer
/// where there is too little to share, so that some threads do nothing; the
/// descriptor itself where there is no way.
std::string divideKernel(const std::string &descriptor,
                         unsigned threads) noexcept;

} // namespace pp::runtime

#endif // PP_RUNTIME_CPU_DIVIDEKERNEL_H
