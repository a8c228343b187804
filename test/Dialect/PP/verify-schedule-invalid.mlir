// RUN: pp-opt %s --split-input-file --verify-diagnostics --pp-verify-schedule

// An action is missing.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+1 {{1B1 is missing}}
  pp.schedule "1f1b" microbatches(2) checkpoint(never) ranks([
    [0F0, 0SEND_F0 @c0, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0, 0RECV_B1 @c1, 0B1, 0U],
    [1RECV_F0 @c0, 1F0, 1B0, 1RECV_F1 @c0, 1SEND_B0 @c1, 1F1, 1SEND_B1 @c1, 1U]])
}

// -----

// An action is there twice.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+1 {{0F0 is in the schedule twice}}
  pp.schedule "1f1b" microbatches(2) checkpoint(never) ranks([
    [0F0, 0SEND_F0 @c0, 0F0, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0, 0RECV_B1 @c1, 0B1, 0U],
    [1RECV_F0 @c0, 1F0, 1B0, 1RECV_F1 @c0, 1SEND_B0 @c1, 1F1, 1B1, 1SEND_B1 @c1, 1U]])
}

// -----

// A backward comes before its forward.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+1 {{1F0 comes after 1B0}}
  pp.schedule "1f1b" microbatches(2) checkpoint(never) ranks([
    [0F0, 0SEND_F0 @c0, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0, 0RECV_B1 @c1, 0B1, 0U],
    [1RECV_F0 @c0, 1B0, 1F0, 1RECV_F1 @c0, 1SEND_B0 @c1, 1F1, 1B1, 1SEND_B1 @c1, 1U]])
}

// -----

// A send has no receive.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+1 {{1RECV_F1 is missing}}
  pp.schedule "1f1b" microbatches(2) checkpoint(never) ranks([
    [0F0, 0SEND_F0 @c0, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0, 0RECV_B1 @c1, 0B1, 0U],
    [1RECV_F0 @c0, 1F0, 1B0, 1SEND_B0 @c1, 1F1, 1B1, 1SEND_B1 @c1, 1U]])
}

// -----

// Both ranks wait in a send: the naive 1F1B under rendezvous.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+1 {{deadlock: rank 0 waits in 0SEND_F1 for rank 1 to reach 1RECV_F1; rank 1 waits in 1SEND_B0 for rank 0 to reach 0RECV_B0}}
  pp.schedule "1f1b" microbatches(2) checkpoint(never) ranks([
    [0F0, 0SEND_F0 @c0, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0, 0RECV_B1 @c1, 0B1, 0U],
    [1RECV_F0 @c0, 1F0, 1B0, 1SEND_B0 @c1, 1RECV_F1 @c0, 1F1, 1B1, 1SEND_B1 @c1, 1U]])
}

// -----

// The update is not last.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+1 {{0U}}
  pp.schedule "1f1b" microbatches(2) checkpoint(never) ranks([
    [0F0, 0SEND_F0 @c0, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0, 0RECV_B1 @c1, 0U, 0B1],
    [1RECV_F0 @c0, 1F0, 1B0, 1RECV_F1 @c0, 1SEND_B0 @c1, 1F1, 1B1, 1SEND_B1 @c1, 1U]])
}

// -----

// The step has no channels yet.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    // expected-error@+1 {{names no channels; run pp-insert-transfers first}}
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0]])
}

// -----

// The channels of two values are mixed up.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0:2 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0], [channel @c1]]) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      pp.return %a, %a : tensor<4xf32>, tensor<4xf32>
    }
    // expected-error@+1 {{reads from @c1, but another value is written to it}}
    %1 = pp.stage 1 forward (%a = %0#0, %b = %0#1) sources([channel @c1, channel @c0]) targets([[fetch 0]]) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([
    [0F0, 0SEND_F0 @c0, 0SEND_F0 @c1], [1RECV_F0 @c0, 1RECV_F0 @c1, 1F0]])
}

// -----

// Two values go through one channel.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "y"}) {
    // expected-error@+1 {{writes to @c0 a second time}}
    %0:2 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0], [channel @c0]]) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      pp.return %a, %a : tensor<4xf32>, tensor<4xf32>
    }
    return %0#0 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0]])
}

// -----

// A channel that nobody reads.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0, fetch 0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
  // expected-error@+1 {{'c0' is read by no stage}}
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.schedule "inference" microbatches(1) checkpoint(never) ranks([[0F0]])
}

// -----

// No schedule at all.
// expected-error@+1 {{has no schedule; run pp-schedule first}}
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "y"}) {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
}

// -----

// No step.
// expected-error@+1 {{has no function with fed arguments (step.feed)}}
module {
}

// -----

// Replicas that do not add up their gradients, or before they have all.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_weight (%a = %0) sources([residual]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %0 : tensor<4xf32>
  }
  // expected-error@+1 {{0REDUCE_GRAD is missing}}
  pp.schedule "1f1b" microbatches(1) replicas(2) checkpoint(never) ranks([[0F0, 0B0, 0U]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_weight (%a = %0) sources([residual]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %0 : tensor<4xf32>
  }
  // expected-error@+1 {{0B1 comes after 0REDUCE_GRAD}}
  pp.schedule "1f1b" microbatches(2) replicas(2) checkpoint(never) ranks([[0F0, 0F1, 0B0, 0REDUCE_GRAD, 0B1, 0U]])
}

// -----

// Stage 0 overwrites weights that a backward pass reads.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+1 {{0B0 of step 1 uses version 0 of the weights in slot 0 of 1, which holds version 1}}
  pp.schedule "pipedream" microbatches(1) versions([1, 1]) checkpoint(never) ranks([
    [0F0 version -1, 0SEND_F0 @c0, 0RECV_B0 @c1 lag 1, 0B0 lag 1 version -1, 0U lag 1 version 1],
    [1RECV_F0 @c0, 1SEND_B0 @c1 lag 1, 1F0, 1B0, 1U version 1]])
}

