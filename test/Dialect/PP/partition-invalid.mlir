// RUN: split-file %s %t
// RUN: not pp-opt %t/chain.mlir --pp-partition=stages=2 2>&1 | FileCheck %s --check-prefix=COSTS
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs --pp-partition=stages=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs --pp-partition=stages=9 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs --pp-partition="stages=2 objective=luck" 2>&1 | FileCheck %s --check-prefix=OBJECTIVE
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs --pp-partition="stages=3 cuts=second" 2>&1 | FileCheck %s --check-prefix=CUTS
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs --pp-partition="stages=3 cuts=nobody,nothing" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs --pp-partition="stages=3 cuts=third,second" 2>&1 | FileCheck %s --check-prefix=ORDER
// RUN: not pp-opt %t/chain.mlir --pp-outline-stages 2>&1 | FileCheck %s --check-prefix=OUTLINE
// RUN: not pp-opt %t/empty.mlir --pp-annotate-costs --pp-partition=stages=1 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs=gflops=0 2>&1 | FileCheck %s --check-prefix=RATE
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs="cost-file=%t/none" 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs="cost-file=%t/text.json" 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs="cost-file=%t/version.json" 2>&1 | FileCheck %s --check-prefix=VERSION
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs="cost-file=%t/negative.json" 2>&1 | FileCheck %s --check-prefix=SECONDS
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs="cost-file=%t/list.json" 2>&1 | FileCheck %s --check-prefix=LIST
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs="cost-file=%t/one.json" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs="cost-file=%t/many.json" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs="cost-file=%t/number.json" 2>&1 | FileCheck %s --check-prefix=OBJECT
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs="cost-file=%t/update.json" 2>&1 | FileCheck %s --check-prefix=UPDATE
// RUN: not pp-opt %t/chain.mlir --pp-annotate-costs="cost-file=%t/twice.json" 2>&1 | FileCheck %s --check-prefix=TWICE

// COSTS: 'nn.kernel' op has no cost; run pp-annotate-costs first
// NEGATIVE: error: stages is -1, must be 0 or more
// MANY: error: cannot be cut into 9 stages: it has only 4 kernels
// OBJECTIVE: for the --objective option: 'luck': expected time, memory
// CUTS: error: has 1 cuts for 3 stages; there must be one fewer than stages
// UNKNOWN: error: cut 'nobody' is not the name of a node that computes something
// UNKNOWN: error: cut 'nothing' is not the name of a node that computes something
// ORDER: error: cannot be partitioned:
// OUTLINE: error: has no stages; run pp-partition first
// EMPTY: error: has no kernels to partition
// RATE: error: gflops and bandwidth must be positive, the others not negative
// MISSING: error: cannot read cost file '{{.*}}none': No such file or directory
// TEXT: error: cost file '{{.*}}text.json': {{.*}}Invalid JSON
// VERSION: error: cost file '{{.*}}version.json': expected {"version": 1, "kernels": {...}}
// SECONDS: error: cost file '{{.*}}negative.json': kernels['matmul'] must be a number of seconds from 0 on
// LIST: error: cost file '{{.*}}list.json': threads must be an object
// COUNT: error: cost file '{{.*}}.json': threads['{{1|1025}}']: expected a number of threads from 2 to 1024
// OBJECT: error: cost file '{{.*}}number.json': threads['2'] must be an object
// UPDATE: error: cost file '{{.*}}update.json': threads['2'].update_seconds_per_byte must be a number of seconds from 0 on
// TWICE: error: cost file '{{.*}}twice.json': $.kernels.matmul: stated twice

//--- text.json
not JSON
//--- version.json
{"version": 2, "kernels": {}}
//--- negative.json
{"version": 1, "kernels": {"matmul": -1}}
//--- list.json
{"version": 1, "kernels": {}, "threads": [2]}
//--- one.json
{"version": 1, "kernels": {}, "threads": {"1": {}}}
//--- many.json
{"version": 1, "kernels": {}, "threads": {"1025": {}}}
//--- number.json
{"version": 1, "kernels": {}, "threads": {"2": 1e-9}}
//--- update.json
{"version": 1, "kernels": {}, "threads": {"2": {"update_seconds_per_byte": -1}}}
//--- twice.json
{"version": 1, "kernels": {"matmul": 1, "matmul": 2}}
//--- empty.mlir
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x"}) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
//--- chain.mlir
module {
  func.func @main(%x: tensor<64x64xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<64x64xf32> {step.fetch = "loss"}) {
    %0 = nn.kernel(%a = %x) attributes {step.origin = 0 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    } loc("first")
    %1 = nn.kernel(%a = %0) attributes {step.origin = 1 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    } loc("second")
    %2 = nn.kernel(%a = %1) attributes {step.origin = 2 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    } loc("third")
    %3 = nn.kernel(%a = %2) attributes {step.origin = 3 : i64, step.phase = #step.phase<forward>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.exp %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    } loc("fourth")
    %4 = nn.kernel(%a = %2) attributes {step.origin = 2 : i64, step.phase = #step.phase<backward_input>} : (tensor<64x64xf32>) -> tensor<64x64xf32> {
      %b = nn.neg %a : tensor<64x64xf32>
      nn.yield %b : tensor<64x64xf32>
    } loc("third")
    return %3 : tensor<64x64xf32>
  }
}
