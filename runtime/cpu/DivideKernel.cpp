//===- DivideKernel.cpp ---------------------------------------------------===//
#include "cpu/DivideKernel.h"
#include "cpu/KernelBuilder.h"
#include "cpu/LibraryKernel.h"
#include "plan/ShortFloat.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

using namespace pp::runtime;

namespace {
/// Memory that starts at a multiple of 64, and some more behind it, where
/// nobody should write.
class Memory {
public:
  explicit Memory(uint64_t bytes)
      : bytes(bytes), memory(static_cast<char *>(std::aligned_alloc(
                                 /*alignment=*/64, alignUp(bytes + behind))),
                             [](char *pointer) { std::free(pointer); }) {
    if (!memory)
      throw std::bad_alloc();
    std::fill_n(get() + bytes, behind, mark);
  }

  char *get() const { return memory.get(); }
  bool isIntact() const {
    return std::count(get() + bytes, get() + bytes + behind, mark) == behind;
  }

private:
  static constexpr int64_t behind = 4096;
  static constexpr char mark = '\x5a';
  uint64_t bytes;
  std::shared_ptr<char> memory;
};
} // namespace

/// Numbers between -1 and 1, or integers below the limit of a tensor; the same
/// ones for a seed.
static void fillWithNumbers(const KernelTensor &tensor, unsigned seed,
                            char *memory) {
  std::minstd_rand random(seed);
  auto next = [&] {
    return static_cast<float>(random()) * 2 /
               static_cast<float>(std::minstd_rand::max()) -
           1;
  };
  auto fill = [&](auto make) {
    // They come again after so many, a prime: a tensor's rows differ, and
    // memory is filled as fast as it is copied.
    constexpr uint64_t period = 65537;
    auto *numbers = reinterpret_cast<decltype(make()) *>(memory);
    const uint64_t count = tensor.bytes / sizeof(*numbers);
    std::generate_n(numbers, std::min(count, period), make);
    for (uint64_t at = period; at < count; at += period)
      std::copy_n(numbers, std::min(count - at, period), numbers + at);
  };
  switch (tensor.type) {
  case DataType::F32:
    return fill(next);
  case DataType::F64:
    return fill([&] { return static_cast<double>(next()); });
  case DataType::BF16:
  case DataType::F16:
    return fill([&] { return toShortFloat(tensor.type, next()); });
  case DataType::I64:
    return fill([&] { return static_cast<int64_t>(random()) % tensor.limit; });
  default:
    throw DescriptorError("a tensor has numbers of a type that no kernel has");
  }
}

namespace {
/// A caller's tensors for a kernel that is tried out.
class Operands {
public:
  explicit Operands(std::vector<KernelTensor> tensors, unsigned seed = 1)
      : described(std::move(tensors)) {
    for (const KernelTensor &tensor : described) {
      memory.emplace_back(tensor.bytes);
      pointers.push_back(memory.back().get());
    }
    fill(seed);
  }

  void fill(unsigned seed = 1) {
    for (size_t i = 0; i < memory.size(); ++i)
      fillWithNumbers(described[i], seed, memory[i].get());
  }

  void *const *getPointers() const { return pointers.data(); }
  bool areIntact() const {
    return std::all_of(memory.begin(), memory.end(),
                       [](const Memory &each) { return each.isIntact(); });
  }
  /// Lets a kernel that adds do so where it adds for `other`.
  void shareResult(const Operands &other) {
    memory.back() = other.memory.back();
    pointers.back() = other.pointers.back();
  }

  bool isSame(const Operands &other, size_t tensor) const {
    return std::memcmp(memory[tensor].get(), other.memory[tensor].get(),
                       described[tensor].bytes) == 0;
  }
  bool operator==(const Operands &other) const {
    for (size_t i = 0; i < memory.size(); ++i)
      if (!isSame(other, i))
        return false;
    return true;
  }

