/**
 * Programs that must not compile, each with the expected message.
 *
 * A successful type-check proves that each line is an error; types_test.ts removes the
 * `ts-expect-error` comments and compares the messages.
 *
 * @module
 */
import {
  average,
  bincount,
  broadcastTensors,
  concat,
  convolve,
  corrcoef,
  correlate,
  cov,
  cross,
  einsum,
  fft,
  gradient,
  inner,
  interp,
  kron,
  linalg,
  ones,
  pack,
  polyfit,
  ptp,
  quantize,
  random,
  ravelMultiIndex,
  rot90,
  searchsorted,
  special,
  stack,
  type Tensor,
  tensor,
  tensordot,
  trace,
  trapezoid,
  union,
  vecdot,
  where,
  zeros,
} from "./api.ts";

declare const n: number;
declare const dynamic: Tensor;
const a = zeros([2, 3]);
const b = zeros([2, 3, 4]);
const mask = zeros([2, 3], { dtype: "bool" });
const ints = zeros([2, 3], { dtype: "int32" });
const wide = zeros([2, 3], { dtype: "uint64" });
const frozen = a.readonly();

export function elementwise(): void {
  // @ts-expect-error: Cannot add shapes [2, 3] and [4]: axis -1 has sizes 3 and 4
  a.add(zeros([4]));
  // @ts-expect-error: Cannot sub shapes [2, 3] and [4, 3]: axis -2 has sizes 2 and 4
  a.sub(zeros([4, 3]));
  // @ts-expect-error: Cannot mul shapes [?, 3] and [2, 2]: axis -1 has sizes 3 and 2
  zeros([n, 3]).mul(zeros([2, 2]));
  // @ts-expect-error: Cannot less shapes [2, 3, 4] and [3]: axis -1 has sizes 4 and 3
  b.less(zeros([3]));
  // @ts-expect-error: Cannot add int32 and uint64: no integer dtype holds both
  ints.add(wide);
  // @ts-expect-error: Cannot add 1.5 to int32: it is not an integer
  ints.add(1.5);
  // @ts-expect-error: Cannot mul 1e-7 to int32: it is not an integer
  ints.mul(1e-7);
  // @ts-expect-error: Cannot add bool: it takes signed, unsigned, float, complex dtypes
  mask.add(mask);
  // @ts-expect-error: Cannot pow bool: it takes signed, unsigned, float, complex dtypes
  mask.pow(mask);
  // @ts-expect-error: Cannot mul bool: it takes signed, unsigned, float, complex dtypes
  mask.mul(true);
  // @ts-expect-error: Cannot div bool: it takes signed, unsigned, float, complex dtypes
  mask.div(mask);
  // @ts-expect-error: Cannot bitwiseAnd float32: it takes bool, signed, unsigned dtypes
  a.bitwiseAnd(1);
  // @ts-expect-error: Cannot bitwiseOr float32: it takes bool, signed, unsigned dtypes
  ints.bitwiseOr(a);
  // @ts-expect-error: Cannot bitwiseLeftShift bool: it takes signed, unsigned dtypes
  mask.bitwiseLeftShift(mask);
  // @ts-expect-error: Cannot nextafter int32: it takes float dtypes
  ints.nextafter(ints);
  // @ts-expect-error: Cannot isclose shapes [2, 3] and [4]: axis -1 has sizes 3 and 4
  ints.isclose(zeros([4]));
  // @ts-expect-error: Cannot where shapes [2, 3] and [4]: axis -1 has sizes 3 and 4
  where(mask, a, zeros([4]));
  // @ts-expect-error: Argument of type 'Tensor<"int32", [2, 3], "cpu", "write">' is not assignable
  where(ints, a, 0);
}

