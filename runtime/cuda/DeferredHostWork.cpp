//===- DeferredHostWork.cpp -----------------------------------------------===//
#include "DeferredHostWork.h"

#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

using namespace pp::cuda;

static double steadyNanoseconds() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

DeferredHostWork::DeferredHostWork(Context &context, CUstream stream)
    : context(context) {
  const Driver &driver = context.enter();
  last = takeEvent(driver);
  // The thread may lose its core between the event and the look at the clock,
  // and what one stream did would seem to come before what it waited for.
  double shortest = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < 8; ++attempt) {
    CUevent event = takeEvent(driver);
    double before = steadyNanoseconds();
    driver.check(driver.cuEventRecord(event, stream), "cuEventRecord");
    driver.check(driver.cuEventSynchronize(event), "cuEventSynchronize");
    double after = steadyNanoseconds();
    if (after - before < shortest) {
      shortest = after - before;
      lastNanoseconds = after;
      std::swap(last, event);
    }
    freeEvents.push_back(event);
  }
}

DeferredHostWork::~DeferredHostWork() {
  const Driver *driver = context.tryEnter();
  if (!driver)
    return;
  for (const Entry &entry : entries) {
    if (entry.event)
      driver->cuEventDestroy(entry.event);
    context.givePinned(entry.block);
  }
  for (CUevent event : freeEvents)
    driver->cuEventDestroy(event);
  if (last)
    driver->cuEventDestroy(last);
}

CUevent DeferredHostWork::takeEvent(const Driver &driver) {
  if (!freeEvents.empty()) {
    CUevent event = freeEvents.back();
    freeEvents.pop_back();
    return event;
  }
  CUevent event = nullptr;
  driver.check(driver.cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate");
  return event;
}

void DeferredHostWork::addTimestamp(CUstream stream, int64_t &to) {
  std::lock_guard<std::mutex> lock(mutex);
  const Driver &driver = context.enter();
  Entry entry;
  entry.event = takeEvent(driver);
  entry.time = &to;
  entries.push_back(entry);
  driver.check(driver.cuEventRecord(entry.event, stream), "cuEventRecord");
}

void DeferredHostWork::addPinned(void *block, void *to, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  Entry entry;
  entry.block = block;
  entry.to = to;
  entry.bytes = bytes;
  entries.push_back(entry);
}

uint64_t DeferredHostWork::getPosition() {
  std::lock_guard<std::mutex> lock(mutex);
  return resolved + entries.size();
}

void DeferredHostWork::resolve(uint64_t position) {
  std::lock_guard<std::mutex> lock(mutex);
  while (resolved < position && !entries.empty()) {
    finish(entries.front());
    entries.pop_front();
    ++resolved;
  }
}

void DeferredHostWork::finish(const Entry &entry) {
  if (entry.block) {
    if (entry.to)
      std::memcpy(entry.to, entry.block, entry.bytes);
    context.givePinned(entry.block);
    return;
  }
  const Driver &driver = context.enter();
  float milliseconds = 0;
  driver.check(driver.cuEventElapsedTime(&milliseconds, last, entry.event),
               "cuEventElapsedTime");
  lastNanoseconds += static_cast<double>(milliseconds) * 1e6;
  *entry.time = static_cast<int64_t>(lastNanoseconds);
  freeEvents.push_back(last);
  last = entry.event;
}
