//===- KernelOperands.cpp -------------------------------------------------===//
#include "cpu/KernelOperands.h"
#include "cpu/Descriptor.h"
#include "plan/ShortFloat.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>

using namespace pp::runtime;

static constexpr int64_t pageBytes = 4096;
static constexpr char mark = '\x5a';

GuardedMemory::GuardedMemory(uint64_t bytes)
    : bytes(bytes), memory(static_cast<char *>(std::aligned_alloc(
                               /*alignment=*/64, alignUp(bytes + pageBytes))),
                           [](char *pointer) { std::free(pointer); }) {
  if (!memory)
    throw std::bad_alloc();
  std::fill_n(get() + bytes, pageBytes, mark);
}

bool GuardedMemory::isIntact() const {
  return std::count(get() + bytes, get() + bytes + pageBytes, mark) ==
         pageBytes;
}

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
  case DataType::I32:
    return fill([&] { return static_cast<int32_t>(random()); });
  case DataType::U8:
  case DataType::I8:
    return fill([&] { return static_cast<uint8_t>(random() >> 16); });
  default:
    throw DescriptorError("a tensor has numbers of a type that no kernel has");
  }
}

KernelOperands::KernelOperands(std::vector<KernelTensor> tensors, unsigned seed)
    : tensors(std::move(tensors)) {
  for (const KernelTensor &tensor : this->tensors) {
    memory.emplace_back(tensor.bytes);
    pointers.push_back(memory.back().get());
  }
  fill(seed);
}

void KernelOperands::fill(unsigned seed) {
  // Tensors of a size differ.
  constexpr unsigned step = 7919;
  for (size_t i = 0; i < memory.size(); ++i, seed += step)
    fillWithNumbers(tensors[i], seed, memory[i].get());
}

void KernelOperands::clearResult() {
  std::fill_n(memory.back().get(), tensors.back().bytes, '\0');
}

bool KernelOperands::areIntact() const {
  return std::all_of(memory.begin(), memory.end(),
                     [](const GuardedMemory &each) { return each.isIntact(); });
}

void KernelOperands::shareResult(const KernelOperands &other) {
  memory.back() = other.memory.back();
  pointers.back() = other.pointers.back();
}

bool KernelOperands::isSame(const KernelOperands &other, size_t tensor) const {
  return std::memcmp(memory[tensor].get(), other.memory[tensor].get(),
                     tensors[tensor].bytes) == 0;
}

bool KernelOperands::operator==(const KernelOperands &other) const {
  for (size_t i = 0; i < memory.size(); ++i)
    if (!isSame(other, i))
      return false;
  return true;
}

bool KernelOperands::takeBack(const KernelOperands &initial,
                              const KernelOperands &expected,
                              Changes &changes) {
  char isWrong = 0;
  for (size_t i = 0; i < memory.size(); ++i)
    for (uint64_t at = 0; at < changes[i].size(); at += pageBytes) {
      char *own = memory[i].get() + at, *changed = &changes[i][at];
      const char *before = initial.memory[i].get() + at,
                 *wanted = expected.memory[i].get() + at;
      const uint64_t count =
          std::min<uint64_t>(pageBytes, changes[i].size() - at);
      if (std::memcmp(own, before, count) == 0)
        continue;
      for (uint64_t byte = 0; byte < count; ++byte) {
        const char isChanged = own[byte] != before[byte];
        const char isOther = own[byte] != wanted[byte];
        isWrong |= isChanged & (changed[byte] | isOther);
        changed[byte] |= isChanged;
      }
      std::memcpy(own, before, count);
    }
  return isWrong == 0;
}

bool KernelOperands::haveChanged(const KernelOperands &initial,
                                 const Changes &changes) const {
  char isMissing = 0;
  for (size_t i = 0; i < memory.size(); ++i) {
    const char *own = memory[i].get(), *before = initial.memory[i].get();
    for (uint64_t byte = 0; byte < changes[i].size(); ++byte)
      isMissing |= (own[byte] != before[byte]) & (changes[i][byte] == 0);
  }
  return isMissing == 0;
}