export function inPlace(): void {
  // @ts-expect-error: Cannot add_ shapes [3] and [2, 3]: the result [2, 3] does not fit the target
  zeros([3]).add_(a);
  // @ts-expect-error: Cannot add_ a read-only tensor: copy it with toOwned()
  frozen.add_(1);
  // @ts-expect-error: Cannot exp_ a read-only tensor: copy it with toOwned()
  frozen.exp_();
  // @ts-expect-error: Cannot div_ into int32: the result is float32; cast with astype()
  ints.div_(2);
  // @ts-expect-error: Cannot div_ into int32: the result is float32; cast with astype()
  ints.div_(ints);
  // @ts-expect-error: Cannot add_ into int32: the result is float32; cast with astype()
  ints.add_(a);
  // @ts-expect-error: Cannot add_ into uint8: the result is int32; cast with astype()
  zeros([2, 3], { dtype: "uint8" }).add_(ints);
  // @ts-expect-error: Cannot bitwiseOr_ into bool: the result is int32; cast with astype()
  mask.bitwiseOr_(ints);
  // @ts-expect-error: Cannot add_ bool: it takes signed, unsigned, float, complex dtypes
  mask.add_(mask);
  // @ts-expect-error: Cannot relu_ a read-only tensor: copy it with toOwned()
  frozen.relu_();
  // @ts-expect-error: Cannot add_ a read-only tensor: copy it with toOwned()
  frozen.T.add_(1);
  // @ts-expect-error: Type '"read"' is not assignable to type '"write"'
  const writable: Tensor<"float32", [2, 3]> = frozen;
  void writable;
  // @ts-expect-error: Cannot assign to '0' because it is a read-only property
  a.shape[0] = 4;
}

export function products(): void {
  // @ts-expect-error: Cannot matmul shapes [2, 3] and [4, 5]: inner sizes 3 and 4 differ
  a.matmul(zeros([4, 5]));
  // @ts-expect-error: Cannot matmul shapes [2, 3] and [2]: inner sizes 3 and 2 differ
  a.matmul(zeros([2]));
  // @ts-expect-error: Cannot matmul shapes [2] and [3]: inner sizes 2 and 3 differ
  zeros([2]).matmul(zeros([3]));
  // @ts-expect-error: Cannot matmul shapes [2, 3, 4] and [5, 4, 3]: axis -3 has sizes 2 and 5
  b.matmul(zeros([5, 4, 3]));
  // @ts-expect-error: Cannot matmul shapes [2, 3] and []: both need at least 1 axis
  a.matmul(zeros([]));
  // @ts-expect-error: Cannot dot shapes [2] and [3]: inner sizes 2 and 3 differ
  zeros([2]).dot(zeros([3]));
  // @ts-expect-error: Cannot outer shapes [2, 3] and [3]: both need 1 axis
  a.outer(zeros([3]));
  // @ts-expect-error: Cannot linear shapes [2, 3] and [10, 4]: inner sizes 3 and 4 differ
  a.linear(zeros([10, 4]));
  // @ts-expect-error: Cannot linear shapes [3] and [10, 3]: the bias must have shape [10]
  a.linear(zeros([10, 3]), zeros([3]));
  // @ts-expect-error: Cannot linear shapes [1, 10] and [10, 3]: the bias must have shape [10]
  a.linear(zeros([10, 3]), zeros([1, 10]));
  // @ts-expect-error: Cannot linear shapes [2, 9] and [10, 3]: the residual must have shape [2, 10]
  a.linear(zeros([10, 3]), undefined, { add: zeros([2, 9]) });
  // @ts-expect-error: Type '"softplus"' is not assignable
  a.linear(zeros([10, 3]), undefined, { activation: "softplus" });
  // @ts-expect-error: Cannot pack int32: it takes float32, float16, bfloat16 and quantized dtypes; cast with astype()
  pack(zeros([10, 3], { dtype: "int32" }));
  // @ts-expect-error: Cannot pack shape [10]: it takes a weight of shape [O, I]
  pack(zeros([10]));
  // @ts-expect-error: Cannot linear shapes [2, 3] and [10, 4]: inner sizes 3 and 4 differ
  a.linear(pack(zeros([10, 4])));
  // @ts-expect-error: Cannot linear float64 with a packed weight of float32: the result would be
  a.astype("float64").linear(pack(zeros([10, 3])));
  // @ts-expect-error: Cannot matmul uint64 and int32: no integer dtype holds both
  wide.matmul(zeros([3, 2], { dtype: "int32" }));
  // @ts-expect-error: Cannot matmul bool: it takes number dtypes
  mask.matmul(mask.T);
  // @ts-expect-error: Cannot matmul bool: it takes number dtypes
  a.matmul(a.T, { dtype: "bool" });
}

