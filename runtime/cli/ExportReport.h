//===- ExportReport.h - What is said of an exported model -------*- C++ -*-===//
#ifndef PP_RUNTIME_CLI_EXPORTREPORT_H
#define PP_RUNTIME_CLI_EXPORTREPORT_H

#include "exec/ModelExport.h"

#include <string>

namespace pp::runtime {

/// Says what was written to `output`, with how many tensors of the program.
void reportExport(const ModelExport &model, const std::string &output,
                  size_t tensors);

} // namespace pp::runtime

#endif // PP_RUNTIME_CLI_EXPORTREPORT_H
