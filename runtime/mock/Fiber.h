//===- Fiber.h - A call that can pause ------------------------------------===//
#ifndef PP_RUNTIME_MOCK_FIBER_H
#define PP_RUNTIME_MOCK_FIBER_H

#include <cstddef>
#include <functional>
#include <memory>

namespace pp::runtime {

/// Runs a function on a stack of its own, in the thread that resumes it, which
/// must be the thread that made it. A switch takes some nanoseconds: it saves
/// three registers and makes no system call. The sanitizers know of it.
class Fiber {
public:
  /// `work` runs at each start, from its begin to its end. It must not throw.
  explicit Fiber(std::function<void()> work);
  /// A fiber may be destroyed while it pauses; what lives on its stack is not
  /// destroyed.
  ~Fiber();
  Fiber(const Fiber &) = delete;
  Fiber &operator=(const Fiber &) = delete;

  /// Starts the work, or goes on after pause(); returns at the next pause() or
  /// at the end of the work.
  void resume();
  /// Inside the work: goes back to resume().
  void pause();

private:
  /// For __builtin_setjmp.
  using Place = void *[5];

  static void enter();
  static void change(Place &from, Place &to);
  static void jump(Place &to);
  void switchTo();
  void switchBack();

  std::function<void()> work;
  std::unique_ptr<char[]> stack;
  bool isStarted = false;
  Place here, there;
  // What the sanitizers want to know.
  [[maybe_unused]] void *fakeStack = nullptr, *callerFakeStack = nullptr;
  [[maybe_unused]] const void *callerStack = nullptr;
  [[maybe_unused]] size_t callerStackSize = 0;
  [[maybe_unused]] void *tsanFiber = nullptr, *tsanCaller = nullptr;
};

} // namespace pp::runtime

#endif // PP_RUNTIME_MOCK_FIBER_H
