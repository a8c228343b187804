//===- KeptShares.h - What other processes may still have open ------------===//
#ifndef PP_RUNTIME_DEVICE_KEPTSHARES_H
#define PP_RUNTIME_DEVICE_KEPTSHARES_H

#include "device/Device.h"

namespace pp::runtime {

// After a failure nobody says when the other processes have closed what this
// one has shared, and they may be copying into it. So it stays until the
// process ends, which is soon. Any thread.

/// `memory` keeps its address, and owns nothing any more.
void keepUntilTheEnd(DeviceMemory &memory);
void keepUntilTheEnd(std::unique_ptr<Event> event);

} // namespace pp::runtime

#endif // PP_RUNTIME_DEVICE_KEPTSHARES_H
