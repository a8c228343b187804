//===- Passes.td - Passes on the nn dialect --------------------*- tablegen -*-===//

#ifndef PP_DIALECT_NN_TRANSFORMS_PASSES_TD
#define PP_DIALECT_NN_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

class NNPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::mlir::func::FuncDialect",
                           "::pp::nn::NNDialect",
                           "::pp::step::StepDialect"];
}

def Rebatch : NNPass<"nn-rebatch"> {
  let summary = "Change the number of samples the model is compiled for";
  let description = [{
    Finds the batch axis of every value, starting at axis 0 of the fed inputs,
    and changes its size to `batch`. Exporters bake the batch size into shapes
    (merged with heads or tokens too), so the axis is followed as a factor
    through each operation. An operation that mixes samples, or a
    constant that holds a value per sample, is an error that names it; all such
    errors are reported at once.

    The output `loss` may be a sum over samples, and what is linear in it: a
    mean over all, a mean plus a penalty. What micro-batches have of it adds up
    to what the model's own batch has, so there must be as many samples in all:
    ```mlir
    // microbatches=4 loss=loss
    %0 = nn.reduce sum %terms [0] : tensor<8xf32> -> tensor<f32>
    %loss = nn.mul %0, %eighth : tensor<f32>
    // becomes
    %0 = nn.reduce sum %terms [0] : tensor<2xf32> -> tensor<f32>
    %loss = nn.mul %0, %eighth : tensor<f32>
    ```

    A batch norm makes the result of a sample depend on the rows of all others.
    With `count-samples`, it is told how many rows have samples
    (`nn.present_rows`), so that a mini-batch may have fewer; else the function
    says that it needs whole ones.
  }];
  let options = [
    Option<"batch", "batch", "int64_t", "0",
           "Samples of a micro-batch; 0 keeps the model's">,
    Option<"microbatches", "microbatches", "int64_t", "1",
           "Micro-batches of a step, for running statistics and sums">,
    Option<"loss", "loss", "std::string", "",
           "The output that is a loss, and may add up samples">,
    Option<"averagesMeans", "mean-of-microbatches", "bool", "false",
           "Where a loss is a sum divided by another one, take the mean over "
           "micro-batches of it">,
    Option<"countsSamples", "count-samples", "bool", "false",
           "Let batch norms leave out rows without a sample">,
    Option<"mostSeparateAxes", "separate-results", "int64_t", "0",
           "Give results whose samples lie elsewhere an axis 0 of samples, if "
           "they then have up to so many axes">
  ];
}

def ExpandNorms : NNPass<"nn-expand-norms"> {
  let summary = "Express batch norms by sums over channels and elementwise code";
  let description = [{
    What is done to each element is then in one kernel with what follows: an
    addition of a residual, an activation, a cast. Threads share all of it.
    ```mlir
    %y, %mean, %variance = nn.batch_norm %x, %scale, %shift epsilon 1.0e-5
    %z = nn.relu %y
    // becomes
    %mean, %variance = nn.channel_moments %x
    %factor = nn.div %scale, (nn.sqrt (nn.add %variance, 1.0e-5))
    %z = nn.relu (nn.add (nn.mul (nn.sub %x, %mean), %factor), %shift)
    ```
    Runs when layouts are known, since all of it works in the input's layout.
  }];
}

def ExpandDoubles : NNPass<"nn-expand-doubles"> {
  let summary = "Express convolutions, pools and batch norms of f64 by others";
  let description = [{
    No library has kernels for them, so they become operations for which code is
    generated: a convolution is a product of its weight with columns of what each
    window sees, a transposed one that of its mirrored weight with columns of the
    operand spread apart, a pool a chain over the elements of its kernel. Of
    equal elements the first is the maximum, as in `nn.max_pool`.
    ```mlir
    %y = nn.conv %x, %w ... : (tensor<1x2x8x8xf64>, tensor<4x2x1x1xf64>) -> tensor<1x4x8x8xf64>
    // becomes
    %0 = nn.reshape %x : tensor<1x2x8x8xf64> -> tensor<1x1x2x64xf64>
    %1 = nn.reshape %w : tensor<4x2x1x1xf64> -> tensor<1x4x2xf64>
    %2 = nn.dot_general %1, %0 ... : -> tensor<1x4x1x64xf64>
    ```
    Runs before the derivative is taken, which needs no other pass then.
  }];
}

