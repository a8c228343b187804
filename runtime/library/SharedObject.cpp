//===- SharedObject.cpp ---------------------------------------------------===//
#include "library/SharedObject.h"
#include "support/Error.h"

#include <dlfcn.h>

#include <filesystem>

using namespace pp::runtime;

void SharedObject::Close::operator()(void *handle) const { dlclose(handle); }

SharedObject::SharedObject(const std::string &path) {
  std::error_code code;
  // A name without a folder would be looked up where libraries are.
  std::filesystem::path whole = std::filesystem::canonical(path, code);
  if (code)
    throw Error(ErrorKind::IO,
                fmt::format("cannot open '{}': {}", path, code.message()));
  handle.reset(dlopen(whole.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!handle)
    failInput("'{}': not a model of pp-compile --emit=library: {}", path,
              dlerror());
  binary =
      static_cast<const pp_binary *>(dlsym(handle.get(), "pp_binary_table"));
  if (!binary)
    failInput("'{}': not a model of pp-compile --emit=library: it has no "
              "programs",
              path);
  if (binary->abi_version != PP_ABI_VERSION)
    failInput("'{}': its programs have ABI {}, this library ABI {}; compile it "
              "again",
              path, binary->abi_version, PP_ABI_VERSION);
  if (!binary->inference)
    failInput("'{}': there is no program for inference", path);
}