export function reshapes(): void {
  // @ts-expect-error: Cannot reshape [2, 3] to [4, 2]: they have 6 and 8 elements
  a.reshape([4, 2]);
  // @ts-expect-error: Cannot reshape [2, 3] to [4, -1]: 6 elements do not divide by 4
  a.reshape([4, -1]);
  // @ts-expect-error: Cannot reshape [2, 3] to [-1, -1]: more than one size is -1
  a.reshape([-1, -1]);
  // @ts-expect-error: Cannot reshape [2, 3] to [2, -3]: axis 1 has size -3, which is not -1
  a.reshape([2, -3]);
  // @ts-expect-error: Cannot reshape [0, 3] to [-1, 0]: -1 beside a size of 0 has no single answer
  zeros([0, 3]).reshape([-1, 0]);
  // @ts-expect-error: Cannot reshape [987654, 123456789] to [121932591483007]: they have
  zeros([987654, 123456789]).reshape([121932591483007]);
  // @ts-expect-error: Cannot broadcast shape [2, 3] to [2, 4]: axis -1 has sizes 3 and 4
  a.broadcastTo([2, 4]);
  // @ts-expect-error: Cannot broadcast shape [2, 3] to [3]: rank 2 is above 1
  a.broadcastTo([3]);
  // @ts-expect-error: Cannot add_ a read-only tensor: copy it with toOwned()
  a.broadcastTo([5, 2, 3]).add_(1);
}

export function axes(): void {
  // @ts-expect-error: Cannot sum along axis 2: rank 2 has axes -2 to 1
  a.sum(2);
  // @ts-expect-error: Cannot mean along axis -3: rank 2 has axes -2 to 1
  a.mean(-3);
  // @ts-expect-error: Cannot max along axis 0: rank 0 has no axes
  zeros([]).max(0);
  // @ts-expect-error: Cannot sum along axes [0, -2]: axis 0 of rank 2 is named twice
  a.sum([0, -2]);
  // @ts-expect-error: Cannot softmax along axis 5: rank 2 has axes -2 to 1
  a.softmax(5);
  // @ts-expect-error: Cannot layerNorm along axis 2: rank 2 has axes -2 to 1
  a.layerNorm([1, 2]);
  // @ts-expect-error: Cannot flip along axis 2: rank 2 has axes -2 to 1
  a.flip([0, 2]);
  // @ts-expect-error: Cannot permute along axis 3: rank 3 has axes -3 to 2
  b.permute(0, 1, 3);
  // @ts-expect-error: Cannot permute along axes [0, 0, 1]: axis 0 of rank 3 is named twice
  b.permute(0, 0, 1);
  // @ts-expect-error: Cannot permute shape [2, 3, 4] by [1, 0]: it has 3 axes, and 2 are named
  b.permute(1, 0);
  // @ts-expect-error: Cannot swapAxes along axis 2: rank 2 has axes -2 to 1
  a.swapAxes(0, 2);
  // @ts-expect-error: Cannot expandDims along axis 3: rank 3 has axes -3 to 2
  a.unsqueeze(3);
  // @ts-expect-error: Cannot squeeze axis 0 of shape [2, 3]: it has size 2, not 1
  a.squeeze(0);
  // @ts-expect-error: Cannot take along axis 2: rank 2 has axes -2 to 1
  a.take(ints, 2);
  // @ts-expect-error: Cannot squeeze axis 0 of shape [2, 3]: it has size 2, not 1
  a.squeeze([0, 1]);
  // @ts-expect-error: Cannot moveAxis along axis 2: rank 2 has axes -2 to 1
  a.moveAxis(2, 0);
  // @ts-expect-error: Cannot moveAxis along axis -3: rank 2 has axes -2 to 1
  a.moveAxis(0, -3);
  // @ts-expect-error: Cannot sort along axis 2: rank 2 has axes -2 to 1
  a.sort(2);
  // @ts-expect-error: Cannot argsort along axis -3: rank 2 has axes -2 to 1
  a.argsort(-3, { descending: true });
  // @ts-expect-error: Cannot quantile along axis 2: rank 2 has axes -2 to 1
  a.quantile(0.5, 2);
  // @ts-expect-error: Cannot partition along axis 2: rank 2 has axes -2 to 1
  a.partition(1, 2);
  // @ts-expect-error: Cannot topk along axis 2: rank 2 has axes -2 to 1
  a.topk(1, 2);
  // @ts-expect-error: Cannot diff along axis 2: rank 2 has axes -2 to 1
  a.diff(1, 2);
  // @ts-expect-error: Cannot repeat along axis 2: rank 2 has axes -2 to 1
  a.repeat(3, 2);
  // @ts-expect-error: Cannot cumulativeSum shape [2, 3]: name an axis when the rank is not 1
  a.cumulativeSum();
  // @ts-expect-error: Cannot cumulativeProd shape []: name an axis when the rank is not 1
  zeros([]).cumulativeProd(undefined, { includeInitial: true });
  // @ts-expect-error: Cannot cumulativeSum along axis 2: rank 2 has axes -2 to 1
  a.cumulativeSum(2);
}