// -----

// It keeps weights that nobody reads.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+1 {{stage 0 keeps 3 weight versions, but needs 2}}
  pp.schedule "pipedream" microbatches(1) versions([3, 1]) checkpoint(never) ranks([
    [0F0 version -1, 0SEND_F0 @c0, 0RECV_B0 @c1 lag 1, 0B0 lag 1 version -1, 0U lag 1 version 1],
    [1RECV_F0 @c0, 1SEND_B0 @c1 lag 1, 1F0, 1B0, 1U version 1]])
}

// -----

// No rule says which weights a pass reads.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+1 {{has weight versions, but the schedule '1f1b' has no rule for them}}
  pp.schedule "1f1b" microbatches(1) versions([2, 1]) checkpoint(never) ranks([
    [0F0 version -1, 0SEND_F0 @c0, 0RECV_B0 @c1 lag 1, 0B0 lag 1 version -1, 0U lag 1 version 1],
    [1RECV_F0 @c0, 1SEND_B0 @c1 lag 1, 1F0, 1B0, 1U version 1]])
}

// -----

// The lists are those of a distance of 1.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+2 {{0F1 of step 1 uses version 2 of the weights with 0 waves of all workers, not 1}}
  // expected-error@+1 {{1U of step 1 uses version 2 of the weights with 0 waves of all workers, not 1}}
  pp.schedule "wsp" microbatches(2) replicas(2) versions([2, 2]) clock_distance(0) checkpoint(never) ranks([
    [0F0 version -1, 0SEND_F0 @c0, 0RECV_B1 @c1 lag 1, 0B1 lag 1, 0U lag 1 version 2, 0PUSH lag 1 version 2, 0PULL lag 2 version 4, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0 version -1, 0U version 1],
    [1RECV_F0 @c0, 1SEND_B1 @c1 lag 1, 1F0 version -1, 1B0 version -1, 1PULL lag 2 version 4, 1U version 1, 1RECV_F1 @c0, 1SEND_B0 @c1, 1F1, 1B1, 1U version 2, 1PUSH version 2]])
}

// -----

// Rank 1 forgets a wave.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+1 {{stage 1 pushes 0 waves and pulls}}
  pp.schedule "wsp" microbatches(2) replicas(2) versions([2, 2]) clock_distance(1) checkpoint(never) ranks([
    [0F0 version -1, 0SEND_F0 @c0, 0RECV_B1 @c1 lag 1, 0B1 lag 1, 0U lag 1 version 2, 0PUSH lag 1 version 2, 0PULL lag 2 version 4, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0 version -1, 0U version 1],
    [1RECV_F0 @c0, 1SEND_B1 @c1 lag 1, 1F0 version -1, 1B0 version -1, 1PULL lag 2 version 4, 1U version 1, 1RECV_F1 @c0, 1SEND_B0 @c1, 1F1, 1B1, 1U version 2]])
}

// -----

// Two of three workers have lists.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+1 {{has the lists of 2 virtual workers, but there are 3}}
  pp.schedule "wsp" microbatches(2) replicas(3) versions([2, 2]) clock_distance(1) checkpoint(never) ranks([
    [0F0 version -1, 0SEND_F0 @c0, 0RECV_B1 @c1 lag 1, 0B1 lag 1, 0U lag 1 version 2, 0PUSH lag 1 version 2, 0PULL lag 2 version 4, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0 version -1, 0U version 1],
    [1RECV_F0 @c0, 1SEND_B1 @c1 lag 1, 1F0 version -1, 1B0 version -1, 1PULL lag 2 version 4, 1U version 1, 1RECV_F1 @c0, 1SEND_B0 @c1, 1F1, 1B1, 1U version 2, 1PUSH version 2],
    [0F0 version -1, 0SEND_F0 @c0, 0RECV_B1 @c1 lag 1, 0B1 lag 1, 0U lag 1 version 2, 0PUSH lag 1 version 2, 0PULL lag 2 version 4, 0F1, 0SEND_F1 @c0, 0RECV_B0 @c1, 0B0 version -1, 0U version 1],
    [1RECV_F0 @c0, 1SEND_B1 @c1 lag 1, 1F0 version -1, 1B0 version -1, 1PULL lag 2 version 4, 1U version 1, 1RECV_F1 @c0, 1SEND_B0 @c1, 1F1, 1B1, 1U version 2, 1PUSH version 2]])
}

// -----

// Workers, or a rule that has none.
module {
  func.func @main(%x: tensor<4xf32> {step.feed = "x", step.role = #step.role<input>}) -> (tensor<4xf32> {step.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %1 = pp.stage 1 forward (%a = %0) sources([channel @c0]) targets([[loss]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    %2 = pp.stage 1 backward_input (%a = %1) sources([residual]) targets([[channel @c1]]) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_input (%a = %2) sources([channel @c1]) targets([]) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %1 : tensor<4xf32>
  }
  pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
  pp.channel @c1 gradient from(1) backward_input to(0) backward_input until backward_input value("v") : tensor<4xf32>
  // expected-error@+1 {{is the schedule 'pipemare' with 2 replicas and no clock distance}}
  pp.schedule "pipemare" microbatches(1) replicas(2) versions([1, 1]) checkpoint(never) ranks([
    [0F0],
    [1F0]])
}
