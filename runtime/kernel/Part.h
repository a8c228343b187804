//===- Part.h - Which part of a kernel a thread runs ----------------------===//
#ifndef PP_RUNTIME_KERNEL_PART_H
#define PP_RUNTIME_KERNEL_PART_H

namespace pp::runtime {

/// Threads that compute together run the same kernels, each a part of every
/// one: thread `index` of `count`.
struct Part {
  unsigned index = 0, count = 1;
};

/// The calling thread's part. A thread that belongs to no team does everything.
inline Part &currentPart() {
  thread_local Part part;
  return part;
}

} // namespace pp::runtime

#endif // PP_RUNTIME_KERNEL_PART_H