export function asked(): void {
  // @ts-expect-error: Cannot mean to int32: it takes a float dtype
  a.mean(0, { dtype: "int32" });
  // @ts-expect-error: Cannot logsumexp to bool: it takes a float dtype
  ints.logsumexp(0, { dtype: "bool" });
  // @ts-expect-error: Cannot std to uint8: it takes a float dtype
  a.std(0, { dtype: "uint8", correction: 1 });
  // @ts-expect-error: Cannot norm to int32: it takes a float dtype
  a.norm(0, { dtype: "int32" });
  // @ts-expect-error: Cannot sum to bool: it takes a number dtype; use any() or all()
  a.sum(0, { dtype: "bool" });
}

export function joins(): void {
  // @ts-expect-error: Cannot concat shapes [2, 3] and [2, 4] along axis 0: axis 1 has sizes 3 and 4
  concat([a, zeros([2, 4])]);
  // @ts-expect-error: Cannot concat shapes [2, 3] and [2, 3, 4] along axis 0: their ranks differ
  concat([a, b]);
  // @ts-expect-error: Cannot concat along axis 2: rank 2 has axes -2 to 1
  concat([a, a], 2);
  // @ts-expect-error: Cannot concat int32 and uint64: no integer dtype holds both
  concat([ints, wide]);
  // @ts-expect-error: Cannot concat no tensors: it needs at least 1
  concat([]);
  // @ts-expect-error: Cannot stack shapes [2, 3] and [3, 2]: axis 0 has sizes 2 and 3
  stack([a, zeros([3, 2])]);
  // @ts-expect-error: Cannot stack along axis 4: rank 3 has axes -3 to 2
  stack([a, a], 4);
  // @ts-expect-error: Cannot split shape [2, 3] along axis 1: size 3 is not a multiple of 2
  a.split(2, 1);
}

export function slices(): void {
  // @ts-expect-error: Cannot slice axis 0 of shape [2, 3] at 2: it has size 2
  a.slice(2);
  // @ts-expect-error: Cannot slice axis 1 of shape [2, 3] at -4: it has size 3
  a.slice(":", -4);
  // @ts-expect-error: Cannot slice axis 1 of shape [2, 3] at 3: it has size 3
  a.slice(":, 3");
  // @ts-expect-error: Cannot slice shape [2, 3] by 3 indexes: it has rank 2
  a.slice(0, 0, 0);
  // @ts-expect-error: Cannot slice with step 0
  a.slice("::0");
  // @ts-expect-error: Cannot slice by "x": it is not an index, start:stop:step, "..." or None
  a.slice("x");
  // @ts-expect-error: Cannot slice by "1:y": it is not an index, start:stop:step, "..." or None
  a.slice("1:y, 0");
  // @ts-expect-error: Cannot slice with more than one "..."
  a.slice("...", "...");
  // @ts-expect-error: Cannot slice along axis 2: rank 2 has axes -2 to 1
  a.sliceAxis(2, 0);
  // @ts-expect-error: Cannot slice axis 1 of shape [2, 3] at 3: it has size 3
  a.sliceAxis(1, 3);
}

