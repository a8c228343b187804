//===- Fiber.cpp ----------------------------------------------------------===//
#include "mock/Fiber.h"

#include <ucontext.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PP_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define PP_TSAN 1
#endif
#endif
#ifdef PP_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef PP_TSAN
#include <sanitizer/tsan_interface.h>
#endif

using namespace pp::runtime;

#ifdef PP_ASAN
/// Instrumented frames are several times larger.
static constexpr size_t stackBytes = 256 << 10;
#else
static constexpr size_t stackBytes = 64 << 10;
#endif

/// The fiber that starts; makecontext hands over no pointer.
static thread_local Fiber *starting = nullptr;

Fiber::Fiber(std::function<void()> function)
    : work(std::move(function)), stack(new char[stackBytes]) {
#ifdef PP_TSAN
  tsanFiber = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef PP_ASAN
  // Frames that were left behind are poisoned still.
  __asan_unpoison_memory_region(stack.get(), stackBytes);
#endif
#ifdef PP_TSAN
  __tsan_destroy_fiber(tsanFiber);
#endif
}

// __builtin_setjmp and __builtin_longjmp must not be in one function, and a
// frame that is jumped out of must not be another function's.
__attribute__((noinline)) void Fiber::jump(Place &to) {
  __builtin_longjmp(to, 1);
}

__attribute__((noinline)) void Fiber::change(Place &from, Place &to) {
  if (__builtin_setjmp(from) == 0)
    jump(to);
}

void Fiber::switchTo() {
#ifdef PP_ASAN
  __sanitizer_start_switch_fiber(&callerFakeStack, stack.get(), stackBytes);
#endif
#ifdef PP_TSAN
  tsanCaller = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsanFiber, 0);
#endif
}

void Fiber::switchBack() {
#ifdef PP_ASAN
  __sanitizer_start_switch_fiber(&fakeStack, callerStack, callerStackSize);
#endif
#ifdef PP_TSAN
  __tsan_switch_to_fiber(tsanCaller, 0);
#endif
}

void Fiber::enter() {
  Fiber &fiber = *starting;
#ifdef PP_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &fiber.callerStack,
                                  &fiber.callerStackSize);
#endif
  while (true) {
    fiber.work();
    fiber.pause();
  }
}

static __attribute__((noinline)) void startContext(ucontext_t &context) {
  setcontext(&context);
}

void Fiber::resume() {
  if (isStarted) {
    switchTo();
    change(there, here);
  } else {
    isStarted = true;
    starting = this;
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack.get();
    context.uc_stack.ss_size = stackBytes;
    context.uc_link = nullptr;
    makecontext(&context, enter, 0);
    switchTo();
    if (__builtin_setjmp(there) == 0)
      startContext(context);
  }
#ifdef PP_ASAN
  __sanitizer_finish_switch_fiber(callerFakeStack, nullptr, nullptr);
#endif
}

void Fiber::pause() {
  switchBack();
  change(here, there);
#ifdef PP_ASAN
  __sanitizer_finish_switch_fiber(fakeStack, &callerStack, &callerStackSize);
#endif
}