def FuseAttention : NNPass<"nn-fuse-attention"> {
  let summary = "Make one operation of products around a softmax";
  let description = [{
    Replaces softmax(scale * query x key^T + mask) x value by `nn.attention`,
    which keeps no matrix of scores. The scale is a constant that the
    query, the key or the scores are multiplied with or divided by. A mask is
    added to the scores, or selects between them and a constant. One that is
    constant and hides what is above the diagonal, with minus infinity or with
    -1e4 or less, makes attention causal, and one that hides nothing is left out.
    Such masks of floats in parameters must hide with minus infinity or the lowest
    number of f32: others may be trained elsewhere. Without `gpu`, all other masks
    become an operand, which is their sum: for padding, a window, a bias that is
    not trained. The softmax may be `zeroed`, for rows that a mask hides as a
    whole. A transpose of the result becomes its layout.

    Everything else stays as it is: tensors of another rank than 4 or of
    another type than f32, a trained mask, a dropout in between, and
    scores or weights that something else reads. With `gpu`, so does what the
    library of a GPU has no kernel for: columns that are not a multiple of 8 or
    more than 128, or that do not lie side by side in memory.
  }];
  let options = [
    Option<"gpu", "gpu", "bool", "false",
           "Keep to the limits of the library of a GPU">,
    Option<"leastMaskedColumns", "least-masked-columns", "int64_t", "0",
           "Rows of the key from which a mask becomes an operand">
  ];
}

def AttachLoss : NNPass<"nn-attach-loss"> {
  let summary = "Replace the model's output by a loss";
  let description = [{
    Adds a `target` input and makes the loss the only result: a sum over the
    micro-batch divided by the weight of the whole mini-batch, so that the losses
    (and the gradients) of micro-batches add up to those of the mini-batch. For
    classes the weight is the number of labels other than `ignore-index`, which
    only the data tell: it comes in as the input `loss_weight`, its reciprocal.

    `label-smoothing` s gives each class s / K of the K classes, and the label's
    the rest (Szegedy et al., arXiv 1512.00567, section 7), as PyTorch's. With
    `class-weights`, a class's number multiplies its terms, and the weight of a
    mini-batch is the sum of those of its labels. `huber`
    is d^2 / 2 where |d| < `delta`, and `delta` (|d| - `delta` / 2) elsewhere.
    `output` takes an output of the model as the loss, or its mean. `ctc` divides
    the loss of each sample by the number of its labels.

    `added-losses` of other outputs are added, each times its weight, as
    `0.3*cross_entropy:auxiliary=target`. Each has targets of its own, or those of
    another one by the same name, and is a mean over its own targets.
  }];
  let options = [
    Option<"loss", "loss", "::pp::nn::Loss", "::pp::nn::Loss::CrossEntropy",
           "What is made small">,
    Option<"output", "output", "std::string", "\"\"",
           "Name of the model output to use; default: the only or first one">,
    Option<"classAxis", "class-axis", "int64_t", "-1",
           "Axis of the classes; -1: axis 1 of images (rank 4 and up), else the "
           "last">,
    Option<"ignoreIndex", "ignore-index", "int64_t", "-100",
           "The label of what is not trained (cross_entropy)">,
    Option<"labelSmoothing", "label-smoothing", "double", "0.0",
           "What all classes share of a label (cross entropies)">,
    ListOption<"classWeights", "class-weights", "double",
               "What each class counts (cross_entropy); none: 1">,
    Option<"delta", "delta", "double", "1.0",
           "From where on huber is linear">,
    Option<"ctcBlank", "ctc-blank", "int64_t", "0",
           "The class between labels (ctc)">,
    Option<"ctcTargetLength", "ctc-target-length", "int64_t", "0",
           "The most labels of a sample (ctc); 0: half as many as frames">,
    Option<"ctcFrames", "ctc-frames", "bool", "false",
           "Take an input with the number of each sample's frames (ctc)">,
    ListOption<"addedLosses", "added-losses", "std::string",
               "Losses of other outputs: [WEIGHT*]LOSS:OUTPUT[=TARGET]">,
    Option<"microbatches", "microbatches", "int64_t", "1",
           "Micro-batches of a mini-batch">
  ];
}

