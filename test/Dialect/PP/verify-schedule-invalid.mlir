// RUN: pp-opt %s --split-input-file --verify-diagnostics --pp-verify-schedule

// An action is missing.
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
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
  pp.channel @channel0 next from(0) forward result(0) to(1) forward release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  pp.channel @channel1 gradient from(1) backward_input result(0) to(0) backward_input release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  // expected-error@+1 {{1B1 is missing}}
  pp.schedule "1f1b" microbatches(2) checkpoint("never") ranks([
    ["0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1", "0U"],
    ["1RECV_F0", "1F0", "1B0", "1RECV_F1", "1SEND_B0", "1F1", "1SEND_B1", "1U"]])
}

// -----

// An action is there twice.
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
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
  pp.channel @channel0 next from(0) forward result(0) to(1) forward release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  pp.channel @channel1 gradient from(1) backward_input result(0) to(0) backward_input release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  // expected-error@+1 {{0F0 is in the schedule twice}}
  pp.schedule "1f1b" microbatches(2) checkpoint("never") ranks([
    ["0F0", "0SEND_F0", "0F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1", "0U"],
    ["1RECV_F0", "1F0", "1B0", "1RECV_F1", "1SEND_B0", "1F1", "1B1", "1SEND_B1", "1U"]])
}

// -----

// A backward comes before its forward.
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
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
  pp.channel @channel0 next from(0) forward result(0) to(1) forward release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  pp.channel @channel1 gradient from(1) backward_input result(0) to(0) backward_input release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  // expected-error@+1 {{1F0 comes after 1B0}}
  pp.schedule "1f1b" microbatches(2) checkpoint("never") ranks([
    ["0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1", "0U"],
    ["1RECV_F0", "1B0", "1F0", "1RECV_F1", "1SEND_B0", "1F1", "1B1", "1SEND_B1", "1U"]])
}

// -----

// A send has no receive.
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
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
  pp.channel @channel0 next from(0) forward result(0) to(1) forward release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  pp.channel @channel1 gradient from(1) backward_input result(0) to(0) backward_input release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  // expected-error@+1 {{1RECV_F1 is missing}}
  pp.schedule "1f1b" microbatches(2) checkpoint("never") ranks([
    ["0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1", "0U"],
    ["1RECV_F0", "1F0", "1B0", "1SEND_B0", "1F1", "1B1", "1SEND_B1", "1U"]])
}

// -----

// Both ranks wait in a send: the naive 1F1B under rendezvous.
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
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
  pp.channel @channel0 next from(0) forward result(0) to(1) forward release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  pp.channel @channel1 gradient from(1) backward_input result(0) to(0) backward_input release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  // expected-error@+1 {{deadlock: rank 0 waits in 0SEND_F1 for rank 1 to reach 1RECV_F1; rank 1 waits in 1SEND_B0 for rank 0 to reach 0RECV_B0}}
  pp.schedule "1f1b" microbatches(2) checkpoint("never") ranks([
    ["0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1", "0U"],
    ["1RECV_F0", "1F0", "1B0", "1SEND_B0", "1RECV_F1", "1F1", "1B1", "1SEND_B1", "1U"]])
}

// -----

// The update is not last.
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
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
  pp.channel @channel0 next from(0) forward result(0) to(1) forward release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  pp.channel @channel1 gradient from(1) backward_input result(0) to(0) backward_input release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  // expected-error@+1 {{0U}}
  pp.schedule "1f1b" microbatches(2) checkpoint("never") ranks([
    ["0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0U", "0B1"],
    ["1RECV_F0", "1F0", "1B0", "1RECV_F1", "1SEND_B0", "1F1", "1B1", "1SEND_B1", "1U"]])
}

// -----

// A value that crosses has no channel.
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
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
  pp.channel @channel0 next from(0) forward result(0) to(1) forward release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  // expected-error@+1 {{has 1 channels, but 2 values cross between stages}}
  pp.schedule "1f1b" microbatches(2) checkpoint("never") ranks([
    ["0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1", "0U"],
    ["1RECV_F0", "1F0", "1B0", "1RECV_F1", "1SEND_B0", "1F1", "1B1", "1SEND_B1", "1U"]])
}

// -----

// What is no action.
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
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
  pp.channel @channel0 next from(0) forward result(0) to(1) forward release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  pp.channel @channel1 gradient from(1) backward_input result(0) to(0) backward_input release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  // expected-error@+1 {{line 1, field 1: '0X0': expected an action}}
  pp.schedule "1f1b" microbatches(2) checkpoint("never") ranks([
    ["0X0", "0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1", "0U"],
    ["1RECV_F0", "1F0", "1B0", "1RECV_F1", "1SEND_B0", "1F1", "1B1", "1SEND_B1", "1U"]])
}

// -----

// A channel leads elsewhere than the value.
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
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
  pp.channel @channel0 next from(0) forward result(0) to(1) forward release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  // expected-error@+1 {{'channel1' does not connect what the step connects here}}
  pp.channel @channel1 gradient from(1) backward_input result(1) to(0) backward_input release("") send_slots([]) receive_slots([]) : tensor<4xf32>
  pp.schedule "1f1b" microbatches(2) checkpoint("never") ranks([
    ["0F0", "0SEND_F0", "0F1", "0SEND_F1", "0RECV_B0", "0B0", "0RECV_B1", "0B1", "0U"],
    ["1RECV_F0", "1F0", "1B0", "1RECV_F1", "1SEND_B0", "1F1", "1B1", "1SEND_B1", "1U"]])
}

// -----

// No schedule at all.
// expected-error@+1 {{has no schedule; run pp-schedule first}}
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
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

// -----

// No step.
// expected-error@+1 {{has no function with fed arguments (pp.feed)}}
module {
}

// -----

// Replicas that do not add up their gradients, or before they have all.
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_weight (%a = %0) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %0 : tensor<4xf32>
  }
  // expected-error@+1 {{0REDUCE_GRAD is missing}}
  pp.schedule "1f1b" microbatches(1) replicas(2) checkpoint("never") ranks([["0F0", "0B0", "0U"]])
}

// -----

module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_weight (%a = %0) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %0 : tensor<4xf32>
  }
  // expected-error@+1 {{0B1 comes after 0REDUCE_GRAD}}
  pp.schedule "1f1b" microbatches(2) replicas(2) checkpoint("never") ranks([["0F0", "0F1", "0B0", "0REDUCE_GRAD", "0B1", "0U"]])
}

// -----

// The planner knows collectives, but a step has no replicas.
module {
  func.func @main(%x: tensor<4xf32> {pp.feed = "x", pp.role = "input"}) -> (tensor<4xf32> {pp.fetch = "loss"}) {
    %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      pp.return %a : tensor<4xf32>
    }
    pp.stage 0 backward_weight (%a = %0) : (tensor<4xf32>) -> () {
      pp.return
    }
    return %0 : tensor<4xf32>
  }
  // expected-error@+1 {{cannot be read: line 1, field 3: '0REDUCE_GRAD': no replicas of the stage add up their gradients}}
  pp.schedule "1f1b" microbatches(1) checkpoint("never") ranks([["0F0", "0B0", "0REDUCE_GRAD", "0U"]])
}