export function elements(): void {
  // @ts-expect-error: Cannot get an element of shape [2, 3] at [1]: it takes 2 indexes, not 1
  a.get(1);
  // @ts-expect-error: Cannot get an element of shape [?, 3] at [0, 1, ?]: it takes 2 indexes, not 3
  zeros([n, 3]).get(0, 1, n);
  // @ts-expect-error: Cannot get an element of shape [] at [0]: it takes 0 indexes, not 1
  a.sum().get(0);
}

export function creation(): void {
  // @ts-expect-error: Cannot zeros shape [2, -1]: axis 1 has size -1, which is not an integer
  zeros([2, -1]);
  // @ts-expect-error: Cannot ones shape [1.5]: axis 0 has size 1.5, which is not an integer
  ones([1.5]);
  // @ts-expect-error: Cannot make a tensor of ragged arrays: axis 1 has more than one size
  tensor([[1, 2], [3]]);
  // @ts-expect-error: is not assignable to type 'Tensor<"int64", [2], Device, "write">'
  const integers: Tensor<"int64", [2]> = zeros([2]);
  // @ts-expect-error: is not assignable to type 'Tensor<"float32", [2, 4], Device, "write">'
  const wrongSize: Tensor<"float32", [2, 4]> = a;
  // @ts-expect-error: is not assignable to type 'Tensor<"float32", [number], Device, "write">'
  const wrongRank: Tensor<"float32", [number]> = a;
  void [integers, wrongSize, wrongRank];
}

export function ranks(): void {
  // @ts-expect-error: Cannot take shape [2, 3] as rank 3: its rank is 2
  a.asRank(3);
  // @ts-expect-error: Cannot take shape [2, 3] as [2, 4]: axis 1 has sizes 3 and 4
  a.asShape([2, 4]);
  // @ts-expect-error: Cannot matmul shapes [?, 4] and [2, 3, 4]: inner sizes 4 and 3 differ
  dynamic.asRank(2).add(1).asShape([n, 4]).matmul(b);
}

export function quantized(): void {
  const q = zeros([4, 64], { dtype: "q8_0" });
  // @ts-expect-error: Cannot add q8_0: it takes signed, unsigned, float, complex dtypes; dequantize() makes
  q.add(q);
  // @ts-expect-error: Cannot mul q8_0: it takes signed, unsigned, float, complex dtypes; dequantize() makes
  q.mul(0);
  // @ts-expect-error: Cannot div 2 to q8_0: it takes only the number 0; dequantize() makes floats of
  q.div(2);
  // @ts-expect-error: Cannot equal q8_0: it takes bool, signed, unsigned, float, complex dtypes; dequantize()
  q.equal(q);
  // @ts-expect-error: Cannot add float32 and q8_0: they do not promote; dequantize() makes floats
  zeros([4, 64]).add(q);
  // @ts-expect-error: Cannot matmul float32 and q8_0: they do not promote; dequantize() makes floats
  zeros([2, 4]).matmul(q);
  // @ts-expect-error: Cannot linear q8_0 and float32: they do not promote; dequantize() makes floats
  q.linear(zeros([2, 64]));
  // @ts-expect-error: Cannot linear int32 by a weight of q8_0: it takes floats
  zeros([2, 64], { dtype: "int32" }).linear(q);
  // @ts-expect-error: Cannot linear shapes [2, 32] and [4, 64]: inner sizes 32 and 64 differ
  zeros([2, 32]).linear(q);
  // @ts-expect-error: Cannot quantize int32 to q8_0: it takes floats
  quantize(zeros([32], { dtype: "int32" }), "q8_0");
  // @ts-expect-error: Cannot quantize q8_0 to q4_0: it takes floats
  quantize(q, "q4_0");
}

