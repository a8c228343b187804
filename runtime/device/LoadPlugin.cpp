//===- LoadPlugin.cpp - Finds libpp_cuda.so -------------------------------===//
#include "device/PluginDevice.h"
#include "support/Error.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <system_error>
#include <vector>

using namespace pp::runtime;

static constexpr const char *pluginFile = "libpp_cuda.so";

/// Where the plugin may be, the best place first.
static std::vector<std::string> getPlaces() {
  namespace fs = std::filesystem;
  std::vector<std::string> places;
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (fs::path beside = program.parent_path() / pluginFile;
      !error && fs::exists(beside, error))
    places.push_back(beside);
  const char *named = std::getenv("PP_CUDA_PLUGIN");
  if (named && *named)
    places.push_back(named);
  places.push_back(pluginFile);
  return places;
}

static void *openFirst(const std::vector<std::string> &places) {
  std::string reasons;
  for (const std::string &place : places) {
    if (void *library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL))
      return library;
    const char *reason = dlerror();
    reasons += fmt::format("\n  {}", reason ? reason : place);
  }
  failUsage("cannot load the CUDA plugin; build it with "
            "scripts/build-cuda-plugin and put {} beside the program, or name "
            "it in PP_CUDA_PLUGIN:{}",
            pluginFile, reasons);
}

const pp_device_table &pp::runtime::loadPlugin(const std::string &path) {
  void *library =
      openFirst(path.empty() ? getPlaces() : std::vector<std::string>{path});
  auto entry = reinterpret_cast<pp_device_plugin_function>(
      dlsym(library, PP_DEVICE_PLUGIN_SYMBOL));
  Dl_info info{};
  std::string file = path.empty() ? pluginFile : path;
  if (!entry)
    failUsage("'{}' is not a device plugin: it lacks the symbol '{}'", file,
              PP_DEVICE_PLUGIN_SYMBOL);
  if (dladdr(reinterpret_cast<void *>(entry), &info) && info.dli_fname)
    file = info.dli_fname;
  const pp_device_table &table = *entry();
  if (table.abi_version != PP_DEVICE_ABI_VERSION)
    failUsage("the plugin '{}' has ABI version {}, this program needs {}: "
              "build the plugin from the sources that the program was "
              "compiled with",
              file, table.abi_version, PP_DEVICE_ABI_VERSION);
  return table;
}
