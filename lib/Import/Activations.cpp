//===- Activations.cpp - Activations that attributes name -----------------===//

#include "Activations.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace pp;
using namespace pp::nn;

static const ActivationKind activationKinds[] = {
    {"Relu", noParameter, noParameter,
     [](Expressions &e, Value x, double, double) {
       return e.unary<ReluOp>(x);
     }},
    {"Tanh", noParameter, noParameter,
     [](Expressions &e, Value x, double, double) {
       return e.unary<TanhOp>(x);
     }},
    {"Sigmoid", noParameter, noParameter,
     [](Expressions &e, Value x, double, double) {
       return e.unary<LogisticOp>(x);
     }},
    {"Affine", 1, 0,
     [](Expressions &e, Value x, double alpha, double beta) {
       return e.add(e.mul(x, alpha), beta);
     }},
    {"LeakyRelu", 0.01, noParameter,
     [](Expressions &e, Value x, double alpha, double) {
       return e.select(e.compare(Comparison::ge, x, 0), x, e.mul(x, alpha));
     }},
    {"ThresholdedRelu", 1, noParameter,
     [](Expressions &e, Value x, double alpha, double) {
       return e.select(e.compare(Comparison::ge, x, alpha), x, e.number(x, 0));
     }},
    {"ScaledTanh", 1, 1,
     [](Expressions &e, Value x, double alpha, double beta) {
       return e.mul(e.unary<TanhOp>(e.mul(x, beta)), alpha);
     }},
    {"HardSigmoid", 0.2, 0.5,
     [](Expressions &e, Value x, double alpha, double beta) {
       return e.max(e.min(e.add(e.mul(x, alpha), beta), 1), 0);
     }},
    {"Elu", 1, noParameter,
     [](Expressions &e, Value x, double alpha, double) {
       Value low = e.mul(e.unary<Expm1Op>(e.min(x, 0)), alpha);
       return e.select(e.compare(Comparison::ge, x, 0), x, low);
     }},
    {"Softsign", noParameter, noParameter,
     [](Expressions &e, Value x, double, double) {
       return e.div(x, e.add(e.abs(x), 1));
     }},
    {"Softplus", noParameter, noParameter,
     [](Expressions &e, Value x, double, double) {
       return e.unary<SoftplusOp>(x);
     }},
};

const ActivationKind *pp::findActivation(StringRef name) {
  const auto *kind =
      llvm::find_if(activationKinds, [&](const ActivationKind &each) {
        return each.name.equals_insensitive(name);
      });
  return kind == std::end(activationKinds) ? nullptr : kind;
}