  /// Whether each byte has changed so far; nothing for tensors that are read.
  using Changes = std::vector<std::vector<char>>;
  /// Makes `other` the same as this, and says whether a byte changes that has
  /// changed before.
  bool handOver(Operands &other, Changes &changes) const {
    constexpr uint64_t block = 4096;
    char isAgain = 0;
    for (size_t i = 0; i < memory.size(); ++i)
      for (uint64_t at = 0; at < changes[i].size(); at += block) {
        const char *from = memory[i].get() + at;
        char *to = other.memory[i].get() + at, *changed = &changes[i][at];
        const uint64_t count = std::min(block, changes[i].size() - at);
        if (std::memcmp(from, to, count) == 0)
          continue;
        for (uint64_t byte = 0; byte < count; ++byte) {
          const char isChanged = from[byte] != to[byte];
          isAgain |= isChanged & changed[byte];
          changed[byte] |= isChanged;
        }
        std::memcpy(to, from, count);
      }
    return isAgain != 0;
  }

private:
  std::vector<KernelTensor> described;
  std::vector<Memory> memory;
  std::vector<void *> pointers;
};

/// While one lives, the calling thread is another one of a team.
class AsThread {
public:
  explicit AsThread(const Part &part) : before(currentPart()) {
    currentPart() = part;
  }
  ~AsThread() { currentPart() = before; }
  AsThread(const AsThread &) = delete;
  AsThread &operator=(const AsThread &) = delete;

private:
  Part before;
};

/// A kernel, and the same in parts.
class Trial {
public:
  Trial(LibraryKernel &whole, LibraryKernel &divided, unsigned parts)
      : whole(whole), divided(divided), parts(parts),
        described(whole.describeTensors()),
        scratchpad(
            std::max(whole.scratchpadBytes(), divided.scratchpadBytes())) {}

  /// Whether the results have the same bits where one thread runs all parts,
  /// each with the scratchpad that the one before it left, and where each has a
  /// thread of its own. The last one comes first, so that none needs another;
  /// and no byte changes twice, so that none disturbs another.
  bool hasBitsOfWhole() {
    Operands expected(described);
    if (!run(whole, expected))
      return false;
    Operands found(described);
    if (!run(divided, found) || found != expected)
      return false;
    found.fill();
    Operands before(described);
    Operands::Changes changes(described.size());
    for (size_t i = 0; i < described.size(); ++i)
      if (!expected.isSame(before, i))
        changes[i].resize(described[i].bytes);
    bool isDisjoint = true;
    for (unsigned part = parts; part-- > 0;) {
      AsThread one({part, parts, /*isFixed=*/true});
      if (!run(divided, found))
        return false;
      isDisjoint &= !found.handOver(before, changes);
    }
    return isDisjoint && found == expected;
  }

  /// The same for those of several micro-batches at once.
  bool addsBitsOfWhole() {
    if (whole.mostTogether() == 0)
      return true;
    Operands expected(described), found(described);
    return addTwo(whole, expected) && addTwo(divided, found) &&
           found == expected;
  }

private:
  bool run(LibraryKernel &kernel, const Operands &operands) {
    return kernel.execute(operands.getPointers(), scratchpad.get()) &&
           operands.areIntact() && scratchpad.isIntact();
  }
  bool addTwo(LibraryKernel &kernel, const Operands &first) {
    Operands second(described, /*seed=*/2);
    second.shareResult(first);
    void *const *const both[] = {first.getPointers(), second.getPointers()};
    return kernel.executeTogether(both, nullptr, scratchpad.get()) &&
           first.areIntact() && second.areIntact() && scratchpad.isIntact();
  }

  LibraryKernel &whole, &divided;
  unsigned parts;
  std::vector<KernelTensor> described;
  Memory scratchpad;
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
    Trial trial(*whole, *divided, parts);
    const bool isRight = trial.hasBitsOfWhole() && trial.addsBitsOfWhole();
    takeKernelError();
    if (!isRight)
      return {};
    return parts == threads ? text
                            : text + " threads=" + std::to_string(threads);
  } catch (const std::exception &) {
    return {};
  }
}
