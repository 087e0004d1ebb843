/**
 * The features of rowmajor. features.ts lists them with the tests that cover them.
 *
 * A test covers a feature if its name begins with the feature's title and a colon.
 *
 * @module
 */

/** One feature. */
export interface Feature {
  /** The prefix of the names of its tests. */
  readonly title: string;
  /** The exact semantics. */
  readonly semantics: string;
  /** The missing requirement of an unimplemented feature. */
  readonly later?: "other machines" | "complex numbers";
}

/** The features by area, in the order of the document. */
export const FEATURES: Readonly<Record<string, readonly Feature[]>> = {
  "Layout": [
    {
      title: "Layout",
      semantics: "shape, signed strides in elements and an offset; usable without the data",
    },
    {
      title: "Row-major strides",
      semantics: "(2, 3, 4) has (12, 4, 1); [u, v, w, x] has [vwx, wx, x, 1]",
    },
    {
      title: "Flat index",
      semantics:
        "offset + Σ index · stride; (1, 0, 2) in (2, 3, 4) is 14; each axis is bounds-checked",
    },
    { title: "Rank 0", semantics: "shape [] has one element" },
    { title: "Byte strides", semantics: "strides in bytes, for native code and other libraries" },
    {
      title: "Collapsed axes",
      semantics: "adjacent axes that are contiguous in every operand are merged into one loop",
    },
    {
      title: "Large copies",
      semantics: "materialising a view copies contiguous segments as long as its layout allows",
    },
    {
      title: "Vector loops on strided data",
      semantics:
        "the innermost loop is contiguous if any axis is, so SIMD is not limited to contiguous tensors",
    },
    {
      title: "Cost of broadcasting",
      semantics: "proportional to the size of the result, not to rank times size",
    },
  ],
  "Creation and devices": [
    {
      title: "Creation",
      semantics:
        "zeros, ones, full, ranges, nested arrays, buffers; a length that does not match the shape is a ShapeError",
    },
    {
      title: "Extremes",
      semantics:
        "fullMin and fullMax use the finite limits of the dtype: −3.4028235e38 for float32",
    },
    {
      title: "Device",
      semantics:
        "results stay on the device of their operands; an unavailable device is a DeviceError",
    },
    { title: "CUDA round trip", semantics: "from cpu to cuda and back" },
    { title: "Several GPUs", semantics: '"cuda:1" and so on' },
    { title: "CUDA kernels without caps", semantics: "any rank and any axis size" },
    {
      title: "Graphs of CUDA work",
      semantics: "recorded once, executed with one call on the current values of the tensors",
    },
  ],
  "Reading and writing": [
    {
      title: "Read and write",
      semantics:
        "by coordinates, slices and tensors; invalid indexes are rejected before anything changes",
    },
    {
      title: "Integer indexes",
      semantics: "arrays and integer tensors select elements, with NumPy's rules",
    },
    { title: "Masks", semantics: "bool tensors select the elements where they are true" },
    {
      title: "Indexing as NumPy does it",
      semantics: "400 random combinations of all kinds of indexes, compared with NumPy",
    },
    {
      title: "Adding at indexes",
      semantics: "repeated indexes add repeatedly, like `np.add.at`",
    },
    { title: "take and takeAlongAxis", semantics: "select by integer tensors along one axis" },
    {
      title: "Stepping iterator",
      semantics: "views along any axis, every n-th one, backwards with a negative step",
    },
  ],
  "Slices": [
    {
      title: "Range on one axis",
      semantics: "2..5 is 2, 3, 4; both ends may be open; inclusive ranges include their end",
    },
    {
      title: "Index on one axis",
      semantics: "drops the axis and adds to the offset; the rank in the type decreases by one",
    },
    {
      title: "Auto-reverse",
      semantics:
        "range(5, 2) is 5, 4, 3; rangeInclusive(9, 0) is 9…0; range(9, 0) is 9…1; strings never reverse",
    },
    {
      title: "Negative step",
      semantics: "with step −1, all is 9…0, from 8 is 8…0, to 5 is 9, 8, 7, 6",
    },
    {
      title: "Step",
      semantics: "step 2: 0, 2, 4, 6, 8; step −2: 9, 7, 5, 3, 1; 1..8 with step 3: 1, 4, 7",
    },
    {
      title: "Manual slice",
      semantics: "(8, 2, −2) is 8, 6, 4; (∅, ∅, −1) is 9…0; (5, ∅, 1) is 5…9",
    },
    {
      title: "Empty slice",
      semantics: "1..3 with step −1, and 5..5, give an axis of size 0 and keep the rank",
    },
    {
      title: "Bad slice",
      semantics: "step 0 and indexes out of range are IndexErrors, axes out of range AxisErrors",
    },
    {
      title: "Slices of several axes",
      semantics:
        "(6, 6, 4, 4) sliced by [2:, 3, :, 1] is (4, 4), then by [1:, :4] (3, 4); one offset, no copy",
    },
    {
      title: "One slice expression",
      semantics: 'x.slice("2:, 3, :, 1") is x.slice("2:", 3, ":", 1); also ellipsis and new axes',
    },
  ],
  "Views": [
    {
      title: "Reshape",
      semantics:
        "keeps the size and infers one −1; a view where strides allow it, else a copy; the rank is in the type",
    },
    {
      title: "Reshape overflow",
      semantics: "sizes whose product exceeds 2^53 are rejected, also together with a 0",
    },
    { title: "Reshape -1 beside a size of 0", semantics: "cannot be inferred; the error says so" },
    {
      title: "Permute and transpose",
      semantics:
        "(1, 2, 3) permuted by [2, 0, 1] is (3, 1, 2); transpose reverses all axes, mT swaps the last two",
    },
    {
      title: "Unsqueeze",
      semantics:
        "(3, 4) becomes (1, 3, 4), or (3, 4, 1) at axis 2; an axis beyond the rank is an AxisError",
    },
    { title: "View", semantics: "never copies; writes are visible on both sides" },
    { title: "Read-only view", semantics: "a type and a run-time flag; every write is rejected" },
    {
      title: "Rank-0 view with an offset",
      semantics: "every way of reading gives the element at the offset",
    },
    {
      title: "Fixed and dynamic rank",
      semantics: "asRank checks (a mismatch is a ShapeError), asDynamic drops the static shape",
    },
    {
      title: "Rank in the type",
      semantics: "a matrix does not compile where rank 3 is required; literal shapes are checked",
    },
  ],
  "Elementwise": [
    {
      title: "Arithmetic",
      semantics: "+ − × ÷ with a tensor or a scalar; a scalar keeps the shape",
    },
    { title: "Sign of zero", semantics: "sign(0) is 0, for every dtype" },
    {
      title: "Broadcasting",
      semantics:
        "aligned at the right, sizes equal or 1, stride 0: (2, 1, 2) with (3, 1, 4, 2) is (3, 2, 4, 2); 0 with 1 is 0",
    },
    {
      title: "Broadcast cases",
      semantics: "nine pairs of shapes, with owned and view operands in both orders",
    },
    { title: "Empty is not broadcast", semantics: "an axis of size 0 is not stretched" },
    {
      title: "In place",
      semantics:
        "(3, 4) += (4) works, (4) += (3, 4) is a ShapeError, a target with stride 0 is rejected",
    },
    {
      title: "Overlapping in place",
      semantics: "operands that share memory give the same results as copies: x += xᵀ and others",
    },
    {
      title: "Strict shapes",
      semantics: "{ broadcast: false } rejects operands of different shapes",
    },
    {
      title: "Reversed views in ops of several operands",
      semantics: "every combination of directions gives the same results as copies",
    },
    { title: "Errors as values", semantics: "attempt returns the value or the error" },
  ],
  "Matrix products": [
    {
      title: "Matmul",
      semantics: "1…9 as 3×3 times 1…6 as 3×2 is [[22, 28], [49, 64], [76, 100]]",
    },
    {
      title: "Matmul operands",
      semantics:
        "row-major, column-major, transposed, reversed and strided operands give the same result",
    },
    {
      title: "Matmul without copies",
      semantics: "column-major, transposed, reversed and sliced operands are read in place",
    },
    {
      title: "Matmul over an output full of NaN",
      semantics: "old values of the output are never read, not even for an inner size of 0",
    },
    {
      title: "Matmul batches",
      semantics: "leading axes broadcast: [1, M, K] by [B, K, N], batches of any strides",
    },
    { title: "Matmul dtypes", semantics: "every numeric dtype, exact for integers" },
    {
      title: "Matrix-vector and dot",
      semantics:
        "0…11 as (3, 4) times 0…3 is [14, 38, 62]; the dot product of 0…4 with its reverse is 10",
    },
    {
      title: "Matmul through OpenBLAS",
      semantics: "float32 and float64, without copies if one of the inner strides is 1",
    },
    {
      title: "OpenBLAS on more targets",
      semantics: "library names on macOS and Windows, tested there",
      later: "other machines",
    },
    {
      title: "Matmul on CUDA",
      semantics: "cuBLAS with fused bias, TF32 on request, own kernels for other dtypes",
    },
  ],
  "Reductions": [
    {
      title: "Reductions",
      semantics:
        "sum, mean, min, max, prod, var, std, any, all, argmin, argmax over all or some axes, which are dropped or kept",
    },
    {
      title: "Arg-reductions at rank 3",
      semantics: "the first maximum or minimum along each axis, and of all elements",
    },
    {
      title: "Layer norm and RMS norm",
      semantics:
        "over the last axis or any others, with weight and bias; a large mean loses no precision, NaN affects only its row",
    },
    {
      title: "Sum over a broadcast axis",
      semantics: "each element counts as often as it is repeated",
    },
  ],
  "Compiled programs": [
    {
      title: "Compile",
      semantics:
        "records a function once for each kind of arguments (shapes, dtypes, layouts) and runs it as a program; numbers may differ from call to call; captured tensors are read and written at each call",
    },
    {
      title: "Off the event loop",
      semantics:
        "async calls read their inputs as at the call, write at the end, and can be dropped",
    },
    {
      title: "Explain",
      semantics: "what each improvement did, the ops that remain, memory, and a diagram",
    },
  ],
  "Ownership": [
    {
      title: "intoOwned",
      semantics:
        "owned tensors move, views are copied to contiguous memory, shared tensors move if they are the only handle, else SharedError",
    },
    {
      title: "intoOwnedKeepLayout",
      semantics: "copies keep strides and offset, and include the whole buffer",
    },
    { title: "toOwned", semantics: "always copies" },
    {
      title: "intoCow",
      semantics: "costs no copy; the source stays usable; the first write on either side copies",
    },
    {
      title: "intoShared",
      semantics: "contiguous, in shared memory; the source is unusable afterwards",
    },
    { title: "intoSharedKeepLayout", semantics: "the whole buffer, strides and offset" },
    {
      title: "Shared between workers",
      semantics: "several threads use one shared tensor",
    },
    {
      title: "Buffer identity",
      semantics: "reshaping an owned tensor keeps its buffer; view().intoOwned() has a new one",
    },
    {
      title: "To typed arrays",
      semantics:
        "by copy; by move, after which the source is unusable; the raw buffer; one element at its offset",
    },
    {
      title: "Pointer to the first element",
      semantics: "valid inside a callback",
    },
    {
      title: "Dispose",
      semantics: "dispose, using and scope free memory for reuse, unless its bytes are exposed",
    },
  ],
  "Element types and display": [
    {
      title: "Element types",
      semantics:
        "bool, int8–64, uint8–64, float16, bfloat16, float32, float64; ops reject unsupported dtypes with a DTypeError",
    },
    {
      title: "Dtypes without arithmetic",
      semantics: "bool supports comparisons, logic and casts; bool − bool is a DTypeError",
    },
    {
      title: "Complex dtypes",
      semantics: "complex64 and complex128; what needs an order is a DTypeError",
    },
    {
      title: "Display",
      semantics:
        "nested by shape, aligned, shortened if long, with the dtype; in consoles and notebooks",
    },
  ],
  "Training": [
    {
      title: "Derivatives",
      semantics:
        "of functions of trees of tensors, nested, in programs; PyTorch's numbers; an op without one is an error",
    },
    {
      title: "Batches",
      semantics: "rows of a tree of tensors, in an order that a key decides",
    },
    {
      title: "Checkpoints",
      semantics: "parameters, state, keys and numbers in one safetensors file, replaced as a whole",
    },
    {
      title: "First values of weights",
      semantics: "Kaiming and Xavier, uniform and normal, by a key",
    },
    { title: "Dropout", semantics: "by a key; without one the identity" },
    {
      title: "Batch norms in training",
      semantics: "by the batch's statistics; running ones are returned, not written",
    },
  ],
  "Bad input": [
    { title: "Bad shapes", semantics: "a ShapeError that names op, shapes and axis" },
    { title: "Bad axes", semantics: "an AxisError that names op and axis" },
    {
      title: "Bad sizes",
      semantics: "NaN, fractional, negative and overflowing sizes: ShapeError or OutOfMemoryError",
    },
    { title: "Bad dtypes", semantics: "a DTypeError that names op and dtypes" },
    { title: "Bad indexes", semantics: "an IndexError that names op and index" },
    { title: "Bad steps", semantics: "step 0 is an IndexError everywhere" },
    {
      title: "Bad writes",
      semantics: "writing to a read-only or stride-0 target is a ReadOnlyError",
    },
    { title: "Use after dispose or a move", semantics: "a DisposedError" },
    { title: "Errors", semantics: "each class has its name, code and parent class" },
  ],
};
