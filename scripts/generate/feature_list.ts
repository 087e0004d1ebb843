/**
 * What rowmajor promises, feature by feature; gen_features.ts puts the covering tests beside it.
 *
 * A test covers the feature whose title its name begins with, up to a colon.
 *
 * @module
 */

/** One promise. */
export interface Feature {
  /** What the names of its tests begin with. */
  readonly title: string;
  /** What exactly is promised. */
  readonly semantics: string;
  /** What it waits for, when it is not there yet. */
  readonly later?: "other machines" | "complex numbers";
}

/** The features by area, in the order of the document. */
export const FEATURES: Readonly<Record<string, readonly Feature[]>> = {
  "Layout": [
    {
      title: "Layout",
      semantics: "shape, signed strides in elements and an offset; usable apart from the data",
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
    { title: "Rank 0", semantics: "shape [] holds one element" },
    { title: "Byte strides", semantics: "strides in bytes, for other programs" },
    {
      title: "Collapsed axes",
      semantics: "axes that lie without a gap in every operand are walked as one",
    },
    {
      title: "Large copies",
      semantics: "materialising a view copies runs as long as its layout allows",
    },
    {
      title: "Vector loops on strided data",
      semantics: "the innermost loop is dense wherever some axis is, for SIMD beyond dense data",
    },
    {
      title: "Cost of broadcasting",
      semantics: "proportional to the result's size, not to rank times size",
    },
  ],
  "Creation and devices": [
    {
      title: "Creation",
      semantics:
        "zeros, ones, full, ranges, nested arrays, buffers; a length that is not the shape's is a ShapeError",
    },
    {
      title: "Extremes",
      semantics: "fullMin and fullMax give the dtype's finite limits: −3.4028235e38 for float32",
    },
    {
      title: "Device",
      semantics: "a property that ops keep; one that is not there is a DeviceError",
    },
    { title: "CUDA round trip", semantics: "cpu to cuda and back" },
    { title: "Several GPUs", semantics: '"cuda:1" and further' },
    { title: "CUDA kernels without caps", semantics: "any rank and any axis size" },
    {
      title: "Graphs of CUDA work",
      semantics: "recorded once, run with one call on the tensors as they are then",
    },
  ],
  "Reading and writing": [
    {
      title: "Read and write",
      semantics: "by coordinates, slices and tensors; bad ones are refused before anything changes",
    },
    {
      title: "Integer indexes",
      semantics: "arrays and integer tensors pick elements, with NumPy's rules",
    },
    { title: "Masks", semantics: "bool tensors pick where they are true" },
    {
      title: "Indexing as NumPy does it",
      semantics: "400 random mixes of all kinds of indexes, checked against NumPy",
    },
    {
      title: "Adding at indexes",
      semantics:
        "an index that names a place several times adds to it as often, as `np.add.at` does",
    },
    { title: "take and takeAlongAxis", semantics: "by integer tensors along one axis" },
    {
      title: "Stepping iterator",
      semantics: "views along any axis, every n-th, backwards with a negative step",
    },
  ],
  "Slices": [
    {
      title: "Range on one axis",
      semantics: "2..5 is 2, 3, 4; open at either end; inclusive ranges take their end",
    },
    {
      title: "Index on one axis",
      semantics: "drops the axis and folds into the offset; the type's rank goes down by one",
    },
    {
      title: "Auto-reverse",
      semantics:
        "range(5, 2) is 5, 4, 3, rangeInclusive(9, 0) is 9…0, range(9, 0) is 9…1; not for strings",
    },
    {
      title: "Negative step",
      semantics: "all by −1 is 9…0, from 8 is 8…0, to 5 is 9, 8, 7, 6",
    },
    { title: "Step", semantics: "by 2: 0, 2, 4, 6, 8; by −2: 9, 7, 5, 3, 1; 1..8 by 3: 1, 4, 7" },
    {
      title: "Manual slice",
      semantics: "(8, 2, −2) is 8, 6, 4; (∅, ∅, −1) is 9…0; (5, ∅, 1) is 5…9",
    },
    {
      title: "Empty slice",
      semantics: "1..3 by −1, and 5..5: an axis of size 0, the rank is kept",
    },
    {
      title: "Bad slice",
      semantics: "step 0 and indexes out of range are IndexErrors, axes out of range AxisErrors",
    },
    {
      title: "Slices of several axes",
      semantics:
        "(6, 6, 4, 4) by [2:, 3, :, 1] is (4, 4), then by [1:, :4] (3, 4); one offset, no copy",
    },
    {
      title: "One slice expression",
      semantics: 'x.slice("2:, 3, :, 1") is x.slice("2:", 3, ":", 1); dots and new axes',
    },
  ],
  "Views": [
    {
      title: "Reshape",
      semantics:
        "the same size, one −1 is inferred; a view where strides allow it, else a copy; the rank is in the type",
    },
    {
      title: "Reshape overflow",
      semantics: "sizes whose product is beyond 2^53 are refused, beside a 0 too",
    },
    { title: "Reshape -1 beside a size of 0", semantics: "cannot be inferred, and says so" },
    {
      title: "Permute and transpose",
      semantics:
        "(1, 2, 3) by [2, 0, 1] is (3, 1, 2); transpose reverses all axes, mT the last two",
    },
    {
      title: "Unsqueeze",
      semantics: "(3, 4) is (1, 3, 4), or (3, 4, 1) at 2; beyond the rank is an AxisError",
    },
    { title: "View", semantics: "never copies; writes are seen on both sides" },
    { title: "Read-only view", semantics: "a type and a flag at run time; every write is refused" },
    {
      title: "Rank-0 view with an offset",
      semantics: "every way to read it sees the element that it points at",
    },
    {
      title: "Fixed and dynamic rank",
      semantics: "asRank checks (a mismatch is a ShapeError), asDynamic forgets",
    },
    {
      title: "Rank in the type",
      semantics: "a matrix does not compile where rank 3 is asked for; literal shapes are checked",
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
        "aligned at the right, equal or 1, stride 0: (2, 1, 2) with (3, 1, 4, 2) is (3, 2, 4, 2); 0 with 1 is 0",
    },
    {
      title: "Broadcast cases",
      semantics: "nine pairs of shapes, each with owned and view operands in both orders",
    },
    { title: "Empty is not broadcast", semantics: "an axis of size 0 does not stretch" },
    {
      title: "In place",
      semantics:
        "(3, 4) += (4) works, (4) += (3, 4) is a ShapeError, a target of stride 0 is refused",
    },
    {
      title: "Overlapping in place",
      semantics: "operands that share memory give the same as copies: x += xᵀ and others",
    },
    {
      title: "Strict shapes",
      semantics: "{ broadcast: false } refuses operands of different shapes",
    },
    {
      title: "Reversed views in ops of several operands",
      semantics: "every mix of directions gives the same as copies",
    },
    { title: "Errors as values", semantics: "attempt gives the value or the error" },
  ],
  "Matrix products": [
    {
      title: "Matmul",
      semantics: "3×3 by 3×2 of 1…9 and 1…6 is [[22, 28], [49, 64], [76, 100]]",
    },
    {
      title: "Matmul operands",
      semantics: "row-major, column-major, transposed, reversed and strided ones give the same",
    },
    {
      title: "Matmul without copies",
      semantics: "column-major, transposed, reversed and sliced operands are read where they are",
    },
    {
      title: "Matmul over an output full of NaN",
      semantics: "what the output holds is not read, for an inner size of 0 neither",
    },
    {
      title: "Matmul batches",
      semantics: "leading axes broadcast: [1, M, K] by [B, K, N], batches of any strides",
    },
    { title: "Matmul dtypes", semantics: "every numeric dtype, exact for integers" },
    {
      title: "Matrix-vector and dot",
      semantics: "0…11 in (3, 4) by 0…3 is [14, 38, 62]; 0…4 with itself reversed is 10",
    },
    {
      title: "Matmul through OpenBLAS",
      semantics: "float32 and float64, without a copy where one inner stride is 1",
    },
    {
      title: "OpenBLAS on more targets",
      semantics: "its names on macOS and Windows, tried there",
      later: "other machines",
    },
    {
      title: "Matmul on CUDA",
      semantics: "cuBLAS, a bias on the way, TF32 on request, own kernels for other dtypes",
    },
  ],
  "Reductions": [
    {
      title: "Reductions",
      semantics:
        "sum, mean, min, max, prod, var, std, any, all, argmin, argmax over all axes or some, dropped or kept",
    },
    {
      title: "Arg-reductions at rank 3",
      semantics: "the first largest or smallest along each axis, and among all",
    },
    {
      title: "Layer norm and RMS norm",
      semantics:
        "over the last axis or any others, with weight and bias; a large mean costs no digits, NaN spoils its row",
    },
    {
      title: "Sum over a broadcast axis",
      semantics: "an element counts as often as it is repeated",
    },
  ],
  "Ownership": [
    {
      title: "intoOwned",
      semantics:
        "an owned tensor moves, a view is copied densely, a shared one moves for its only holder, else SharedError",
    },
    {
      title: "intoOwnedKeepLayout",
      semantics: "a copy keeps strides and offset, and takes the whole buffer along",
    },
    { title: "toOwned", semantics: "always copies" },
    {
      title: "intoCow",
      semantics: "free; its source stays usable; the first write on either side copies",
    },
    { title: "intoShared", semantics: "dense, on shared memory; the source is gone" },
    { title: "intoSharedKeepLayout", semantics: "the whole buffer, strides and offset" },
    {
      title: "Shared between workers",
      semantics: "a shared tensor is used from several threads",
    },
    {
      title: "Buffer identity",
      semantics: "reshaping an owned tensor keeps its buffer, view().intoOwned() has another",
    },
    {
      title: "To typed arrays",
      semantics:
        "a copy; a move, after which the source is unusable; the raw buffer; one element at its offset",
    },
    {
      title: "Pointer to the first element",
      semantics: "valid inside a callback",
    },
    {
      title: "Dispose",
      semantics: "dispose, using and scope give memory back, unless its bytes have been handed out",
    },
  ],
  "Element types and display": [
    {
      title: "Element types",
      semantics:
        "bool, int8–64, uint8–64, float16, bfloat16, float32, float64; each op refuses others with a DTypeError",
    },
    {
      title: "Dtypes without arithmetic",
      semantics: "bool takes comparisons, logic and casts; bool − bool is a DTypeError",
    },
    { title: "Complex dtypes", semantics: "complex64 and complex128", later: "complex numbers" },
    {
      title: "Display",
      semantics: "by layout, aligned, elided when long, with the dtype; in consoles and notebooks",
    },
  ],
  "Bad input": [
    { title: "Bad shapes", semantics: "a ShapeError that names op, shapes and axis" },
    { title: "Bad axes", semantics: "an AxisError that names op and axis" },
    {
      title: "Bad sizes",
      semantics: "NaN, fractional, negative and overflowing ones: ShapeError or OutOfMemoryError",
    },
    { title: "Bad dtypes", semantics: "a DTypeError that names op and dtypes" },
    { title: "Bad indexes", semantics: "an IndexError that names op and index" },
    { title: "Bad steps", semantics: "step 0 is an IndexError everywhere" },
    { title: "Bad writes", semantics: "to a read-only or stride-0 target: a ReadOnlyError" },
    { title: "Use after dispose or a move", semantics: "a DisposedError" },
    { title: "Errors", semantics: "each class has its name, its code and its parent" },
  ],
};
