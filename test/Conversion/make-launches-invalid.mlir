// Loops that no kernel of a GPU is made for, at the place that they come from.
// RUN: pp-opt %s --pp-make-launches --split-input-file --verify-diagnostics

// expected-error@+1 {{has no module @code; run nn-lower-kernels first}}
module {
}

// -----

// expected-error@+1 {{has a module @device already}}
module {
  module @code {
  }
  gpu.module @device {
  }
}

// -----

module {
  // expected-error@+1 {{no kernel of a GPU makes the directions of 'adafactor'}}
  func.func private @optimizer() attributes {step.optimizer = #step.optimizer<"adafactor", states = ["variance"], scalars = [#step.scalar<"direction", value = -1.0>]>}
  module @code {
    func.func @optimizer_block() {
      return
    }
  }
}

// -----

module {
  module @code {
    func.func @kernel_0(%x: memref<4xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      // expected-error@+1 {{a loop that no kernel of a GPU is made for}}
      scf.for %i = %c0 to %c1 step %c1 {
      }
      return
    }
  }
}

// -----

module {
  module @code {
    func.func @kernel_0(%x: memref<4xf32>, %y: memref<f32>) {
      // expected-error@+1 {{a reduction that no kernel of a GPU is made for}}
      linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%x : memref<4xf32>) outs(%y : memref<f32>) {
      ^bb0(%a: f32, %b: f32):
        %0 = arith.subf %a, %b : f32
        linalg.yield %0 : f32
      }
      return
    }
  }
}

// -----

module {
  module @code {
    func.func @kernel_0(%x: memref<4xf32>, %i: index) {
      %0 = arith.constant 0.0 : f32
      // expected-error@+1 {{no kernel of a GPU can be made for this}}
      memref.store %0, %x[%i] : memref<4xf32>
      return
    }
  }
}

// -----

// A number that is written after it is read cannot be read by a later launch.
module {
  module @code {
    func.func @kernel_0(%x: memref<f32>, %y: memref<f32>) {
      // expected-error@+1 {{no kernel of a GPU can be made for this}}
      %0 = memref.load %x[] : memref<f32>
      linalg.fill ins(%0 : f32) outs(%x : memref<f32>)
      linalg.fill ins(%0 : f32) outs(%y : memref<f32>)
      return
    }
  }
}

// -----

module {
  module @code {
    func.func @kernel_0(%n: index) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      // expected-error@+1 {{a row loop without a constant number of rows}}
      scf.for %i = %c0 to %n step %c1 {
      } {pp.rows}
      return
    }
  }
}

// -----

module {
  module @code {
    func.func @kernel_0() {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      // expected-error@+1 {{not the loops of a scatter-add}}
      scf.for %i = %c0 to %c1 step %c1 {
      } {pp.scatter_add = array<i64: 0, 1>}
      return
    }
  }
}

// -----

// All at once.
module {
  module @code {
    func.func @kernel_0(%x: memref<4xf64>) {
      linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%x : memref<4xf64>) {
      ^bb0(%a: f64):
        %0 = math.sqrt %a : f64
        // expected-error@+1 {{no kernel of a GPU can compute exp of f64; use f32}}
        %1 = math.exp %0 : f64
        // expected-error@+1 {{no kernel of a GPU can compute erf of f64; use f32}}
        %2 = math.erf %1 : f64
        linalg.yield %2 : f64
      }
      return
    }
  }
}
