//===- Module.cpp ---------------------------------------------------------===//
#include "Module.h"

#include <string_view>

using namespace pp::cuda;

/// "sm_90" from the line `.target sm_90`, or nothing.
static std::string getTarget(std::string_view assembly) {
  std::string_view key = ".target ";
  size_t begin = assembly.find(key);
  if (begin == std::string_view::npos)
    return "";
  begin += key.size();
  size_t end = assembly.find_first_of(", \t\r\n", begin);
  return std::string(assembly.substr(begin, end - begin));
}

Module::Module(Context &context, const pp_device_code &code)
    : context(context) {
  const Driver &driver = context.enter();
  std::string error;
  if (code.binary) {
    CUresult result =
        driver.cuModuleLoadDataEx(&handle, code.binary, 0, nullptr, nullptr);
    if (result == CUDA_SUCCESS)
      return;
    error = std::string("its machine code: ") + driver.describe(result) + "; ";
  }
  if (!code.assembly)
    throw Failure(Failure::Usage,
                  "the program has no code for " + context.getName() + " (sm_" +
                      std::to_string(context.getArchitecture()) +
                      "): " + error + "it has no PTX");
  compile(code.assembly, error);
}

Module::Module(Context &context, const std::string &assembly)
    : context(context) {
  compile(assembly.c_str(), "");
}

Module::~Module() {
  const Driver *driver = context.tryEnter();
  if (handle && driver)
    driver->cuModuleUnload(handle);
}

void Module::compile(const char *assembly, const std::string &binaryError) {
  const Driver &driver = context.enter();
  std::string log(4096, 0);
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  // The driver takes the size as the value of the pointer.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  CUresult result =
      driver.cuModuleLoadDataEx(&handle, assembly, 2, options, values);
  if (result == CUDA_SUCCESS)
    return;
  log.resize(log.find('\0') == std::string::npos ? log.size() : log.find('\0'));
  std::string here = "sm_" + std::to_string(context.getArchitecture());
  std::string advice = "compile the model with --target=cuda:" + here;
  if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    advice = "its PTX is newer than the NVIDIA driver: update the driver, or " +
             advice;
  throw Failure(Failure::Usage,
                "the program, compiled for " + getTarget(assembly) +
                    ", does not load on " + context.getName() + " (" + here +
                    "); " + advice + " (" + binaryError +
                    "its PTX: " + driver.describe(result) + ")" +
                    (log.empty() ? "" : "\n" + log));
}

CUfunction Module::getFunction(const std::string &name) const {
  const Driver &driver = context.enter();
  CUfunction function = nullptr;
  driver.check(driver.cuModuleGetFunction(&function, handle, name.c_str()),
               ("the program's code has no kernel '" + name + "'").c_str());
  return function;
}
