//===- MockDevice.h - The asynchrony of a GPU on host memory --------------===//
//
// For tests, and linked only into programs that ask for it: streams are
// threads, events are flags, graphs are lists of work. Everything runs that
// runs on a GPU, so a missing event is a data race that ThreadSanitizer sees,
// or a wrong bit. To that end the implementation orders nothing by accident:
// the thread that gives work to a stream never reads what the stream's thread
// writes, except through events.
//
// It runs programs for the processor and for the target `mock`, whose kernels
// are those of a GPU (mock/).
//
//===----------------------------------------------------------------------===//
#ifndef PP_RUNTIME_MOCK_MOCKDEVICE_H
#define PP_RUNTIME_MOCK_MOCKDEVICE_H

#include "device/Device.h"

namespace pp::runtime {

struct MockOptions {
  /// Streams pause for up to this long before each piece of work, by a fixed
  /// pseudo-random sequence, so that they overtake each other in many ways.
  unsigned maxPauseMicroseconds = 0;
};

std::unique_ptr<Device> createMockDevice(const MockOptions &options = {});

} // namespace pp::runtime

#endif // PP_RUNTIME_MOCK_MOCKDEVICE_H