export function equations(): void {
  // @ts-expect-error: Cannot einsum "ij,jk->ik" of shapes [2, 3] and [4, 5]: index j has sizes 3 and 4
  einsum("ij,jk->ik", a, zeros([4, 5]));
  // @ts-expect-error: Cannot einsum "ij,jk->ik" of shapes [2, 3] and [4, 5]: index j has sizes 3 and 4
  einsum("ij,jk->ik", a, zeros([4, 5]), { out: zeros([2, 5]) });
  // @ts-expect-error: Cannot einsum "ijk" of shape [2, 3]: operand 0 has rank 2, and 3 indices
  einsum("ijk", a);
  // @ts-expect-error: Cannot einsum "ij,jk->ik": it has 2 terms for 1 tensors
  einsum("ij,jk->ik", a);
  // @ts-expect-error: Cannot einsum "ij->ii": the result has index i twice
  einsum("ij->ii", a);
  // @ts-expect-error: Cannot einsum "ij->ik": no operand has index k of the result
  einsum("ij->ik", a);
  // @ts-expect-error: Cannot einsum "i1->i": "1" is not an index; indices are letters, or "..." once
  einsum("i1->i", a);
  // @ts-expect-error: Cannot einsum bool: it takes
  einsum("ij->ji", mask);
  // @ts-expect-error: Cannot einsum "ij,jk->ik" of shapes [?, 3] and [2, 2]: index j has sizes 3 and 2
  einsum("ij,jk->ik", zeros([n, 3]), zeros([2, 2]));
}

export function matrices(): void {
  const square = zeros([3, 3]);
  // @ts-expect-error: Cannot solve shape [2, 3]: it takes square matrices
  linalg.solve(a, zeros([2]));
  // @ts-expect-error: Cannot solve shapes [3, 3] and [4]: sizes 3 and 4 of the system differ
  linalg.solve(square, zeros([4]));
  // @ts-expect-error: Cannot solve shapes [3, 3] and [4, 2]: sizes 3 and 4 of the system differ
  linalg.solve(square, zeros([4, 2]));
  // @ts-expect-error: Cannot solve shapes [3, 3] and []: the right side has no rows
  linalg.solve(square, zeros([]));
  // @ts-expect-error: Cannot solve shapes [5] and [4]: axis -1 has sizes 5 and 4
  linalg.solve(zeros([5, 3, 3]), zeros([4, 3, 1]));
  // @ts-expect-error: Cannot solveTriangular shapes [3, 3] and [2]: sizes 3 and 2 of the system differ
  linalg.solveTriangular(square, zeros([2]));
  // @ts-expect-error: Cannot inv shape [2, 3]: it takes square matrices
  linalg.inv(a);
  // @ts-expect-error: Cannot det shape [3]: it takes matrices
  linalg.det(zeros([3]));
  // @ts-expect-error: Cannot cholesky shape [2, 3, 4]: it takes square matrices
  linalg.cholesky(b);
  // @ts-expect-error: Cannot slogdet shape [2, 3]: it takes square matrices
  linalg.slogdet(a);
  // @ts-expect-error: Cannot expm shape [2, 3]: it takes square matrices
  linalg.expm(a);
  // @ts-expect-error: Cannot matrixPower shape [2, 3]: it takes square matrices
  linalg.matrixPower(a, 2);
  // @ts-expect-error: Cannot eigh shape [2, 3]: it takes square matrices
  linalg.eigh(a);
  // @ts-expect-error: Cannot eigvalsh shape [2, 3]: it takes square matrices
  linalg.eigvalsh(a);
  // @ts-expect-error: Cannot eig shape [2, 3]: it takes square matrices
  linalg.eig(a);
  // @ts-expect-error: Cannot eigvals shape [2, 3]: it takes square matrices
  linalg.eigvals(a);
  // @ts-expect-error: Cannot qr shape [3]: it takes matrices
  linalg.qr(zeros([3]));
  // @ts-expect-error: Cannot lu shape [3]: it takes matrices
  linalg.lu(zeros([3]));
  // @ts-expect-error: Cannot svd shape []: it takes matrices
  linalg.svd(zeros([]));
  // @ts-expect-error: Cannot svdvals shape [3]: it takes matrices
  linalg.svdvals(zeros([3]));
  // @ts-expect-error: Cannot pinv shape [3]: it takes matrices
  linalg.pinv(zeros([3]));
  // @ts-expect-error: Cannot matrixRank shape [3]: it takes matrices
  linalg.matrixRank(zeros([3]));
  // @ts-expect-error: Cannot matrixNorm shape [3]: it takes matrices
  linalg.matrixNorm(zeros([3]));
  // @ts-expect-error: Cannot vectorNorm along axis 2: rank 2 has axes -2 to 1
  linalg.vectorNorm(a, { axis: 2 });
  // @ts-expect-error: Cannot cond shape [3]: it takes matrices
  linalg.cond(zeros([3]));
  // @ts-expect-error: Cannot lstsq shapes [2, 3] and [3]: the rows of the matrices differ
  linalg.lstsq(a, zeros([3]));
  // @ts-expect-error: Cannot matmul shapes [2, 3] and [2, 3]: inner sizes 3 and 2 differ
  linalg.matmul(a, a);
  // @ts-expect-error: Cannot diagonal along axis -2: rank 1 has axes -1 to 0
  linalg.diagonal(zeros([3]));
  // @ts-expect-error: Cannot trace shape [3]: it takes at least 2 axes
  linalg.trace(zeros([3]));
}

