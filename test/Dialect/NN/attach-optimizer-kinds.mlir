// RUN: pp-opt %s --nn-attach-optimizer="momentum=0.9 nesterov=true" | FileCheck %s --check-prefix=NESTEROV
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=adam weight-decay=0.25" | FileCheck %s --check-prefix=ADAM
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=rmsprop" | FileCheck %s --check-prefix=RMSPROP
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=rmsprop momentum=0.5 centered=true" | FileCheck %s --check-prefix=CENTERED
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=adagrad" | FileCheck %s --check-prefix=ADAGRAD
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=lion" | FileCheck %s --check-prefix=LION
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=lamb" | FileCheck %s --check-prefix=LAMB
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=lars momentum=0.9 trust-coefficient=0.5" | FileCheck %s --check-prefix=LARS
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=adafactor ema-decay=0.5" | FileCheck %s --check-prefix=ADAFACTOR
// RUN: pp-opt %s --nn-attach-optimizer="optimizer=muon" | FileCheck %s --check-prefix=MUON
module {
}

// v' = momentum * v + g';  p' = p - lr * (g' + momentum * v')
// NESTEROV-LABEL: @optimizer(
// NESTEROV: %[[MV:.+]] = nn.mul %{{.+}}, %arg2
// NESTEROV: %[[V:.+]] = nn.add %[[MV]], %[[G:.+]] : tensor<16xf32>
// NESTEROV: %[[AHEAD:.+]] = nn.mul %{{.+}}, %[[V]]
// NESTEROV: %[[D:.+]] = nn.add %[[G]], %[[AHEAD]]
// NESTEROV: %[[STEP:.+]] = nn.mul %{{.+}}, %[[D]]
// NESTEROV: %[[P:.+]] = nn.sub %arg0, %[[STEP]]
// NESTEROV: return %[[P]], %[[V]]

// The decay is in the gradient, and in both means.
// ADAM-LABEL: @optimizer(
// ADAM-SAME: step.optimizer = #step.optimizer<"adam"
// ADAM: %[[D:.+]] = nn.mul %{{.+}}, %arg0
// ADAM: %[[G:.+]] = nn.add %arg1, %[[D]]
// ADAM: nn.mul %{{.+}}, %[[G]]
// ADAM: nn.mul %[[G]], %[[G]]

// RMSPROP-LABEL: @optimizer(
// RMSPROP-SAME: states = ["square_avg"]
// RMSPROP: nn.constant dense<9.900000e-01>
// RMSPROP: nn.constant dense<{{0.00999999977|0.01}}
// RMSPROP: nn.sqrt
// RMSPROP: nn.constant dense<{{9.99999993E-9|1.000000e-08}}

// CENTERED-LABEL: @optimizer(
// CENTERED-SAME: states = ["square_avg", "momentum", "grad_avg"]
// CENTERED-SAME: #step.scalar<"momentum", value = 5.000000e-01 : f64>
// CENTERED: %[[MEAN:.+]] = nn.add %arg4, %{{.+}}
// CENTERED: %[[MEAN2:.+]] = nn.mul %[[MEAN]], %[[MEAN]]
// CENTERED: %[[VARIANCE:.+]] = nn.sub %{{.+}}, %[[MEAN2]]
// CENTERED: nn.sqrt %[[VARIANCE]]

// ADAGRAD-LABEL: @optimizer(
// ADAGRAD-SAME: states = ["sum"]
// ADAGRAD: %[[G2:.+]] = nn.mul %[[G:.+]], %[[G]]
// ADAGRAD: %[[SUM:.+]] = nn.add %arg2, %[[G2]]
// ADAGRAD: nn.sqrt %[[SUM]]
// ADAGRAD: nn.constant dense<{{1.000000e-10}}

// LION-LABEL: @optimizer(
// LION-SAME: states = ["exp_avg"]
// LION: nn.sign
// LION-NOT: nn.sqrt

// Measured, the states change and the step comes instead of the parameter.
// LAMB-LABEL: @optimizer(
// LAMB-SAME: #step.scalar<"trust_ratio", value = 1.000000e+00 : f64>
// LAMB: %[[MEASURED:.+]] = nn.compare lt
// LAMB: %[[MEAN:.+]] = nn.select %[[MEASURED]], %{{.+}}, %arg2
// LAMB: %[[SQUARE:.+]] = nn.select %[[MEASURED]], %{{.+}}, %arg3
// LAMB: nn.sqrt
// LAMB: %[[P:.+]] = nn.select %[[MEASURED]]
// LAMB: return %[[P]], %[[MEAN]], %[[SQUARE]]

// LARS-LABEL: @optimizer(
// LARS-SAME: states = ["momentum"]
// LARS-SAME: #step.scalar<"trust_coefficient", value = 5.000000e-01 : f64>, #step.scalar<"trust_ratio", value = 1.000000e+00 : f64>

// The function takes the one state that has the parameter's shape.
// ADAFACTOR-LABEL: @optimizer(
// ADAFACTOR-SAME: states = ["row_var", "col_var", "variance", "ema"]
// ADAFACTOR-SAME: #step.scalar<"direction", value = -1.000000e+00 : f64>, #step.scalar<"beta2_decay", power_of_step = -8.000000e-01 : f64>
// ADAFACTOR: %[[STEP:.+]] = nn.mul %{{.+}}, %arg1
// ADAFACTOR: %[[P:.+]] = nn.sub %{{.+}}, %[[STEP]]
// ADAFACTOR: %[[EMA:.+]] = nn.add %arg2
// ADAFACTOR: return %[[P]], %[[EMA]]

// Along a direction, the states stay: the runtime has changed them.
// MUON-LABEL: @optimizer(
// MUON-SAME: #step.scalar<"momentum", value = {{0.9[0-9]+|9.500000e-01}} : f64>
// MUON: %[[OWN:.+]] = nn.compare lt
// MUON: %[[STEP:.+]] = nn.select %[[OWN]]
// MUON: %[[P:.+]] = nn.sub %{{.+}}, %[[STEP]]
// MUON: %[[MEAN:.+]] = nn.select %[[OWN]], %{{.+}}, %arg2
// MUON: %[[SQUARE:.+]] = nn.select %[[OWN]], %{{.+}}, %arg3
// MUON: return %[[P]], %[[MEAN]], %[[SQUARE]]
