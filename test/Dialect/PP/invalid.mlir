// One case for each error that a verifier of pp can give.
// RUN: pp-opt %s --verify-diagnostics --split-input-file

//===----------------------------------------------------------------------===//
// Attributes on other operations
//===----------------------------------------------------------------------===//

func.func @phase(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.relu' op has an attribute 'pp.phase' that is not a #pp.phase}}
  %0 = nn.relu %x {pp.phase = "forward"} : tensor<4xf32>
  return
}

// -----

func.func @cost(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.relu' op has an attribute 'pp.cost' that is not a #pp.cost}}
  %0 = nn.relu %x {pp.cost = 4} : tensor<4xf32>
  return
}

// -----

func.func @stage_number(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.relu' op has an attribute 'pp.stage' that is not a number from 0 on}}
  %0 = nn.relu %x {pp.stage = -1} : tensor<4xf32>
  return
}

// -----

func.func @origin(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.relu' op has an attribute 'pp.origin' that is not a number from 0 on}}
  %0 = nn.relu %x {pp.origin = "relu"} : tensor<4xf32>
  return
}

// -----

func.func @buffers(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.relu' op has an attribute 'pp.buffers' that is not an array of #pp.buffer}}
  %0 = nn.relu %x {pp.buffers = [0]} : tensor<4xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

func.func @phase_name() {
  // expected-error@+1 {{unknown phase 'sideways'}}
  pp.stage 0 sideways () : () -> () {
    pp.return
  }
  return
}

// -----

func.func @negative_stage() {
  // expected-error@+1 {{'pp.stage' op has the negative number -1}}
  pp.stage -1 forward () : () -> () {
    pp.return
  }
  return
}

// -----

func.func @stage_arguments(%x: tensor<4xf32>) {
  // expected-error@+1 {{'pp.stage' op has block arguments of other types than its operands}}
  "pp.stage"(%x) <{phase = #pp.phase<forward>, stage = 0 : i64}> ({
  ^bb0(%a: tensor<5xf32>):
    pp.return
  }) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @stage_results(%x: tensor<4xf32>) {
  // expected-error@+1 {{'pp.stage' op returns values of other types than its results}}
  %0 = pp.stage 0 forward (%a = %x) : (tensor<4xf32>) -> tensor<5xf32> {
    pp.return %a : tensor<4xf32>
  }
  return
}

// -----

func.func @isolated(%x: tensor<4xf32>) {
  // expected-note@+1 {{required by region isolation constraints}}
  pp.stage 0 forward () : () -> () {
    // expected-error@+1 {{'nn.relu' op using value defined outside the region}}
    %0 = nn.relu %x : tensor<4xf32>
    pp.return
  }
  return
}

// -----

// expected-error@+1 {{'pp.stage' op expects parent op 'func.func'}}
pp.stage 0 forward () : () -> () {
  pp.return
}

// -----

//===----------------------------------------------------------------------===//
// Portals
//===----------------------------------------------------------------------===//

// expected-error@+1 {{'pp.portal' op 'skip' names a negative stage}}
pp.portal @skip from(-1) to(2) forward : tensor<4xf32>

// -----

// expected-error@+1 {{'pp.portal' op 'skip' leads backward, from stage 3 to stage 1, in the forward phase}}
pp.portal @skip from(3) to(1) forward : tensor<4xf32>

// -----

// expected-error@+1 {{'pp.portal' op 'skip' leads forward, from stage 1 to stage 3, in a backward phase}}
pp.portal @skip from(1) to(3) backward_input : tensor<4xf32>

// -----

// expected-error@+1 {{'pp.portal' op 'skip' skips no stage: 1 and 2 are neighbours}}
pp.portal @skip from(1) to(2) forward : tensor<4xf32>

// -----

// expected-error@+1 {{'pp.portal' op 'skip' is stashed 0 times, must be once}}
pp.portal @skip from(0) to(2) forward : tensor<4xf32>
func.func @not_stashed() {
  %0 = pp.pop @skip : tensor<4xf32>
  return
}

// -----

// expected-error@+1 {{'pp.portal' op 'skip' is popped 0 times, must be once}}
pp.portal @skip from(0) to(2) forward : tensor<4xf32>
func.func @not_popped(%x: tensor<4xf32>) {
  pp.stash @skip, %x : tensor<4xf32>
  return
}

// -----

// expected-error@+1 {{'pp.portal' op 'skip' is stashed 2 times, must be once}}
pp.portal @skip from(0) to(2) forward : tensor<4xf32>
func.func @stashed_twice(%x: tensor<4xf32>) {
  // expected-note@+1 {{here}}
  pp.stash @skip, %x : tensor<4xf32>
  // expected-note@+1 {{here}}
  pp.stash @skip, %x : tensor<4xf32>
  %0 = pp.pop @skip : tensor<4xf32>
  return
}

// -----

// expected-error@+1 {{'pp.portal' op 'skip' is popped 2 times, must be once}}
pp.portal @skip from(0) to(2) forward : tensor<4xf32>
func.func @popped_twice(%x: tensor<4xf32>) {
  pp.stash @skip, %x : tensor<4xf32>
  // expected-note@+1 {{here}}
  %0 = pp.pop @skip : tensor<4xf32>
  // expected-note@+1 {{here}}
  %1 = pp.pop @skip : tensor<4xf32>
  return
}

// -----

func.func @no_portal(%x: tensor<4xf32>) {
  // expected-error@+1 {{'pp.stash' op names @skip, which is not a portal}}
  pp.stash @skip, %x : tensor<4xf32>
  return
}

// -----

func.func private @skip()
func.func @not_a_portal() {
  // expected-error@+1 {{'pp.pop' op names @skip, which is not a portal}}
  %0 = pp.pop @skip : tensor<4xf32>
  return
}

// -----

pp.portal @skip from(0) to(2) forward : tensor<4xf32>
func.func @stash_type(%x: tensor<5xf32>) {
  // expected-error@+1 {{'pp.stash' op moves a 'tensor<5xf32>' through @skip, which is for 'tensor<4xf32>'}}
  pp.stash @skip, %x : tensor<5xf32>
  %0 = pp.pop @skip : tensor<4xf32>
  return
}

// -----

pp.portal @skip from(0) to(2) forward : tensor<4xf32>
func.func @pop_type(%x: tensor<4xf32>) {
  pp.stash @skip, %x : tensor<4xf32>
  // expected-error@+1 {{'pp.pop' op moves a 'tensor<4xf64>' through @skip, which is for 'tensor<4xf32>'}}
  %0 = pp.pop @skip : tensor<4xf64>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Channels and schedules
//===----------------------------------------------------------------------===//

// expected-error@+1 {{'pp.channel' op 'c0' connects stage 1 with itself}}
pp.channel @c0 next from(1) forward result(0) to(1) forward release("B") send_slots([0]) receive_slots([0]) : tensor<4xf32>

// -----

// expected-error@+1 {{'pp.channel' op 'c0' has send slots for 1 micro-batches and receive slots for 2}}
pp.channel @c0 next from(0) forward result(0) to(1) forward release("B") send_slots([0]) receive_slots([0, 1]) : tensor<4xf32>

// -----

// expected-error@+1 {{'pp.schedule' op needs a list of action names for each rank}}
pp.schedule "gpipe" microbatches(1) checkpoint("never") ranks(["0F0"])

// -----

// expected-error@+1 {{'pp.schedule' op needs a list of action names for each rank}}
pp.schedule "gpipe" microbatches(1) checkpoint("never") ranks([[0]])

// -----

// expected-error@+1 {{'pp.schedule' op needs a list of slot numbers for each rank}}
pp.schedule "gpipe" microbatches(1) checkpoint("never") ranks([["0F0"]]) slots([["0"]])

// -----

// expected-error@+1 {{'pp.schedule' op needs one or more replicas}}
pp.schedule "gpipe" microbatches(1) replicas(0) checkpoint("never") ranks([["0F0"]])

// -----

// expected-error@+1 {{'pp.schedule' op needs one or more micro-batches}}
pp.schedule "gpipe" microbatches(0) checkpoint("never") ranks([["0F0"]])

// -----

// expected-error@+1 {{'pp.schedule' op needs a slot for each action}}
pp.schedule "gpipe" microbatches(1) checkpoint("never") ranks([["0F0", "0B0"]]) slots([[0]])

// -----

// expected-error@+1 {{'pp.memory' op area 'parameters' needs an offset and a number of bytes}}
pp.memory 0 total(64) areas {parameters = [0, 64]} symbols {parameters = {}, buffers = {}, statistics = {}}

// -----

// expected-error@+1 {{'pp.memory' op area 'scratch' ends behind the total of 64 bytes}}
pp.memory 0 total(64) areas {scratch = {offset = 64, bytes = 64}} symbols {parameters = {}, buffers = {}, statistics = {}}

// -----

// expected-error@+1 {{'pp.memory' op symbols have no dictionary 'buffers'}}
pp.memory 0 total(64) areas {} symbols {parameters = {}, statistics = {}}

// -----

// expected-error@+1 {{'pp.memory' op 'w' has no offset in 'parameters'}}
pp.memory 0 total(64) areas {} symbols {parameters = {w = "first"}, buffers = {}, statistics = {}}

// -----

// expected-error@+1 {{'pp.memory' op needs 'library', 'discards' and 'discard_statistics'}}
pp.memory 0 total(64) areas {} symbols {parameters = {}, buffers = {}, statistics = {}} {library = []}

// -----

// expected-error@+1 {{'pp.memory' op 'library' holds what is no kernel with a descriptor and a scratchpad}}
pp.memory 0 total(64) areas {} symbols {parameters = {}, buffers = {}, statistics = {}} {library = ["matmul"], discards = [], discard_statistics = 0}