export function contractions(): void {
  // @ts-expect-error: Cannot tensordot shapes [2, 3] and [3, 2]: axes 0 and 0 have sizes 2 and 3
  tensordot(a, zeros([3, 2]));
  // @ts-expect-error: Cannot tensordot shapes [2, 3] and [4, 2]: axes 1 and 0 have sizes 3 and 4
  tensordot(a, zeros([4, 2]), 1);
  // @ts-expect-error: Cannot tensordot shapes [2, 3] and [4] over 2 axes: it is from 0 to 1
  tensordot(a, zeros([4]));
  // @ts-expect-error: Cannot tensordot along axis 2: rank 2 has axes -2 to 1
  tensordot(a, a, [2, 0]);
  // @ts-expect-error: Cannot tensordot over 2 axes and 1 axes
  tensordot(a, a, [[0, 1], [0]]);
  // @ts-expect-error: Cannot tensordot shapes [2, 3] and [2, 3]: axes 1 and 0 have sizes 3 and 2
  tensordot(a, a, [-1, 0]);
  // @ts-expect-error: Cannot vecdot shapes [2, 3] and [4]: axis -1 has sizes 3 and 4
  vecdot(a, zeros([4]));
  // @ts-expect-error: Cannot vecdot shapes [2, 3] and [3] along axis 0: for tensors of different ranks it
  vecdot(a, zeros([3]), 0);
  // @ts-expect-error: Cannot vecdot shapes [2, 3] and []: both need at least 1 axis
  vecdot(a, zeros([]));
  // @ts-expect-error: Cannot inner shapes [2, 3] and [2]: inner sizes 3 and 2 differ
  inner(a, zeros([2]));
  // @ts-expect-error: Cannot kron bool: it takes
  kron(mask, mask);
  // @ts-expect-error: Cannot cross shapes [2, 3] and [2]: axis -1 must have size 3
  cross(a, zeros([2]));
  // @ts-expect-error: Cannot cross along axis 1: rank 1 has axes -1 to 0
  cross(a, zeros([3]), 1);
  // @ts-expect-error: Cannot trace shape [3]: it takes at least 2 axes
  trace(zeros([3]));
  // @ts-expect-error: Cannot trace along axis 2: rank 2 has axes -2 to 1
  trace(a, { axis1: 2 });
}

export function transforms(): void {
  // @ts-expect-error: Cannot fft along axis 2: rank 2 has axes -2 to 1
  fft.fft(a, { axis: 2 });
  // @ts-expect-error: Cannot irfft along axis -3: rank 2 has axes -2 to 1
  fft.irfft(a, { axis: -3, n: 4 });
  // @ts-expect-error: Type '"none"' is not assignable
  fft.rfft(a, { norm: "none" });
  // @ts-expect-error: Cannot convolve shapes [2, 3] and [2, 3]: it takes rows and a vector, of at least
  convolve(a, a);
  // @ts-expect-error: Cannot correlate shapes [3] and [0]: it takes rows and a vector, of at least
  correlate(zeros([3]), zeros([0]));
  // @ts-expect-error: Cannot convolve uint64 and int32: no integer dtype holds both
  convolve(wide, zeros([3], { dtype: "int32" }));
  // @ts-expect-error: Cannot polyfit shapes [3] and [4]: x is a vector, and y has a number or a row
  polyfit(zeros([3]), zeros([4]), 1);
}