def InferIndexRanges : NNPass<"nn-infer-index-ranges"> {
  let summary = "State which numbers the inputs of indices may hold";
  let description = [{
    An input of whole numbers that a gather takes its indices from, directly or
    through operations that only move them, gets the attribute `step.range`: the
    smallest and the largest number that is an index for all its readers. The
    program refuses others before it computes. Negative indices count from the
    end, as in ONNX. Where the elements of a sample are indices of different
    tables, each has its own two numbers.
    ```mlir
    func.func @main(%tokens: tensor<4x16xi64> {step.feed = "tokens", step.range = array<i64: -96, 95>},
                    %user_and_item: tensor<4x2xi64> {step.feed = "pair", step.range = array<i64: -10, 9, -20, 19>})
    ```
  }];
}

def MixedPrecision : NNPass<"nn-mixed-precision"> {
  let summary = "Take products in bf16, f16 or tf32";
  let description = [{
    Casts the factors of matrix products and convolutions to `type`, and gives
    their results that type too, as PyTorch's autocast does; sums inside have the
    precision of f32. The gradient of a weight, which is accumulated, or a part of
    it, and any of a convolution's weights stay f32,
    as do parameters and all other arithmetic. The tensors of attention and of
    its derivative get `type`, but for the logsumexp.

    Runs on the joint graph. What a backward phase reads of a product's factors
    and result is the short value, so residuals are half as large; casts of
    parameters are made in each phase anew (see nn-hoist-preparation).

    Values are moved in their short form: casts commute with reshapes,
    transposes, slices, concatenations, gathers and pads, and go before them
    where a product follows, and behind them where a product came before. This
    changes no bit of any value.

    With `norms`, as the processor's library can, a batch norm of a product's
    result, maxima of windows, and their derivatives read and write bf16, too;
    their sums have the precision of f32. Sums and selections of bf16 values are
    rounded to bf16 likewise: residuals, what a ReLU lets through, and their
    gradients. A sum that only another one reads is not rounded in between.

    A bias that is added to a product, whose sum is only moved and multiplied, is
    added to a product of f32, so that only the sum is rounded.

    With `tf32`, all tensors stay f32: products get the attribute `nn.tf32`,
    which lets a GPU's libraries round their factors.
  }];
  let options = [
    Option<"type", "type", "::pp::nn::Precision", "::pp::nn::Precision::BF16",
           "Of the factors">,
    Option<"norms", "norms", "bool", "false",
           "Whether what is between products takes bf16 as it is, and gives bf16">
  ];
}

def Differentiate : NNPass<"nn-differentiate"> {
  let summary = "Append the derivative of the loss";
  let description = [{
    Reverse-mode differentiation of the function whose result is the loss:
    appends the operations that compute the gradient of each trained parameter
    and adds it to the parameter's gradient state. Cotangents of a value
    with several uses are added in the fixed order of the uses, last first.
    Those of slices that make up a value are joined instead.

    Every operation gets a `step.phase`: `backward_input` if a cotangent of an
    activation needs it, `backward_weight` otherwise; and a `step.origin`: the
    number of the forward operation that it belongs to.

    With `loss-scale`, the function gets an argument of the role `loss_scale`,
    and all gradients are those of the loss times this number.

    With `parts`, the gradient of a parameter with two to four readers has a
    part for each, so that a stage with one of them need not send its own to
    another stage before the step ends. Where readers take slices, or there are
    more of them, their cotangents are added up at once.
  }];
  let options = [
    Option<"lossScale", "loss-scale", "bool", "false",
           "Multiply the gradient of the loss by an argument">,
    Option<"parts", "parts", "bool", "false",
           "Add up gradients of tied parameters by reader">
  ];
}

