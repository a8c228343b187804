//===- DivideKernel.cpp ---------------------------------------------------===//
#include "cpu/DivideKernel.h"
#include "cpu/KernelBuilder.h"
#include "cpu/KernelOperands.h"
#include "cpu/LibraryKernel.h"

#include <algorithm>

using namespace pp::runtime;

namespace {
/// A kernel, and the same in parts.
class Trial {
public:
  /// `isAdded`: it adds to its last tensor.
  Trial(LibraryKernel &whole, LibraryKernel &divided, unsigned parts,
        bool isAdded)
      : whole(whole), divided(divided), parts(parts), isAdded(isAdded),
        described(whole.describeTensors()), expected(described),
        found(described), initial(described),
        scratchpad(
            std::max(whole.scratchpadBytes(), divided.scratchpadBytes())) {}

  bool hasBitsOfWhole() {
    const int draws = countDraws();
    for (int draw = 0; draw < draws; ++draw)
      if (!hasBitsOfWhole(draw))
        return false;
    return whole.mostTogether() == 0 || addsBitsOfWhole();
  }

private:
  /// What a kernel adds shows all its bits where there was nothing, and few
  /// numbers may be the same by chance.
  int countDraws() const {
    constexpr uint64_t few = 1 << 14, fast = 1 << 20; // bytes
    uint64_t all = 0;
    for (const KernelTensor &tensor : described)
      all += tensor.bytes;
    return described.back().bytes < few && all < fast ? 8 : isAdded ? 2 : 1;
  }

  void fill(KernelOperands &operands, int draw) const {
    operands.fill(/*seed=*/1 + draw);
    if (isAdded && draw % 2 == 1)
      operands.clearResult();
  }

  /// Whether the results have the same bits where one thread runs all parts,
  /// each with the scratchpad that the one before it left, and where each part
  /// runs by itself, so that it needs no other, and changes no byte that
  /// another one changes.
  bool hasBitsOfWhole(int draw) {
    fill(expected, draw);
    fill(found, draw);
    if (!run(whole, expected) || !run(divided, found) || found != expected)
      return false;
    fill(found, draw);
    fill(initial, draw);
    KernelOperands::Changes changes(described.size());
    for (size_t i = 0; i < described.size(); ++i)
      if (!expected.isSame(initial, i))
        changes[i].resize(described[i].bytes);
    for (unsigned part = 0; part < parts; ++part) {
      AsPart one({part, parts, /*isFixed=*/true});
      if (!run(divided, found) || !found.takeBack(initial, expected, changes))
        return false;
    }
    return expected.haveChanged(initial, changes) && found == initial;
  }

  /// The same for those of several micro-batches at once.
  bool addsBitsOfWhole() {
    fill(expected, 0);
    fill(found, 0);
    return addTwo(whole, expected) && addTwo(divided, found) &&
           found == expected;
  }

  bool run(LibraryKernel &kernel, const KernelOperands &operands) {
    return kernel.execute(operands.getPointers(), scratchpad.get()) &&
           operands.areIntact() && scratchpad.isIntact();
  }
  bool addTwo(LibraryKernel &kernel, const KernelOperands &first) {
    KernelOperands second(described, /*seed=*/2);
    second.shareResult(first);
    void *const *const both[] = {first.getPointers(), second.getPointers()};
    return kernel.executeTogether(both, nullptr, scratchpad.get()) &&
           first.areIntact() && second.areIntact() && scratchpad.isIntact();
  }

  LibraryKernel &whole, &divided;
  unsigned parts;
  bool isAdded;
  std::vector<KernelTensor> described;
  KernelOperands expected, found, initial;
  GuardedMemory scratchpad;
};
} // namespace

/// Whether more parts than there are threads cost nothing.
static bool areManyPartsCheap(const std::string &text, unsigned parts) {
  Descriptor descriptor(text);
  const std::string &kind = descriptor.getKind();
  return kind == "matmul"
             ? arePartsCheap(descriptor, parts)
             : kind == "attention_forward" || kind == "attention_backward" ||
                   kind == "check_finite";
}

std::string pp::runtime::divideKernel(const std::string &descriptor,
                                      unsigned threads) noexcept {
  try {
    constexpr unsigned many = 4;
    for (unsigned each = many; each > 0; each /= 2)
      if (each == 1 || areManyPartsCheap(descriptor, each * threads))
        if (std::string divided =
                divideKernel(descriptor, threads, each * threads);
            !divided.empty())
          return divided;
    // oneDNN may add up few rows in another order than many: smaller parts can
    // have the order of the whole.
    if (std::string divided = divideKernel(descriptor, threads, 2 * threads);
        !divided.empty())
      return divided;
    // There may be fewer samples, channels or tiles than threads: then some of
    // these do nothing.
    unsigned last = threads;
    for (const unsigned fewer :
         {threads * 3 / 4, threads / 2, threads / 4, 2u}) {
      if (fewer < 2 || fewer >= last)
        continue;
      last = fewer;
      if (std::string divided = divideKernel(descriptor, fewer, fewer);
          !divided.empty())
        return divided;
    }
  } catch (const std::exception &) { // NOLINT(bugprone-empty-catch)
    // The library says what is wrong where the kernel is made.
  }
  return descriptor;
}

std::string pp::runtime::divideKernel(const std::string &descriptor,
                                      unsigned threads,
                                      unsigned parts) noexcept {
  try {
    std::string error, text = descriptor + " parts=" + std::to_string(parts);
    auto whole = LibraryKernel::create(descriptor, error);
    auto divided = LibraryKernel::create(text, error);
    if (!whole || !divided)
      return {};
    Trial trial(*whole, *divided, parts,
                Descriptor(descriptor).has("accumulate"));
    const bool isRight = trial.hasBitsOfWhole();
    takeKernelError();
    if (!isRight)
      return {};
    return parts == threads ? text
                            : text + " threads=" + std::to_string(threads);
  } catch (const std::exception &) {
    return {};
  }
}