export function statistics(): void {
  // @ts-expect-error: Cannot average along axis 2: rank 2 has axes -2 to 1
  average(a, 2);
  // @ts-expect-error: Cannot ptp along axis 2: rank 2 has axes -2 to 1
  ptp(a, 2);
  // @ts-expect-error: Cannot cov shape [2, 3, 4]: it takes at most 2 axes
  cov(b);
  // @ts-expect-error: Cannot corrcoef shape [2, 3, 4]: it takes at most 2 axes
  corrcoef(b);
  // @ts-expect-error: Cannot gradient along axis 2: rank 2 has axes -2 to 1
  gradient(a, { axis: 2 });
  // @ts-expect-error: Cannot trapezoid along axis 2: rank 2 has axes -2 to 1
  trapezoid(a, { axis: 2 });
  // @ts-expect-error: Cannot interp between points of shapes [3] and [4]: it takes two vectors of one size
  interp(a, zeros([3]), zeros([4]));
  // @ts-expect-error: Cannot nanmean along axis 2: rank 2 has axes -2 to 1
  a.nanmean(2);
  // @ts-expect-error: Cannot cumulativeMax shape [2, 3]: name an axis when the rank is not 1
  a.cumulativeMax();
  // @ts-expect-error: Cannot fmax shapes [2, 3] and [4]: axis -1 has sizes 3 and 4
  a.fmax(zeros([4]));
  // @ts-expect-error: Cannot gcd float32: it takes signed, unsigned dtypes
  a.gcd(2);
}

export function sets(): void {
  // @ts-expect-error: Cannot union uint64 and int32: no integer dtype holds both
  union(wide, ints);
  // @ts-expect-error: Cannot searchsorted shape [2, 3]: the sorted elements must have 1 axis
  searchsorted(a, 1);
  // @ts-expect-error: Cannot bincount shape [2, 3]: it takes a vector
  bincount(ints);
  // @ts-expect-error: Cannot broadcastTensors shapes [2, 3] and [4]: axis -1 has sizes 3 and 4
  broadcastTensors(a, zeros([4]));
  // @ts-expect-error: Cannot ravelMultiIndex shapes [2, 3] and [4]: axis -1 has sizes 3 and 4
  ravelMultiIndex([ints, zeros([4], { dtype: "int32" })], [2, 3]);
  // @ts-expect-error: Cannot rot90 along axis 2: rank 2 has axes -2 to 1
  rot90(a, 1, [0, 2]);
  // @ts-expect-error: Cannot xlogy shapes [2, 3] and [4]: axis -1 has sizes 3 and 4
  special.xlogy(a, zeros([4]));
}

export function randomNumbers(): void {
  const key = random.key(1);
  // @ts-expect-error: Cannot gamma shape [-1]: axis 0 has size -1, which is not an integer
  random.gamma(key, [-1], 2);
  // @ts-expect-error: Cannot poisson shape [1.5]: axis 0 has size 1.5, which is not an integer
  random.poisson(key, [1.5], 2);
  // @ts-expect-error: Cannot multivariateNormal shape [-2]: axis 0 has size -2, which is not an integer
  random.multivariateNormal(key, [-2], zeros([3]), zeros([3, 3]));
  // @ts-expect-error: Cannot categorical along axis 2: rank 2 has axes -2 to 1
  random.categorical(key, a, { axis: 2 });
  // @ts-expect-error: Cannot choice shape [-1]: axis 0 has size -1, which is not an integer
  random.choice(key, a, [-1]);
  // @ts-expect-error: Type '"gauss"' is not assignable to type
  random.normal(key, [2], { dtype: "gauss" });
}

export function unknownShape(): Tensor<"float32", [2, 2]> {
  dynamic.asShape([2, 2]) satisfies Tensor<"float32", [2, 2]>;
  // @ts-expect-error: Target requires 2 element(s) but source may have fewer.
  return dynamic;
}
