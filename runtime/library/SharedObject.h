//===- SharedObject.h - A model that is opened at run time ------*- C++ -*-===//
#ifndef PP_RUNTIME_LIBRARY_SHAREDOBJECT_H
#define PP_RUNTIME_LIBRARY_SHAREDOBJECT_H

#include "pprt/pprt.h"

#include <memory>
#include <string>

namespace pp::runtime {

/// A shared object of `pp-compile --emit=library`, open as long as the object.
class SharedObject {
public:
  /// Throws Error(IO) where it cannot be opened, Error(InvalidInput) where it
  /// is no model, or one of a compiler of another version.
  explicit SharedObject(const std::string &path);

  const pp_binary &getBinary() const { return *binary; }

private:
  struct Close {
    void operator()(void *handle) const;
  };
  std::unique_ptr<void, Close> handle;
  const pp_binary *binary;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_LIBRARY_SHAREDOBJECT_H
