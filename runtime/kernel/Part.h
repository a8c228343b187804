//===- Part.h - Which part of a kernel a thread runs ----------------------===//
#ifndef PP_RUNTIME_KERNEL_PART_H
#define PP_RUNTIME_KERNEL_PART_H

namespace pp::runtime {

/// Threads that compute together run the same kernels, each a part of every
/// one: thread `index` of `count`.
struct Part {
  unsigned index = 0, count = 1;
  /// Of kernels in more parts, it runs those that are always its own, and no
  /// others: threads do not meet between one kernel and the next, which reads
  /// what this one wrote.
  bool isFixed = false;
};

/// The calling thread's part. A thread that belongs to no team does everything.
inline Part &currentPart() {
  thread_local Part part;
  return part;
}

/// While one lives, the calling thread runs the parts that are its own.
class FixedParts {
public:
  FixedParts() : before(currentPart().isFixed) { currentPart().isFixed = true; }
  ~FixedParts() { currentPart().isFixed = before; }
  FixedParts(const FixedParts &) = delete;
  FixedParts &operator=(const FixedParts &) = delete;

private:
  bool before;
};

/// While one lives, the calling thread has this part of kernels: without one,
/// all of them, as of a team of one.
class AsPart {
public:
  explicit AsPart(const Part &part = {}) : before(currentPart()) {
    currentPart() = part;
  }
  ~AsPart() { currentPart() = before; }
  AsPart(const AsPart &) = delete;
  AsPart &operator=(const AsPart &) = delete;

private:
  Part before;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_KERNEL_PART_H
