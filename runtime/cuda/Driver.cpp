//===- Driver.cpp ---------------------------------------------------------===//
#include "Driver.h"

#include <dlfcn.h>
#include <string>

using namespace pp::cuda;

/// "13.0" for 13000.
static std::string toText(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

[[noreturn]] static void fail(const std::string &text) {
  throw Failure(Failure::Usage, text);
}

static void *openDriver() {
  if (void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
    return library;
  const char *reason = dlerror();
  fail(std::string("this machine has no NVIDIA driver; install one, or run the "
                   "program on a machine with a GPU (") +
       (reason ? reason : "libcuda.so.1") + ")");
}

static void checkVersion(void *library) {
  auto getVersion = reinterpret_cast<decltype(&::cuDriverGetVersion)>(
      dlsym(library, "cuDriverGetVersion"));
  int version = 0;
  if (!getVersion || getVersion(&version) != CUDA_SUCCESS)
    fail("libcuda.so.1 is not a usable NVIDIA driver: install the driver of "
         "the GPU, or, if it is the toolkit's stub library, take its folder "
         "out of LD_LIBRARY_PATH");
  // Minor versions are compatible within a major one.
  if (version / 1000 < CUDA_VERSION / 1000)
    fail("the NVIDIA driver supports CUDA " + toText(version) +
         ", the plugin was built with CUDA " + toText(CUDA_VERSION) +
         ": update the driver, or build the plugin with an older toolkit");
}

static Driver load() {
  void *library = openDriver();
  checkVersion(library);
  Driver driver;
  auto get = [&](const char *name) {
    void *symbol = dlsym(library, name);
    if (!symbol)
      fail(std::string("the NVIDIA driver lacks the function '") + name +
           "': update the driver to CUDA " + toText(CUDA_VERSION));
    return symbol;
  };
#define PP_TEXT(name) #name
#define PP_EXPANDED_TEXT(name) PP_TEXT(name)
#define PP_LOAD(name)                                                          \
  driver.name =                                                                \
      reinterpret_cast<decltype(driver.name)>(get(PP_EXPANDED_TEXT(name)));
  PP_DRIVER_FUNCTIONS(PP_LOAD)
#undef PP_LOAD
#undef PP_EXPANDED_TEXT
#undef PP_TEXT
  switch (CUresult result = driver.cuInit(0)) {
  case CUDA_SUCCESS:
    return driver;
  case CUDA_ERROR_NO_DEVICE:
    fail("this machine has no GPU that the NVIDIA driver can use; check "
         "nvidia-smi and CUDA_VISIBLE_DEVICES");
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    fail("the NVIDIA driver's kernel module and library are of different "
         "versions: load the new module, or reboot");
  default:
    fail(std::string("the NVIDIA driver does not start: ") +
         driver.describe(result));
  }
}

const char *Driver::describe(CUresult result) const {
  const char *text = nullptr;
  if (this->cuGetErrorString(result, &text) != CUDA_SUCCESS || !text)
    return "an unknown error";
  return text;
}

void Driver::check(CUresult result, const char *what) const {
  if (result == CUDA_SUCCESS)
    return;
  std::string text = std::string(what) + ": " + describe(result);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    throw Failure(Failure::System, text);
  throw Failure(Failure::Internal, text);
}

const Driver &pp::cuda::getDriver() {
  static const Driver driver = load();
  return driver;
}