def AttachOptimizer : NNPass<"nn-attach-optimizer"> {
  let summary = "Add the function that updates parameters";
  let description = [{
    Adds `@optimizer`, which maps a block of 16 parameters, their gradients and
    states to new parameters and states. It runs over a stage's whole parameter
    arena.

    | optimizer | follows |
    |---|---|
    | `sgd` | torch.optim.SGD (momentum, Nesterov's with `nesterov`, no dampening) |
    | `adam`, `adamw` | torch.optim.Adam, AdamW (Loshchilov and Hutter, arXiv 1711.05101) |
    | `rmsprop` | torch.optim.RMSprop; `beta2` is its alpha; momentum and `centered` where they are given |
    | `adagrad` | torch.optim.Adagrad (Duchi et al., JMLR 2011), without lr_decay |
    | `lion` | Chen et al., arXiv 2302.06675, algorithm 2 |
    | `lamb` | You et al., arXiv 1904.00962, algorithm 2, with phi(x) = x |
    | `lars` | You et al., arXiv 1708.03888, with the rate outside of the momentum, as LARC |
    | `adafactor` | torch.optim.Adafactor (Shazeer and Stern, arXiv 1804.04235) |
    | `muon` | torch.optim.Muon (Jordan et al., 2024) for matrices, `adamw` for all others |

    The last two step along a direction that takes a parameter as a whole. The
    runtime makes it, hands it to the function instead of the gradient, and says how
    far to go with the scalar `direction`.

    `lamb` and `lars` scale each parameter's step by the scalar `trust_ratio`, which
    the runtime computes of norms. `lamb` needs the norm of the step: where the
    ratio is negative, the function gives the step instead of the parameter and
    updates the states; else it takes them as they are.

    With `ema-decay` there is one more state, `ema`: ema + (1 - decay) (p - ema)
    of the new parameter p, which the runtime begins with the first parameter
    (Polyak and Juditsky, SIAM J. Control Optim. 30, 1992; exponential, as
    torch.optim.swa_utils.get_ema_avg_fn).

    With `loss-scale`, gradients are divided by the scalar `loss_scale`, and
    nothing changes where the scalar `skipped` is not 0 (Micikevicius et al.,
    arXiv 1710.03740). A dynamic scale starts at 65536; see docs/runtime.md.
  }];
  let options = [
    Option<"optimizer", "optimizer", "::pp::nn::Optimizer",
           "::pp::nn::Optimizer::SGD", "How parameters follow gradients">,
    Option<"learningRate", "learning-rate", "double", "0.01", "Learning rate">,
    Option<"momentum", "momentum", "double", "-1.0",
           "Momentum of sgd, lars, rmsprop and muon; -1: the optimizer's own">,
    Option<"nesterov", "nesterov", "bool", "false",
           "sgd: look a step of momentum ahead">,
    Option<"weightDecay", "weight-decay", "double", "0.0", "Weight decay">,
    Option<"beta1", "beta1", "double", "0.9",
           "adam, adamw, lamb, lion: decay of the mean">,
    Option<"beta2", "beta2", "double", "-1.0",
           "Decay of the square, of lion of the mean; -1: the optimizer's own">,
    Option<"epsilon", "epsilon", "double", "-1.0",
           "Added to the root; -1: the optimizer's own">,
    Option<"centered", "centered", "bool", "false",
           "rmsprop: subtract the mean">,
    Option<"trustCoefficient", "trust-coefficient", "double", "0.001",
           "lars: share of a parameter's norm that a step of rate 1 has">,
    Option<"emaDecay", "ema-decay", "double", "0.0",
           "Keep an average of each parameter's values, of which that much is "
           "left after a step; 0: none">,
    Option<"lossScale", "loss-scale", "std::string", "\"none\"",
           "none, dynamic or a number: what the gradients were multiplied by">
  ];
}

def ArrangeProducts : NNPass<"nn-arrange-products"> {
  let summary = "Transpose factors of products that no library can read";
  let description = [{
    A library reads a factor as batches of a matrix: with one stride each for its rows and its
    columns. Products that contract, say, two axes in the order of one factor, where the other has
    them the other way round, would become generated loops, which take ten times
    as long. Such a factor is transposed before; the smaller one where one is
    enough.

    ```mlir
    %0 = nn.dot_general %a, %b batch [] x [] contract [0, 1] x [1, 0]
        : (tensor<128x4x96xf32>, tensor<4x128x32xf32>) -> tensor<96x32xf32>
    // becomes
    %t = nn.transpose %b [1, 0, 2] : tensor<4x128x32xf32> -> tensor<128x4x32xf32>
    %0 = nn.dot_general %a, %t batch [] x [] contract [0, 1] x [0, 1]
        : (tensor<128x4x96xf32>, tensor<128x4x32xf32>) -> tensor<96x32xf32>
    ```
  }];
}

def JoinProducts : NNPass<"nn-join-products"> {
  let summary = "Make one product of several that are added up";
  let description = [{
    The gradient of a recurrent network's weights is a sum with a product for each
    step of a sequence, each of as many terms as there are samples: writing and adding
    them takes far longer than multiplying. Neighbours in such a sum become one
    product, whose factors are joined along the contracted axis, where those are smaller
    than what is added. As many as are joined
    stay in one stage, so they are not more than the options say.

    ```mlir
    %0 = nn.dot_general %d1, %h1 batch [] x [] contract [0] x [0] : (tensor<8x2048xf32>, tensor<8x512xf32>) -> tensor<2048x512xf32>
    %1 = nn.dot_general %d2, %h2 batch [] x [] contract [0] x [0] : (tensor<8x2048xf32>, tensor<8x512xf32>) -> tensor<2048x512xf32>
    %2 = nn.add %0, %1 : tensor<2048x512xf32>
    // becomes
    %0 = nn.concat %d1, %d2 axis 0 : (tensor<8x2048xf32>, tensor<8x2048xf32>) -> tensor<16x2048xf32>
    %1 = nn.concat %h1, %h2 axis 0 : (tensor<8x512xf32>, tensor<8x512xf32>) -> tensor<16x512xf32>
    %2 = nn.dot_general %0, %1 batch [] x [] contract [0] x [0] : (tensor<16x2048xf32>, tensor<16x512xf32>) -> tensor<2048x512xf32>
    ```
  }];
  let options = [
    Option<"terms", "terms", "int64_t", "256",
           "The most terms of a product that is made">,
    Option<"products", "products", "int64_t", "16",
           "The most products of which one is made">
  ];
}

def UnfoldPatches : NNPass<"nn-unfold-patches"> {
  let summary = "Multiply patches that lie beside each other";
  let description = [{
    A convolution whose stride is its window, without padding, as the first one of a
    vision transformer, multiplies each number of its input once with each output:
    that is a product of matrices. The library has generated code for windows of up
    to 13, and does larger ones at a quarter of the peak. The gradients are products
    then, too.

    ```mlir
    %y = nn.conv %x, %w strides [16, 16] ... : (tensor<8x3x224x224xf32>, tensor<384x3x16x16xf32>) -> tensor<8x384x14x14xf32>
    // becomes
    %0 = nn.reshape %x : tensor<8x3x224x224xf32> -> tensor<8x3x14x16x14x16xf32>
    %1 = nn.transpose %0 [0, 2, 4, 1, 3, 5]
    %2 = nn.reshape %1 : tensor<8x14x14x3x16x16xf32> -> tensor<1568x768xf32>
    %3 = nn.reshape %w : tensor<384x3x16x16xf32> -> tensor<384x768xf32>
    %4 = nn.dot_general %2, %3 batch [] x [] contract [1] x [1]
    %5 = nn.reshape %4 : tensor<1568x384xf32> -> tensor<8x14x14x384xf32>
    %y = nn.transpose %5 [0, 3, 1, 2]
    ```
  }];
  let options = [
    Option<"least", "least", "int64_t", "14",
           "The longest side that a window has at least">
  ];
}

def RepeatChannels : NNPass<"nn-repeat-channels"> {
  let summary = "Repeat channels that have several outputs each";
  let description = [{
    Of a convolution of single channels with two outputs for each, the library has
    no generated code, and does it at a hundredth of the peak. Where each channel is
    repeated, outputs and channels are as many, for which there is some. The
    gradients are those of such a convolution then, too.

    ```mlir
    %y = nn.conv %x, %w ... groups 64 : (tensor<8x64x56x56xf32>, tensor<128x1x7x7xf32>) -> tensor<8x128x56x56xf32>
    // becomes
    %0 = nn.broadcast %x [0, 1, 3, 4] : tensor<8x64x56x56xf32> -> tensor<8x64x2x56x56xf32>
    %1 = nn.reshape %0 : tensor<8x64x2x56x56xf32> -> tensor<8x128x56x56xf32>
    %y = nn.conv %1, %w ... groups 128 : (tensor<8x128x56x56xf32>, tensor<128x1x7x7xf32>) -> tensor<8x128x56x56xf32>
    ```
  }];
  let options = [
    Option<"most", "most", "int64_t", "4",
           "The most outputs of a channel; more are as fast as they are">
  ];
}

def ChooseConvolutions : NNPass<"nn-choose-convolutions"> {
  let summary = "Decide which algorithm computes each convolution";
  let description = [{
    Winograd's F(4x4, 3x3) (Lavin and Gray, arXiv 1509.09308) takes a quarter of the
    multiplications of a convolution with a kernel of 3x3 and a stride of 1, and moves
    more bytes: 36 numbers for each 4x4 of the result, and 36 for each pair of
    channels. F(2x2, 3x3) takes 4 of 9, and 16 numbers for each 2x2 of the result and
    each pair of channels: better for small images. The library has the first
    (`winograd`), in f32; the runtime has both in tiles of its own (`winograd4`,
    `winograd2`), also for gradients of weights, in f32 and for tensors of bf16, whose
    transformed numbers stay f32. Where the processor multiplies pairs of bf16 in
    registers, gradients of bf16 may take F(2x2, 3x3) with transformed numbers that are
    rounded to bf16 (`winograd2_bf16`). One is chosen where it takes less than 0.9 of the time
    of the direct algorithm, by the rates of the options. A weight that `nn-pack-weights`
    will pack is transformed once for all its uses.
  }];
  let options = [
    Option<"convolutions", "convolutions", "::pp::nn::ConvolutionChoice",
           "::pp::nn::ConvolutionChoice::Auto", "Which algorithms there are">,
    Option<"gflops", "gflops", "double", "210.0",
           "Rate of one core's products, in 10^9 operations per second">,
    Option<"tileBytes", "tile-gbytes", "double", "30.0",
           "Rate of transforming tiles, in 10^9 bytes per second">,
    Option<"weightBytes", "weight-gbytes", "double", "12.0",
           "Rate of transforming weights, in 10^9 bytes per second">,
    Option<"uses", "uses", "int64_t", "1",
           "How often a convolution runs while its weight stays the same, if it is "
           "packed; 0: without limit">,
    Option<"shortRate", "short-rate", "double", "2.0",
           "How many times as fast as in f32 the library convolves in bf16; 1: it computes "
           "in f32">,
    Option<"pairRate", "pair-rate", "double", "0.0",
           "How many times as fast as in f32 the processor multiplies pairs of bf16 in "
           "registers; 0: it does not">,
    Option<"tileMoves", "tile-moves", "double", "1.5",
           "How many times as long as the library's tiles of our own take to move the same "
           "numbers of f32">,
    Option<"libraryGradients", "library-gradients", "double", "1.0",
           "How many times as long as its other convolutions the library's gradient of "
           "weights takes by Winograd's algorithm">,
    Option<"libraryWinograd", "library-winograd", "bool", "true",
           "Whether the library has Winograd's algorithm for this processor, as it "
           "has for those with AVX-512">,
    Option<"tuningFile", "tuning-file", "std::string", "\"\"",
           "Measured times (docs/cost-format.md), which decide where both algorithms "
           "are known">
  ];
}

def AssignLayouts : NNPass<"nn-assign-layouts"> {
  let summary = "Lay channels where the processor's kernels want them";
  let description = [{
    Convolutions, pooling and batch norm work on tensors whose channels lie
    beside each other, in blocks of a vector's length or all of them
    (`nn.reorder` has the table of layouts). Each operation gets either the plain layout or one
    other that is the same for the whole step, such that the bytes moved because of
    layouts are the fewest: inside of operations that work in the plain layout, and in `nn.reorder`
    where an operation reads a value in the layout that it does not have. This is a
    least cut, found exactly (include/pp/Planner/LayoutAssignment.h). With `auto`, the
    pass solves it for blocks and for channels last and takes the better one: channels
    last, if that moves less by a fiftieth of all bytes that the operations read and
    write. For results of a single image it is the other way round.

    Elementwise operations, broadcasts of channels or samples, sums over all spatial
    axes, padding, slices and concatenations work in any layout; for them a tensor is
    one of another shape:

    ```mlir
    %b = nn.broadcast %bias [1] : tensor<64xf32> -> tensor<8x64x56x56xf32>
    %y = nn.add %x, %b : tensor<8x64x56x56xf32>
    // in blocks of 16
    %v = nn.reshape %bias : tensor<64xf32> -> tensor<4x16xf32>
    %b = nn.broadcast %v [1, 4] : tensor<4x16xf32> -> tensor<8x4x56x56x16xf32>
    %y = nn.add %x, %b : tensor<8x4x56x56x16xf32>
    ```

    Transpositions that move channels behind all other axes, or back, move nothing where
    the image lies so already, as between the convolutions and the tokens of a vision
    transformer; pixels that are one axis of the tokens are taken apart for that:

    ```mlir
    %t = nn.transpose %x [0, 2, 1] : tensor<8x196x64xf32> -> tensor<8x64x196xf32>
    %y = nn.reshape %t : tensor<8x64x196xf32> -> tensor<8x64x14x14xf32>
    // with channels last
    %y = nn.reshape %x : tensor<8x196x64xf32> -> tensor<8x14x14x64xf32>
    ```

    With convolutions in bf16, `auto` takes blocks, for which the library's code is
    4 to 15 % faster, unless the processor multiplies tiles (AMX): code for those is
    for channels last alone.

    With a tuning file, costs are seconds: of a convolution or pooling that was measured
    in all layouts, its times; of everything else, bytes over `bandwidth`. Then `auto` asks for
    all layouts, in bf16 too.

    What is fed, fetched or kept in parameters stays plain. It runs before kernels are
    formed, so layouts are the same for any number of stages.
  }];
  let options = [
    Option<"layouts", "layouts", "::pp::nn::LayoutChoice",
           "::pp::nn::LayoutChoice::Auto", "The layout beside the plain one">,
    Option<"blockSize", "block-size", "int64_t", "0",
           "Channels of a block, 8 or 16; 0 takes what the processor of the compiler has">,
    Option<"tiles", "tiles", "int64_t", "-1",
           "Whether the processor multiplies tiles of bf16, 0 or 1; -1 takes what that of "
           "the compiler does">,
    Option<"bandwidth", "bandwidth", "double", "15.0",
           "Memory rate of a core, in 1e9 bytes per second">,
    Option<"uses", "uses", "int64_t", "1",
           "How often a convolution runs while its weight stays the same, if it is "
           "packed; 0: without limit">,
    Option<"tuningFile", "tuning-file", "std::string", "\"\"",
           "Measured times (docs/cost-format.md)">
  ];
}

def HoistPreparation : NNPass<"nn-hoist-preparation"> {
  let summary = "Compute once per step what parameters alone decide";
  let description = [{
    Gives operations that read nothing but parameters, constants and what is made
    of these the phase `prepare`: a stage runs it once per step, before the first
    micro-batch, or, where no parameter changes, once. Equal ones of several
    phases, such as the two casts of one weight, become one.

    Operations stay where they are if they are copied into the kernels that read
    them (splats, broadcasts, iota), if their results have more than twice the
    bytes of what they read, or if the step returns their results.
  }];
}

def PackWeights : NNPass<"nn-pack-weights"> {
  let summary = "Let products read weights in the library's own layout";
  let description = [{
    For the processor. A matrix product whose right factor is a parameter, or
    prepared, reads it as an `nn.pack` of the phase `prepare` leaves it: in the
    layout that the library chooses for this product, and into which it would
    bring the factor in each product otherwise. So does a convolution with its
    weight. Forward and backward products of one weight have copies of their
    own, which count in the memory of a stage.

    With `auto`, weights of more than 32 KiB, what a first-level cache holds, are
    packed if they are read more than once in between, or, where a tuning file has
    both times, if that is faster. Never a parameter with two or three readers in the
    forward pass, such as the table of an embedding that is the last layer too:
    another stage may borrow it, and would pack it for each micro-batch. Four or more,
    as the steps of a recurrence, pay for that. Never what the library would not bring
    into another layout, and factors of f16, which it does not have.
  }];
  let options = [
    Option<"mode", "mode", "::pp::nn::PackWeightsMode",
           "::pp::nn::PackWeightsMode::Auto", "Which weights are packed">,
    Option<"uses", "uses", "int64_t", "0",
           "How often a product runs while its weight stays the same; 0: without "
           "limit">,
    Option<"tuningFile", "tuning-file", "std::string", "\"\"",
           "Measured times (docs/cost-format.md)">
  ];
}

def FormKernels : NNPass<"nn-form-kernels"> {
  let summary = "Group operations into kernels";
  let description = [{
    Puts every operation that needs code into an `nn.kernel`: library operations
    alone, elementwise chains together, with a reduction at the end if there is
    one. Splat constants and broadcasts are copied into each kernel that
    reads them. Operations of different phases, or of different forward
    operations in the backward phases, are never fused, so the kernels are
    the same wherever the graph is cut.

    With `epilogues`, a matrix product of the forward phase takes in the bias
    that is added to it and the activation behind that (ReLU, or GELU in its
    tanh form), where the library of a GPU can. What backward phases read
    stays a result: the operand of a GELU becomes a second one.

    With `convolution-epilogues`, a convolution of the forward phase takes in the
    bias that is added to it, another tensor of its size that is added behind that
    (a residual), and a ReLU, or a maximum and a minimum with constants, behind
    both, where the library of this processor has them in the code of that
    convolution. What is not a number stays so.

    With `accumulate`, what is added to a gradient, and read by nothing else, is
    added where it is made: by the library, for a matrix product and the gradient
    of a convolution's weights, and by the generated code of an elementwise
    operation or of a sum that fits on the stack, as the last thing that it does.
    A scatter-add stays apart: it adds several terms to a place.

    With `accumulate-fast` only the library does so, where that is faster on this
    processor, and for a scatter-add of f32 along the first axis, which then
    touches no other rows of the gradient.
  }];
  let options = [
    Option<"epilogues", "epilogues", "bool", "false",
           "Let products take in their bias and activation">,
    Option<"convolutionEpilogues", "convolution-epilogues", "bool", "false",
           "Let convolutions take in their bias, residual and activation">,
    Option<"accumulate", "accumulate", "bool", "false",
           "Let kernels add to gradients in place">,
    Option<"accumulateFast", "accumulate-fast", "bool", "false",
           "Let library kernels add to gradients in place where it is faster">
  ];
}

def Rematerialize : NNPass<"nn-rematerialize"> {
  let summary = "Compute cheap values again in the backward pass";
  let description = [{
    What a generated kernel of the forward phase computes element by element, and
    backward kernels of the same origin read, is computed again in these where that
    costs less than to write it, to hold it until then and to read it. Then the
    forward kernel's inputs, or fewer of its values, are kept. Kernels of one origin
    are in one stage, so nothing more goes from stage to stage.

    ```mlir
    // x = h + 1, y = exp(x); the backward kernel reads both.
    %x, %y = nn.kernel(%h) ...                %y = nn.kernel(%h) ...
    %d = nn.kernel(%g, %x, %y) ...     ──▶    %d = nn.kernel(%g, %h) ... // h + 1, exp
    ```

    The choice is the best for each forward kernel, by bytes that are moved and held,
    and by how many bytes move in the time that an operation takes.
  }];
  let options = [
    Option<"weightsChange", "weights-change", "bool", "false",
           "Do not compute again with parameters, which may have changed">
  ];
}

def PrepareInUpdate : NNPass<"nn-prepare-in-update"> {
  let summary = "Let the update write parameters in 16 bits";
  let description = [{
    Marks kernels of the phase prepare that round a parameter of f32 to 16 bits, and
    do no more, with `step.prepared_by_update`: the update of a parameter writes that
    while the parameter is in a cache, and these kernels only run before the first
    step, or when parameters were loaded. One for each parameter. Needs an update
    that all passes of a step come before.
  }];
}

#endif // PP_DIALECT_NN_TRANSFORMS_PASSES_TD
