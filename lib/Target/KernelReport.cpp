//===- KernelReport.cpp - What GPU kernels need of a chip -----------------===//

#include "pp/Target/KernelReport.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Format.h"

using namespace pp;

/// The number before `unit` in "0 bytes stack frame, 8 bytes spill stores".
static unsigned numberBefore(llvm::StringRef line, llvm::StringRef unit) {
  size_t end = line.find(unit);
  if (end == llvm::StringRef::npos)
    return 0;
  llvm::StringRef before = line.take_front(end).rtrim();
  unsigned number = 0;
  before.take_back(before.size() - (before.find_last_not_of("0123456789") + 1))
      .getAsInteger(10, number);
  return number;
}

std::vector<KernelResources> pp::parseKernelReport(llvm::StringRef text) {
  std::vector<KernelResources> kernels;
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  for (llvm::StringRef line : lines) {
    if (line.contains("Compiling entry function '")) {
      kernels.emplace_back();
      kernels.back().name = line.split('\'').second.split('\'').first.str();
    } else if (!kernels.empty() && line.contains("spill stores")) {
      kernels.back().stackBytes = numberBefore(line, " bytes stack frame");
      kernels.back().spillStoreBytes =
          numberBefore(line, " bytes spill stores");
      kernels.back().spillLoadBytes = numberBefore(line, " bytes spill loads");
    } else if (!kernels.empty() && line.contains("Used ")) {
      kernels.back().registers = numberBefore(line, " registers");
      kernels.back().sharedBytes = numberBefore(line, " bytes smem");
    }
  }
  // kernel_2_0 before kernel_10_0.
  llvm::sort(kernels, [](const KernelResources &a, const KernelResources &b) {
    return llvm::StringRef(a.name).compare_numeric(b.name) < 0;
  });
  return kernels;
}

void pp::printKernelReport(llvm::ArrayRef<KernelResources> kernels,
                           llvm::raw_ostream &os) {
  os << "kernel              registers  stack  spill stores  spill loads  "
        "shared\n";
  unsigned spilling = 0;
  for (const KernelResources &kernel : kernels) {
    os << llvm::left_justify(kernel.name, 20)
       << llvm::format("%9u  %5u  %12u  %11u  %6u\n", kernel.registers,
                       kernel.stackBytes, kernel.spillStoreBytes,
                       kernel.spillLoadBytes, kernel.sharedBytes);
    spilling += kernel.spillStoreBytes != 0 || kernel.spillLoadBytes != 0;
  }
  os << kernels.size() << " kernels, " << spilling << " spill registers\n";
}
