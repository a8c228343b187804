// RUN: pp-opt %s --split-input-file --verify-diagnostics --nn-lower-kernels

// expected-error@+1 {{has a module @code already}}
module {
  module @code {
  }
}
