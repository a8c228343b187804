//===- Spin.cpp -----------------------------------------------------------===//
#include "support/Spin.h"

#include <thread>

unsigned pp::runtime::spinsFor(unsigned threads) {
  return std::thread::hardware_concurrency() >= threads ? 2000 : 20;
}
