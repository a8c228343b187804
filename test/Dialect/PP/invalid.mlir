// One case for each error that a verifier of pp can give.
// RUN: pp-opt %s --verify-diagnostics --split-input-file

//===----------------------------------------------------------------------===//
// Attributes on other operations
//===----------------------------------------------------------------------===//

func.func @phase(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.relu' op has an attribute 'step.phase' that is not a #step.phase}}
  %0 = nn.relu %x {step.phase = "forward"} : tensor<4xf32>
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
  // expected-error@+1 {{'nn.relu' op has an attribute 'step.origin' that is not a number from 0 on}}
  %0 = nn.relu %x {step.origin = "relu"} : tensor<4xf32>
  return
}

// -----

func.func @buffers(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.relu' op has an attribute 'pp.buffers' that is not an array of #pp.buffer}}
  %0 = nn.relu %x {pp.buffers = [0]} : tensor<4xf32>
  return
}

// -----

func.func @unknown(%x: tensor<4xf32>) {
  // expected-error@+1 {{'nn.relu' op has an unknown attribute 'pp.phrase'}}
  %0 = nn.relu %x {pp.phrase = 1} : tensor<4xf32>
  return
}

// -----

// expected-error@+1 {{'func.func' op has an unknown attribute 'pp.fed' on an argument}}
func.func @argument(%x: tensor<4xf32> {pp.fed = "x"}) {
  return
}

// -----

// expected-error@+1 {{'func.func' op has an attribute 'step.fetch' on a result that is not a string}}
func.func @result(%x: tensor<4xf32>) -> (tensor<4xf32> {step.fetch = 1}) {
  return %x : tensor<4xf32>
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
  // expected-error@+1 {{attribute 'stage' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
  pp.stage -1 forward () : () -> () {
    pp.return
  }
  return
}

// -----

func.func @stage_arguments(%x: tensor<4xf32>) {
  // expected-error@+1 {{'pp.stage' op has block arguments of other types than its operands}}
  "pp.stage"(%x) <{phase = #step.phase<forward>, stage = 0 : i64}> ({
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

func.func @sources_alone(%x: tensor<4xf32>) {
  // expected-error@+1 {{'pp.stage' op needs both sources and targets, or none of them}}
  pp.stage 0 forward (%a = %x) sources([feed 0]) : (tensor<4xf32>) -> () {
    pp.return
  }
  return
}

// -----

func.func @sources_number(%x: tensor<4xf32>) {
  // expected-error@+1 {{'pp.stage' op has 0 sources for 1 operands}}
  pp.stage 0 forward (%a = %x) sources([]) targets([]) : (tensor<4xf32>) -> () {
    pp.return
  }
  return
}

// -----

func.func @sources_wrong(%x: tensor<4xf32>) {
  // expected-error@+1 {{'pp.stage' op says that operand 0 comes from #pp.end<feed 1>, but it does not}}
  pp.stage 0 forward (%a = %x) sources([feed 1]) targets([]) : (tensor<4xf32>) -> () {
    pp.return
  }
  return
}

// -----

func.func @targets_wrong(%x: tensor<4xf32>) {
  // expected-error@+1 {{'pp.stage' op sends result 0 to #pp.end<fetch 1>, where no result can go}}
  %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[fetch 1]]) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  return
}

// -----

func.func @no_channel(%x: tensor<4xf32>) {
  // expected-error@+1 {{'pp.stage' op names @c0, which is not a channel}}
  %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  return
}

// -----

pp.channel @c0 next from(1) forward to(2) forward until forward value("v") : tensor<4xf32>
func.func @other_stage(%x: tensor<4xf32>) {
  // expected-error@+1 {{'pp.stage' op writes to @c0, which does not end in this phase}}
  %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  return
}

// -----

pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<5xf32>
func.func @channel_type(%x: tensor<4xf32>) {
  // expected-error@+1 {{'pp.stage' op moves a 'tensor<4xf32>' through @c0, which is for 'tensor<5xf32>'}}
  %0 = pp.stage 0 forward (%a = %x) sources([feed 0]) targets([[channel @c0]]) : (tensor<4xf32>) -> tensor<4xf32> {
    pp.return %a : tensor<4xf32>
  }
  return
}

// -----

