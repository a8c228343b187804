//===- Result.h - A value or the reason why there is none -----------------===//
#ifndef PP_PLANNER_RESULT_H
#define PP_PLANNER_RESULT_H

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace pp::planner {

/// The planner throws nothing and needs no LLVM, so this stands in for
/// llvm::Expected. Errors are sentences without a final period.
struct Failure {
  std::string message;
};

template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : contents(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure)
      : contents(std::in_place_index<1>, std::move(failure)) {}

  explicit operator bool() const { return contents.index() == 0; }
  T &operator*() {
    assert(*this && "a failure has no value");
    return std::get<0>(contents);
  }
  const T &operator*() const {
    assert(*this && "a failure has no value");
    return std::get<0>(contents);
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }
  const std::string &error() const { return std::get<1>(contents).message; }

private:
  std::variant<T, Failure> contents;
};

} // namespace pp::planner

#endif // PP_PLANNER_RESULT_H
