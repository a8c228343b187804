//===- Plugin.cpp ---------------------------------------------------------===//
#include "support/Plugin.h"
#include "support/Error.h"

#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <system_error>
#include <vector>

using namespace pp::runtime;

/// Where the plugin may be, the best place first.
static std::vector<std::string> getPlaces(const PluginKind &kind) {
  namespace fs = std::filesystem;
  std::vector<std::string> places;
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (fs::path beside = program.parent_path() / kind.file;
      !error && fs::exists(beside, error))
    places.push_back(beside);
  const char *named = std::getenv(kind.variable);
  if (named && *named)
    places.push_back(named);
  places.push_back(kind.file);
  return places;
}

static void *openFirst(const PluginKind &kind,
                       const std::vector<std::string> &places) {
  std::string reasons;
  for (const std::string &place : places) {
    if (void *library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL))
      return library;
    const char *reason = dlerror();
    reasons += fmt::format("\n  {}", reason ? reason : place);
  }
  failUsage("cannot load the {} plugin; build it with {} and put {} beside the "
            "program, or name it in {}:{}",
            kind.name, kind.script, kind.file, kind.variable, reasons);
}

const void *pp::runtime::openPlugin(const PluginKind &kind,
                                    const std::string &path) {
  void *library = openFirst(
      kind, path.empty() ? getPlaces(kind) : std::vector<std::string>{path});
  auto entry = reinterpret_cast<const void *(*)()>(dlsym(library, kind.symbol));
  Dl_info info{};
  std::string file = path.empty() ? kind.file : path;
  if (!entry)
    failUsage("'{}' is not the {} plugin: it lacks the symbol '{}'", file,
              kind.name, kind.symbol);
  if (dladdr(reinterpret_cast<void *>(entry), &info) && info.dli_fname)
    file = info.dli_fname;
  const void *table = entry();
  uint32_t version = *static_cast<const uint32_t *>(table);
  if (version != kind.version)
    failUsage("the plugin '{}' has ABI version {}, this program needs {}: "
              "build the plugin from the sources that the program was "
              "compiled with",
              file, version, kind.version);
  return table;
}