func.func @end_name(%x: tensor<4xf32>) {
  // expected-error@+1 {{unknown end 'somewhere'; known: residual, prepared, channel @name, feed N, fetch N, loss, loss_scale}}
  pp.stage 0 forward (%a = %x) sources([somewhere]) targets([]) : (tensor<4xf32>) -> () {
    pp.return
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

// expected-error@+1 {{attribute 'from' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative}}
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
pp.channel @c0 next from(1) forward to(1) forward until forward value("v") : tensor<4xf32>

// -----

// expected-error@+1 {{'pp.channel' op 'c0' is last read in forward, before it is first read in backward_input}}
pp.channel @c0 next from(0) forward to(1) backward_input until forward value("v") : tensor<4xf32>

// -----

// expected-error@+1 {{'pp.channel' op 'c0' has send slots for 1 micro-batches and receive slots for 2}}
pp.channel @c0 next from(0) forward to(1) forward until forward value("v") release(B) send(0, [0]) receive(0, [0, 1]) : tensor<4xf32>

// -----

// expected-error@+1 {{'pp.channel' op 'c0' needs a release and receive slots, or none of them}}
pp.channel @c0 next from(0) forward to(1) forward until forward value("v") release(B) : tensor<4xf32>

// -----

// expected-error@+1 {{'pp.channel' op 'c0' has a slot -1}}
pp.channel @c0 next from(0) forward to(1) forward until forward value("v") release(B) receive(0, [-1]) : tensor<4xf32>

// -----

// expected-error@+1 {{unknown channel kind 'sideways'}}
pp.channel @c0 sideways from(0) forward to(1) forward until forward value("v") : tensor<4xf32>

// -----

// expected-error@+1 {{'0X0' is no action; expected one such as 0F0, 1B3 or 0SEND_F1}}
pp.schedule "gpipe" microbatches(1) checkpoint(never) ranks([[0X0]])

// -----

// expected-error@+1 {{'0SEND_F0' must name a channel if, and only if, it is a transfer}}
pp.schedule "gpipe" microbatches(1) checkpoint(never) ranks([[0SEND_F0]])

// -----

// expected-error@+1 {{'0U' cannot have this residual slot}}
pp.schedule "gpipe" microbatches(1) checkpoint(never) ranks([[0U[0]]])

// -----

// expected-error@+1 {{'16777217F0' has a number that is too large}}
pp.schedule "gpipe" microbatches(1) checkpoint(never) ranks([[16777217F0]])

// -----

// The notation has them, but for the planner and the executor.
// expected-error@+1 {{'0ALLREDUCE' is no action}}
pp.schedule "gpipe" microbatches(1) checkpoint(never) ranks([[0ALLREDUCE]])

// -----

// expected-error@+1 {{'pp.schedule' op has the action '0F1', but only 1 micro-batches}}
pp.schedule "gpipe" microbatches(1) checkpoint(never) ranks([[0F0, 0F1]])

// -----

// expected-error@+1 {{'pp.schedule' op has the action '0REDUCE_GRAD', but no replicas}}
pp.schedule "gpipe" microbatches(1) checkpoint(never) ranks([[0REDUCE_GRAD]])

// -----

// expected-error@+1 {{'pp.schedule' op names @c0, which is not a channel}}
pp.schedule "gpipe" microbatches(1) checkpoint(never) ranks([[0SEND_F0 @c0]])

// -----

pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
// expected-error@+1 {{'pp.schedule' op has the action '0RECV_F0', but @c0 leads from stage 0 to stage 1 in a forward phase}}
pp.schedule "gpipe" microbatches(1) checkpoint(never) ranks([[0RECV_F0 @c0]])

// -----

pp.channel @c0 next from(0) forward to(1) forward until forward value("v") : tensor<4xf32>
// expected-error@+1 {{'pp.schedule' op has the action '0SEND_B0', but @c0 leads from stage 0 to stage 1 in a forward phase}}
pp.schedule "gpipe" microbatches(1) checkpoint(never) ranks([[0SEND_B0 @c0]])

// -----

// expected-error@+1 {{attribute 'replicas' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
pp.schedule "gpipe" microbatches(1) replicas(0) checkpoint(never) ranks([[0F0]])

// -----

// expected-error@+1 {{attribute 'microbatches' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
pp.schedule "gpipe" microbatches(0) checkpoint(never) ranks([[]])

// -----

// expected-error@+1 {{unknown checkpoint mode 'sometimes'}}
pp.schedule "gpipe" microbatches(1) checkpoint(sometimes) ranks([[]])

// -----

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

// expected-error@+1 {{'pp.memory' op area 'scratch' ends behind the total of 64 bytes}}
pp.memory 0 total(64) areas([<scratch, 64, 64>]) slots(0, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)

// -----

// expected-error@+1 {{'pp.memory' op area 'scratch' overlaps the one before}}
pp.memory 0 total(64) areas([<residuals, 0, 64>, <scratch, 32, 32>]) slots(0, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)

// -----

// expected-error@+1 {{'pp.memory' op area 'residuals' stands after 'scratch'}}
pp.memory 0 total(64) areas([<scratch, 0, 64>, <residuals, 64, 0>]) slots(0, 0) parameters([]) buffers([]) statistics([]) kernels([]) discards([], 0)

// -----

// expected-error@+1 {{'pp.memory' op @w lies at 128, which is not in 'parameters', or before the one before}}
pp.memory 0 total(64) areas([<parameters, 0, 64>]) slots(0, 0) parameters([<@w, 128>]) buffers([]) statistics([]) kernels([]) discards([], 0)

// -----

// expected-error@+1 {{'pp.memory' op places @w, which is no global of the program}}
pp.memory 0 total(64) areas([<parameters, 0, 64>]) slots(0, 0) parameters([<@w, 0>]) buffers([]) statistics([]) kernels([]) discards([], 0)

// -----

// expected-error@+1 {{'pp.memory' op names kernel 1, but has 1}}
pp.memory 0 total(64) areas([]) slots(0, 0) parameters([]) buffers([]) statistics([]) kernels([<"matmul", 0>]) discards([], 0) optimizer_kernel(1)

// -----

// expected-error@+1 {{'pp.memory' op has a kernel with a scratchpad of -1 bytes}}
pp.memory 0 total(64) areas([]) slots(0, 0) parameters([]) buffers([]) statistics([]) kernels([<"matmul", -1>]) discards([], 0)

// -----

func.func @terminator(%x: tensor<4xf32>) {
  // expected-error@+2 {{'pp.stage' op expects regions to end with 'pp.return', found 'llvm.unreachable'}}
  // expected-note@+1 {{in custom textual format, the absence of terminator implies 'pp.return'}}
  "pp.stage"(%x) <{phase = #step.phase<forward>, stage = 0 : i64}> ({
  ^bb0(%a: tensor<4xf32>):
    llvm.unreachable
  }) : (tensor<4xf32>) -> ()
  return
}
