//===- FakeNvtx.cpp - A profiler that keeps the names of ranges -----------===//
//
// The plugin's NVTX opens what NVTX_INJECTION64_PATH names.
//
//===----------------------------------------------------------------------===//
#include <nvtx3/nvToolsExt.h>

#include <string>

namespace {

/// Such as "a(b()c())".
thread_local std::string ranges;

int NVTX_API push(const char *name) {
  ranges += std::string(name) + "(";
  return 0;
}
int NVTX_API pop() {
  ranges += ")";
  return 0;
}

} // namespace

extern "C" const char *take_ranges() {
  static thread_local std::string taken;
  taken = ranges;
  ranges.clear();
  return taken.c_str();
}

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t getTable) {
  const auto *table = static_cast<const NvtxExportTableCallbacks *>(
      getTable(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned size = 0;
  if (!table ||
      !table->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size))
    return 0;
  *functions[NVTX_CBID_CORE_RangePushA] =
      reinterpret_cast<NvtxFunctionPointer>(push);
  *functions[NVTX_CBID_CORE_RangePop] =
      reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}
