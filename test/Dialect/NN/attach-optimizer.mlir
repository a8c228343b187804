// RUN: pp-opt %s --nn-attach-optimizer="learning-rate=0.05 momentum=0.9 weight-decay=0.125" | FileCheck %s --check-prefix=SGD
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=adamw learning-rate=0.001 weight-decay=0.25 beta1=0.875 beta2=0.75 epsilon=0.5" | FileCheck %s --check-prefixes=ADAMW
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=adamw" | FileCheck %s --check-prefix=ADAMW-ROOT
// RUN: pp-opt %s --nn-attach-optimizer="loss-scale=dynamic" | FileCheck %s --check-prefix=SCALE
module {
}

// g' = g + decay * p;  v' = momentum * v + g';  p' = p - lr * v'
// SGD-LABEL: func.func private @optimizer(
// SGD-SAME: %[[P:[^:]+]]: tensor<16xf32>, %[[G:[^:]+]]: tensor<16xf32>, %[[V:[^:]+]]: tensor<16xf32>, %[[LR:[^:]+]]: tensor<f32>, %[[MU:[^:]+]]: tensor<f32>, %[[WD:[^:]+]]: tensor<f32>)
// SGD-SAME: -> (tensor<16xf32>, tensor<16xf32>)
// SGD-SAME: step.optimizer = #step.optimizer<"sgd"
// SGD-SAME: states = ["momentum"]
// SGD-SAME: #step.scalar<"lr", value = 5.000000e-02 : f64>, #step.scalar<"momentum", value = 9.000000e-01 : f64>, #step.scalar<"weight_decay", value = 1.250000e-01 : f64>
// SGD: %[[BLR:.+]] = nn.broadcast %[[LR]] []
// SGD: %[[BMU:.+]] = nn.broadcast %[[MU]] []
// SGD: %[[BWD:.+]] = nn.broadcast %[[WD]] []
// SGD: %[[D:.+]] = nn.mul %[[BWD]], %[[P]]
// SGD: %[[DG:.+]] = nn.add %[[G]], %[[D]]
// SGD: %[[MV:.+]] = nn.mul %[[BMU]], %[[V]]
// SGD: %[[NV:.+]] = nn.add %[[MV]], %[[DG]]
// SGD: %[[STEP:.+]] = nn.mul %[[BLR]], %[[NV]]
// SGD: %[[NP:.+]] = nn.sub %[[P]], %[[STEP]]
// SGD: return %[[NP]], %[[NV]]

// ADAMW-LABEL: func.func private @optimizer(
// ADAMW-SAME: -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
// ADAMW-SAME: step.optimizer = #step.optimizer<"adamw"
// ADAMW-SAME: states = ["exp_avg", "exp_avg_sq"]
// ADAMW-SAME: #step.scalar<"lr", value = 1.000000e-03 : f64>, #step.scalar<"weight_decay", value = 2.500000e-01 : f64>
// ADAMW-SAME: #step.scalar<"bias_correction1", one_minus_power_of = 8.750000e-01 : f64>, #step.scalar<"bias_correction2", one_minus_power_of = 7.500000e-01 : f64>
// mean' = b1 * mean + (1 - b1) * g
// ADAMW: nn.constant dense<8.750000e-01> : tensor<16xf32>
// ADAMW: nn.constant dense<1.250000e-01> : tensor<16xf32>
// square' = b2 * square + (1 - b2) * g * g
// ADAMW: nn.constant dense<7.500000e-01> : tensor<16xf32>
// ADAMW: nn.constant dense<2.500000e-01> : tensor<16xf32>
// p' = p * (1 - lr * decay) - lr / c1 * mean' / (sqrt(square') / sqrt(c2) + epsilon)
// ADAMW: nn.constant dense<5.000000e-01> : tensor<16xf32>
// ADAMW: nn.constant dense<1.000000e+00> : tensor<16xf32>
// ADAMW: return

// ADAMW-ROOT-COUNT-2: nn.sqrt
// ADAMW-ROOT-NOT: nn.sqrt

// A loss scale divides the gradient, and a step that is skipped keeps parameter and state.
// SCALE: %[[P:[^:]+]]: tensor<16xf32>, %[[G:[^:]+]]: tensor<16xf32>, %[[V:[^:]+]]: tensor<16xf32>
// SCALE-SAME: %[[FACTOR:[^:]+]]: tensor<f32>, %[[SKIPPED:[^:]+]]: tensor<f32>)
// SCALE-SAME: #step.scalar<"growth_interval", value = 2.000000e+03 : f64>, #step.scalar<"skip_limit", value = 5.000000e+01 : f64>
// SCALE-SAME: #step.scalar<"loss_scale", initial_scale = 6.553600e+04 : f64>, #step.scalar<"skipped", is_skipped>
// SCALE: %[[B:.+]] = nn.broadcast %[[FACTOR]] []
// SCALE: nn.div %[[G]], %[[B]]
// SCALE: %[[NP:.+]] = nn.sub %[[P]]
// SCALE: %[[S:.+]] = nn.broadcast %[[SKIPPED]] []
// SCALE: %[[IS:.+]] = nn.compare ne %[[S]]
// SCALE: %[[RP:.+]] = nn.select %[[IS]], %[[P]], %[[NP]]
// SCALE: %[[RV:.+]] = nn.select %[[IS]], %[[V]]
// SCALE: return %[[RP]], %[[RV]]
