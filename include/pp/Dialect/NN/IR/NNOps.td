//===- NNOps.td - All operations of the nn dialect -------------*- tablegen -*-===//

#ifndef PP_DIALECT_NN_IR_NNOPS_TD
#define PP_DIALECT_NN_IR_NNOPS_TD

include "pp/Dialect/NN/IR/NNStructureOps.td"
include "pp/Dialect/NN/IR/NNElementwiseOps.td"
include "pp/Dialect/NN/IR/NNShapeOps.td"
include "pp/Dialect/NN/IR/NNContractionOps.td"
include "pp/Dialect/NN/IR/NNWindowOps.td"
include "pp/Dialect/NN/IR/NNAttentionOps.td"
include "pp/Dialect/NN/IR/NNNormalizationOps.td"
include "pp/Dialect/NN/IR/NNLossOps.td"

#endif // PP_DIALECT_NN_IR_NNOPS_TD
