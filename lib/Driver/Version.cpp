//===- Version.cpp --------------------------------------------------------===//
#include "pp/Driver/Version.h"

#include "pprt/pprt.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Host.h"
#include <dnnl_version.h>

void pp::setVersionOf(llvm::StringRef tool) {
  llvm::cl::SetVersionPrinter([tool = tool.str()](llvm::raw_ostream &os) {
    os << tool << " (pp-mlir) " PP_VERSION " " PP_BUILD_TYPE
       << "\nprograms:  ABI " << PP_ABI_VERSION
       << "\nLLVM:      " << LLVM_VERSION_STRING
       << "\noneDNN:    " << DNNL_VERSION_MAJOR << "." << DNNL_VERSION_MINOR
       << "." << DNNL_VERSION_PATCH
       << "\nprocessor: " << llvm::sys::getHostCPUName() << "\n";
  });
}
