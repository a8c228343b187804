// RUN: pp-opt %s --pp-place-checkpoints | FileCheck %s --check-prefix=NEVER
// RUN: pp-opt %s --pp-place-checkpoints=mode=always | FileCheck %s --check-prefix=ALWAYS
// RUN: pp-opt %s --pp-place-checkpoints=mode=always --pp-place-checkpoints=mode=except_last | FileCheck %s --check-prefix=LAST

// NEVER: module attributes {pp.checkpoint = #pp.checkpoint<never>}
// ALWAYS: module attributes {pp.checkpoint = #pp.checkpoint<always>}
// The last choice counts.
// LAST: module attributes {pp.checkpoint = #pp.checkpoint<except_last>}
module {
}
