// RUN: pp-opt %s --pp-schedule="schedule=gpipe microbatches=2" | FileCheck %s --check-prefix=GPIPE
// RUN: pp-opt %s --pp-schedule="schedule=1f1b microbatches=3" | FileCheck %s --check-prefix=F1B1
// RUN: pp-opt %s --pp-place-checkpoints=mode=except_last --pp-schedule="schedule=gpipe microbatches=2" | FileCheck %s --check-prefix=LAST
// RUN: pp-opt %s --pp-schedule="microbatches=2" --pp-insert-transfers | FileCheck %s --check-prefix=TRANSFERS
// RUN: pp-opt %s --pp-schedule="schedule=looped-bfs ranks=1 microbatches=2" --pp-insert-transfers --pp-verify-schedule --pp-plan-memory | FileCheck %s --check-prefix=ONE
// RUN: pp-opt %s --pp-schedule="schedule=zb-v microbatches=1" | FileCheck %s --check-prefix=ZBV
// RUN: pp-opt %s --pp-place-checkpoints=mode=always --pp-schedule="schedule=gpipe microbatches=4 replicas=2" --pp-insert-transfers --pp-verify-schedule | FileCheck %s --check-prefix=REPLICAS
// RUN: pp-opt %s --pp-schedule="schedule=pipedream allow-stale" --pp-insert-transfers --pp-verify-schedule --pp-plan-memory --pp-verify-memory | FileCheck %s --check-prefix=STASH
// RUN: pp-opt %s --pp-schedule="schedule=pipedream-2bw microbatches=3 allow-stale" --pp-insert-transfers --pp-verify-schedule | FileCheck %s --check-prefix=BUFFERED
// RUN: pp-opt %s --pp-schedule="schedule=pipemare microbatches=2 allow-stale" --pp-insert-transfers --pp-verify-schedule | FileCheck %s --check-prefix=LATEST
// RUN: pp-opt %s --pp-schedule="schedule=wsp microbatches=4 replicas=2 clock-distance=1 allow-stale" --pp-insert-transfers --pp-verify-schedule --pp-plan-memory --pp-verify-memory | FileCheck %s --check-prefix=WAVES
// RUN: pp-opt %s --pp-schedule="schedule=wsp microbatches=4 replicas=2 worker-stages=2,1+1 allow-stale" --pp-insert-transfers --pp-verify-schedule --pp-plan-memory --pp-verify-memory | FileCheck %s --check-prefix=UNEQUAL

// GPIPE: pp.schedule "gpipe" microbatches(2) checkpoint(never) ranks([
// GPIPE-NEXT: [0F0, 0F1, 0B0, 0B1, 0U],
// GPIPE-NEXT: [1F0, 1F1, 1B0, 1B1, 1U]])

// F1B1: pp.schedule "1f1b" microbatches(3)
// F1B1-NEXT: [0F0, 0F1, 0B0, 0F2, 0B1, 0B2, 0U],
// F1B1-NEXT: [1F0, 1B0, 1F1, 1B1, 1F2, 1B2, 1U]])

// All but the last micro-batch are computed again.
// LAST: checkpoint(except_last)
// LAST-NEXT: [0F0, 0F1, 0R0, 0B0, 0B1, 0U]

// The receive of micro-batch 1 comes before the send of the gradient: otherwise
// both ranks would wait in a send.
// TRANSFERS: pp.channel @c0 next from(0) forward to(1) forward
// TRANSFERS: pp.channel @c1 gradient from(1) backward_input to(0) backward_input
// TRANSFERS: pp.schedule
// TRANSFERS: [1RECV_F0 @c0, 1F0, 1B0, 1RECV_F1 @c0, 1SEND_B0 @c1, 1F1, 1B1, 1SEND_B1 @c1, 1U]

// On one rank nothing is sent; two micro-batches wait in their receive slots.
// ONE: pp.channel @c0 next {{.*}} send({{[0-9]+}}, []) receive({{[0-9]+}}, [0, 1])
// ONE: pp.schedule "looped-bfs"
// ONE-NEXT: [0F0[0], 0F1[1], 1F0[0], 1F1[1], 1B0[0], 1B1[1], 0B0[0], 0B1[1], 0U, 1U]])

// zb-v puts two stages on each rank by itself.
// ZBV: pp.schedule "zb-v"
// ZBV-NEXT: [0F0, 1F0, 1I0,

// The lists of one replica; gradients are added up after the last W.
// REPLICAS: pp.schedule "gpipe" microbatches(2) replicas(2) checkpoint(always)
// REPLICAS: 1R1, 1B1, 1SEND_B1 @c1, 1REDUCE_GRAD, 1U]])

// A list runs once per step that is handed in; stage 0 keeps the weights of a
// micro-batch until its backward pass, one step later.
// STASH: pp.channel @c0 next {{.*}} send({{[0-9]+}}, [0]) receive({{[0-9]+}}, [0])
// STASH: pp.memory 0
// STASH-SAME: <versions, {{[0-9]+}}, 0>
// STASH: pp.schedule "pipedream" microbatches(1) versions([2, 1]) checkpoint(never) ranks([
// STASH-NEXT: [0F0 version -1, 0SEND_F0 @c0, 0RECV_B0 @c1 lag 1, 0B0 lag 1 version -1, 0U lag 1 version 1],
// STASH-NEXT: [1RECV_F0 @c0, 1SEND_B0 @c1 lag 1, 1F0, 1B0, 1U version 1]])

// All passes of a step read what was updated last but one.
// BUFFERED: pp.schedule "pipedream-2bw" microbatches(3) versions([2, 2])
// BUFFERED-NEXT: [0F0 version -1, 0SEND_F0 @c0, 0RECV_B2 @c1 lag 1, 0B2 lag 1 version -1, 0U lag 1 version 1, 0F1 version -1,

// The newest: F of micro-batch 0 has not yet seen the update that B sees.
// LATEST: pp.schedule "pipemare" microbatches(2) versions([1, 1])
// LATEST-NEXT: [0F0 version -1, 0SEND_F0 @c0, 0RECV_B1 @c1 lag 1, 0B1 lag 1, 0U lag 1 version 1, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0],

// Weights lack what is in flight; a PULL comes before the first action that needs it.
// WAVES: pp.schedule "wsp" microbatches(2) replicas(2) versions([2, 2]) clock_distance(1) checkpoint(never) ranks([
// WAVES-NEXT: [0F0 version -1, 0SEND_F0 @c0, 0RECV_B1 @c1 lag 1, 0B1 lag 1, 0U lag 1 version 2, 0PUSH lag 1 version 2, 0PULL lag 2 version 4, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0 version -1, 0U version 1],
// WAVES-NEXT: 1PULL lag 2 version 4, 1U version 1,

// Worker 0 has one rank, worker 1 two: nothing is sent in the one, and the channel has places for the other.
// UNEQUAL: pp.channel @c0 next {{.*}} send({{[0-9]+}}, [0
// UNEQUAL: pp.schedule "wsp" microbatches(2) replicas(2) versions([2, 2]) clock_distance(0)
// UNEQUAL-NEXT: [0F0 version -1, 1F0 version -1, 1B0 version -1, 0B0 version -1, 0PULL lag 1 version 2, 1PULL lag 1 version 2, 0U version 1, 1U version 1,
// UNEQUAL-NEXT: [0F0 version -1, 0SEND_F0 @c0,
// UNEQUAL-NEXT: [1RECV_F0 @c0,
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
}
