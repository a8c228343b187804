//===- Plugin.h - Libraries that a program opens when it needs them -------===//
#ifndef PP_RUNTIME_SUPPORT_PLUGIN_H
#define PP_RUNTIME_SUPPORT_PLUGIN_H

#include <string>

namespace pp::runtime {

/// A kind of plugin: a shared object with one function, which returns a table
/// of functions that begins with a version of 32 bits.
struct PluginKind {
  const char *name;     ///< "CUDA"
  const char *file;     ///< "libpp_cuda.so"
  const char *variable; ///< names another file
  const char *script;   ///< builds it
  const char *symbol;   ///< the function
  unsigned version;     ///< of the table
};

/// Opens a plugin and returns its table: from `path`, or, where that is empty,
/// from beside the program, else from the file that the variable names, else
/// from the loader's places. Throws Error(Usage) where there is none, or one of
/// another version.
const void *openPlugin(const PluginKind &kind, const std::string &path = "");

} // namespace pp::runtime

#endif // PP_RUNTIME_SUPPORT_PLUGIN_H
