//===- Processor.cpp ------------------------------------------------------===//
#include "cpu/Processor.h"
#include "cpu/MatrixTiles.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace pp::runtime;

static bool findMatrixTiles() {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1))
    return false;
  // What numbers of f32 are packed with; all processors with AMX have it.
  if (!__builtin_cpu_supports("avx512bf16"))
    return false;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low >> 17 & 3) != 3)
    return false;
  // Linux keeps them for processes that have asked, from version 5.16 on.
  constexpr int requestPermission = 0x1023, tileData = 18;
  return syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
}

bool pp::runtime::hasMatrixTiles() {
  static const bool has = findMatrixTiles();
  return has;
}

bool pp::runtime::hasFastBFloat16() {
  static const bool has =
      isFromIntel() ? hasMatrixTiles() : __builtin_cpu_supports("avx512bf16");
  return has;
}

const MatrixTiles *pp::runtime::shortTiles() {
  if (!hasFastBFloat16())
    return nullptr;
  return hasMatrixTiles() ? &matrixTilesAmx : &matrixTilesDot;
}

bool pp::runtime::hasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl");
  return has;
}

bool pp::runtime::hasByteProducts() {
  static const bool has = hasAvx512() && __builtin_cpu_supports("avx512vnni");
  return has;
}

bool pp::runtime::hasIntegerProducts() {
  static const bool has = hasByteProducts() || __builtin_cpu_supports("avx2");
  return has;
}

bool pp::runtime::isFromIntel() {
  static const bool is = __builtin_cpu_is("intel");
  return is;
}

namespace {
/// As its makers count: GCC's library, which __builtin_cpu_is asks, may be
/// older than the processor.
struct Generation {
  unsigned family = 0, model = 0;

  Generation() {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d))
      return;
    family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
    model = (a >> 4 & 0xf) + (a >> 12 & 0xf0);
  }
};
} // namespace

static bool findZen5() {
  constexpr unsigned zen5 = 0x1a;
  return __builtin_cpu_is("amd") && Generation().family == zen5 && hasAvx512();
}

bool pp::runtime::isZen5() {
  static const bool is = findZen5();
  return is;
}

static bool findSkylakeServer() {
  constexpr unsigned core = 6, skylakeServer = 0x55;
  const Generation own;
  return isFromIntel() && own.family == core && own.model == skylakeServer &&
         hasAvx512();
}

bool pp::runtime::isSkylakeServer() {
  static const bool is = findSkylakeServer();
  return is;
}
