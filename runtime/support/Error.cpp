//===- Error.cpp ----------------------------------------------------------===//
#include "support/Error.h"

#include <cerrno>
#include <system_error>

void pp::runtime::failIO(const std::string &what) {
  int code = errno;
  // strerror shares one buffer between threads; this does not.
  throw Error(
      ErrorKind::IO,
      fmt::format("{}: {}", what, std::generic_category().message(code)));
}
