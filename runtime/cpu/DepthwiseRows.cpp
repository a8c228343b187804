//===- DepthwiseRows.cpp --------------------------------------------------===//
#include "cpu/DepthwiseRows.h"
#include "cpu/Processor.h"

using namespace pp::runtime;

const depthwise::RowLoops &depthwise::rowLoops() {
  return hasAvx512() ? rowLoopsAvx512 : rowLoopsAvx2;
}
