//===- TextChecks.h - Names are text --------------------------------------===//
#ifndef PP_LIB_IMPORT_ONNX_TEXTCHECKS_H
#define PP_LIB_IMPORT_ONNX_TEXTCHECKS_H

#include "DiagnosticSink.h"

#include <google/protobuf/message.h>

namespace pp::onnx {

/// Reports every string of `message` and of the messages inside that is not
/// UTF-8, which the format demands and plans, reports and snapshots rely on.
/// Values of type `bytes` may be anything.
void checkText(const google::protobuf::Message &message, DiagnosticSink &sink);

} // namespace pp::onnx

#endif // PP_LIB_IMPORT_ONNX_TEXTCHECKS_H
