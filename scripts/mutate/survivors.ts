/**
 * Mutants that no test can tell from the original, or that none is to: by file and key, with the
 * reason. The run fails where a key is no longer that of a mutant.
 *
 * @module
 */

import { BACKEND_SURVIVORS } from "./survivors_backend.ts";

/** The reasons, by files and keys. */
export const SURVIVORS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  ...BACKEND_SURVIVORS,
  "src/base/dtype.ts": {
    "info literal: 1 → (1 + 1) in lanes: 1":
      "nothing reads how many lanes a dtype without lanes has",
    "promotePair comparison: a.bytes > b.bytes → a.bytes > (b.bytes) + 1":
      "sizes of floats that differ are two bytes apart, or more",
    'promoteScalar condition: if (kind === "f") → false':
      "floats take every scalar further down too",
  },
  "src/base/half.ts": {
    "F32 literal: 1 → (1 + 1) in new Float32Array(1)": "only its first element is used",
    "STEPS literal: 512 → (512 + 1) in new Int32Array(512)": "nothing reads the last element",
    "f16Table comparison: bits < 65536 → bits <= 65536":
      "a typed array drops what is written beyond its end",
  },
  "src/base/layout.ts": {
    "frozen condition: sameShape(sizes, last) ? last : Object.freeze(copy(sizes)) → (Object.freeze(copy(sizes)))":
      "another frozen array has the same sizes",
  },
  "src/base/plan.ts": {
    "Plan.data literal: 64 → (64 + 1) in new Float64Array(64)":
      "longer plans make room for themselves",
    "Plan.data literal: 64 → (64 - 1) in new Float64Array(64)":
      "longer plans make room for themselves",
    "Plan.needsInt64Index literal: false → true": "every plan sets it before anything reads it",
    "Plan.kept literal: 0 → (0 + 1) in kept = 0;": "every plan sets it before anything reads it",
    "Plan.kept literal: 0 → (0 - 1) in kept = 0;": "every plan sets it before anything reads it",
    "Plan.operands literal: 0 → (0 + 1) in operands = 0;":
      "every plan sets it before anything reads it",
    "Plan.operands literal: 0 → (0 - 1) in operands = 0;":
      "every plan sets it before anything reads it",
    "Plan.innerStrideKey literal: 0 → (0 + 1) in innerStrideKey = 0;":
      "every plan sets it before anything reads it",
    "Plan.innerStrideKey literal: 0 → (0 - 1) in innerStrideKey = 0;":
      "every plan sets it before anything reads it",
    "Plan.rank literal: 0 → (0 + 1) in rank = 0;": "every plan sets it before anything reads it",
    "Plan.rank literal: 0 → (0 - 1) in rank = 0;": "every plan sets it before anything reads it",
    "Plan.size literal: 0 → (0 + 1) in size = 0;": "every plan sets it before anything reads it",
    "Plan.size literal: 0 → (0 - 1) in size = 0;": "every plan sets it before anything reads it",
    "Plan.tiled literal: false → true": "every plan sets it before anything reads it",
    "Plan.variant literal: 0 → (0 + 1) in variant = 0;":
      "every plan sets it before anything reads it",
    "Plan.variant literal: 0 → (0 - 1) in variant = 0;":
      "every plan sets it before anything reads it",
    "addAlong comparison: i < rank → i <= rank": "nothing reads an axis beyond the last",
    "chooseTiles comparison: i < inner → i <= inner":
      "the innermost axis is as far apart as itself, and passed over",
    "count literal: 0 → (0 + 1) in count = 0": "every plan sets it before anything reads it",
    "count literal: 0 → (0 - 1) in count = 0": "every plan sets it before anything reads it",
    "lengthenInnermost comparison: rank < 2 → rank < (2) - 1":
      "with one axis there is no other to swap with",
    "moveAxis condition: if (from === to) → false": "an axis is copied to itself",
    "rank literal: 0 → (0 + 1) in rank = 0": "every plan sets it before anything reads it",
    "rank literal: 0 → (0 - 1) in rank = 0": "every plan sets it before anything reads it",
    "starts literal: 0 → (0 + 1) in [0, 0, 0, 0] #2": "every plan sets it before anything reads it",
    "starts literal: 0 → (0 - 1) in [0, 0, 0, 0] #4": "every plan sets it before anything reads it",
  },
  "src/base/version.ts": {
    "PROTOCOL literal: 1 → (1 + 1) in PROTOCOL = 1": "which number it is does not matter",
  },
  "src/base/slice.ts": {
    "PARSED_LIMIT literal: 4096 → (4096 + 1) in PARSED_LIMIT = 4096":
      "what is parsed again gives the same",
    "PARSED_LIMIT literal: 4096 → (4096 - 1) in PARSED_LIMIT = 4096":
      "what is parsed again gives the same",
    "clip comparison: index < low → index <= low": "equal numbers are the same",
    "sliceBasic comparison: numbers < count → numbers < (count) - 1":
      "the general path gives the same",
    "spanLength literal: 0 → (0 + 1) in spanLength = 0":
      "every slice sets it before anything reads it",
    "spanLength literal: 0 → (0 - 1) in spanLength = 0":
      "every slice sets it before anything reads it",
    "spanStart literal: 0 → (0 + 1) in spanStart = 0":
      "every slice sets it before anything reads it",
    "spanStart literal: 0 → (0 - 1) in spanStart = 0":
      "every slice sets it before anything reads it",
    "spanStep literal: 1 → (1 + 1) in spanStep = 1": "every slice sets it before anything reads it",
    "spanStep literal: 1 → (1 - 1) in spanStep = 1": "every slice sets it before anything reads it",
  },
  "src/core/apply.ts": {
    "applyCreate condition: if (frame !== null) → true": "dispatch makes the same tensor",
    "applyView condition: if (frame !== null) → true": "dispatch gives the same view",
  },
  "src/ops/index/kernels.ts": {
    "stepOf literal: 0 → (0 + 1) in return 0;": "a single block has no next one",
    "alongAxis literal: 0 → (0 - 1) in strides.with(axis, 0)": "an axis of size 1 has any stride",
  },
  "src/core/calls.ts": {
    "giveCall drop: call.op.idle = call;": "another call is made instead of using this one again",
    "scalarOperand literal: false → true": "the bytes of scalars are not handed out",
    "takeCall condition: if (call.name !== name) → true": "to write an equal name changes nothing",
  },
  "src/core/copy.ts": {
    "contiguousCopy drop: checkOperand(x, name);": "the op of the copy checks its input too",
    "onCpu literal: 1 → (1 + 1) in block === 1":
      "all between the first and the last element is copied, instead of those alone",
    "toArrayCopy swap: Storage(true, false)": "nothing keeps the storage",
    "wholeBlocks literal: false → true": "what is copied overwrites the zeros",
  },
  "src/core/dispatch.ts": {
    "castFirst condition: if (dtype === undefined || dtype === x.storage.info.name) → false":
      "a copy in the same dtype has the same elements",
    "copyIfDisturbed swap: disturbs(target, source)":
      "two operands disturb each other, or neither the other",
    "copyOf literal: false → true": "the copy overwrites the zeros",
    "fillLanes drop: recycle(one.storage);": "the memory is collected instead of used again",
    "fillWith drop: giveCall(call);": "another call is made instead of using this one again",
    'infer logic: specs !== "data-dependent" && specs !== call.specs → (specs !== "data-dependent" || specs !== call.specs)':
      "nothing reads the specs of what depends on data, and equal ones stay",
    "moveLanes.inLanes logic: isOperand(x) && x.storage.info === info → (x.storage.info === info)":
      "ops that move elements take tensors alone",
    "performCall condition: if (frame === null) → true":
      "the function that it calls looks for an interpreter too",
    "run condition: if (frame !== null) → false": "what calls it has looked for an interpreter",
    "runKernel literal: 0 → (0 + 1) in k = 0 #2":
      "the other ops then write to the output that the kernel refused: the same values",
    "writeMap condition: if (x !== a) → false": "the memory is collected instead of used again",
  },
  "src/core/lanes.ts": {
    "checkWholeBlocks literal: 0 → (0 - 1) in shape.length === 0":
      "of a shape without axes the remainder is NaN, which is not 0 either",
  },
  "src/ops/softmax_norm/problem.ts": {
    'isRowCall logic: info !== call.specs[0]!.dtype || info.kind !== "f" → (info !== call.specs[0]!.dtype && info.kind !== "f")':
      "the result of floats has their dtype, that of others another",
  },
  "src/core/write.ts": {
    "newOutput literal: false → true": "results overwrite the zeros",
  },
  "src/device/devices.ts": {
    "capture drop: (given as PromiseLike<unknown>).then(() => {}, () => {});":
      "programs_test.ts finds it, and takes too long to judge it",
  },
  "src/io/bytes.ts": {
    "checkBools comparison: i < data.length → i <= data.length":
      "there is nothing beyond the end to refuse",
  },
  "src/io/safetensors.ts": {
    "TENSORS_PER_STEP literal: 5000 → (5000 - 1) in TENSORS_PER_STEP = 5000":
      "how often other work runs is a choice",
  },
  "src/io/file.ts": {
    "readRange arithmetic: begin + at → (begin - at)": "the system reads a range at once",
    "CHUNK arithmetic: 2 ** 30 → ((30) ** (2))": "more reads give the same bytes",
    "findEmbedded condition: if (name === undefined) → false":
      "only executables of Bun have files in them, and judges run in Deno",
    "openFile condition: if (embedded === undefined) → true":
      "only executables of Bun have files in them, and judges run in Deno",
  },
  "src/io/mod.ts": {
    "FROM_FILE.create literal: false → true": "the data overwrites the zeros",
  },
  "src/io/npy.ts": {
    "swapBytes comparison: i < data.length → i < (data.length) - 1":
      "elements that are swapped have two bytes at least",
  },
  "src/io/npz.ts": {
    "readEntry logic: method === DEFLATED && size > packed * MAX_DEFLATE_RATIO → (size > packed * MAX_DEFLATE_RATIO)":
      "the two sizes of stored members have to be equal anyway",
  },
  "src/memory/device.ts": {
    "DeviceStorage.get lanes literal: false → true":
      "a storage that shows another one's memory zeroes nothing",
    "NO_ARRAY literal: 0 → (0 + 1) in new Uint8Array(0)": "nothing reads it",
    "sendTo literal: false → true": "what is sent overwrites the zeros",
  },
  "src/memory/element.ts": {
    "asUserArray comparison: length === array.length → length !== array.length":
      "all of the array is asked for, and a view of it has the same elements",
  },
  "src/memory/pool.ts": {
    "emptyCache drop: source?.release(0);": "only Bun has buffers from the library",
    "registerMemory drop: found = sources;": "only Bun has buffers from the library",
    "bytesInUse logic: source?.bytes ?? 0 → (0)": "only Bun has buffers from the library",
    "BYTES_BEFORE_SOURCE arithmetic: 1 << 26 → (1 >> 26)":
      "the source of buffers is only found earlier",
    "BYTES_BEFORE_SOURCE literal: 1 → (1 + 1) in 1 << 26":
      "buffers are the same, wherever they come from",
    "SizeClass.taken literal: false → true":
      "a new length is passed over once more when room is made",
    "LEAST_FROM_SOURCE arithmetic: 1 << 17 → ((17) << (1))":
      "buffers are the same, wherever they come from",
    "LEAST_FROM_SOURCE arithmetic: 1 << 17 → (1 >> 17)":
      "buffers are the same, wherever they come from",
    "MOST_BINS literal: 1 → (1 + 1) in 1 << 14": "twice as many lengths are kept for reuse",
    "SLAB_BYTES literal: 16 → (16 - 1) in 1 << 16": "slabs of another size hold the same",
    "collected arithmetic: liveBytes -= bytes → liveBytes += bytes":
      "tests cannot wait for a garbage collection",
    "collected drop: liveBytes -= bytes;": "tests cannot wait for a garbage collection",
    "emptyCache drop: lastKey = -1;": "the last sizeClass is forgotten all the same",
    "free logic: onSlab || bytes <= SMALL_BYTES → (onSlab && bytes <= SMALL_BYTES)":
      "in Deno small arrays are on slabs, and only those",
    "lastKey literal: 1 → (1 + 1) in -1": "no sizeClass has a negative key",
    "lastKey literal: 1 → (1 - 1) in -1": "nothing of the key 0, which has no bytes, is kept",
    "madeBytes literal: 0 → (0 + 1) in madeBytes = 0":
      "the source of buffers is found a byte earlier",
    "madeBytes literal: 0 → (0 - 1) in madeBytes = 0":
      "the source of buffers is found a byte later",
    "ownBuffer drop: emptyCache();": "a test would have to use up all memory",
    "slab literal: 0 → (0 + 1) in new ArrayBuffer(0)":
      "what is made first has no room in it either",
    "slabArray condition: if (array === Float32Array) → false": "only the speed changes",
    "slabUsed literal: 0 → (0 + 1) in slabUsed = 0":
      "the first slab has no room, so that another one begins at 0",
    "slabUsed literal: 0 → (0 - 1) in slabUsed = 0":
      "the first slab has no room, so that another one begins at 0",
    "takePooled literal: 0 → (0 + 1) in pooledBytes === 0": "the bins are looked at all the same",
  },
  "src/memory/snapshot.ts": {
    "CowStorage.settle swap: own.enter(this.#low, this.#high)":
      "nothing asks this snapshot to move to a copy",
    "Snapshot.#high literal: 1 → (1 + 1) in -1":
      "the first tensor that looks at the snapshot sets it",
    "Snapshot.#high literal: 1 → (1 - 1) in -1": "at most one more element is copied",
    "Snapshot.leave condition: if (storage.cows === this) → true":
      "two snapshots of one storage have other users: at most one more copy is made",
  },
  "src/memory/storage.ts": {
    "DISPOSED literal: false → true": "the bytes of what is gone are not handed out",
    "Storage.get lanes literal: false → true": "the bytes of lanes are not handed out",
    "checkAlive condition: if (storage.exposed) → true":
      "the function that it calls looks at all of it",
  },
  "src/table/expr.ts": {
    "parse.take comparison: ++next > 0 → ++next > (0) + 1":
      "no expression begins with what it takes",
    "parse.take comparison: ++next > 0 → ++next >= 0": "a count that was increased is above 0",
    "parseExpr condition: if (tree === undefined) → true": "the same text is parsed anew",
  },
  "src/table/infer.ts": {
    "RANKS literal: 9 → (9 + 1) in length: 9": "shapes of more axes are made anew",
    "RANKS literal: 9 → (9 - 1) in length: 9": "shapes of more axes are made anew",
    "checkCount comparison: count > 2147483647 → count >= 2147483647": "so many elements take long",
    "inferMap literal: 1 → (1 + 1) in inputs[1]": "the general path infers the same",
    "scalarsDType literal: 0 → (0 + 1) in values[0]":
      "of no second value the dtype is bool, which gives way to the others",
    "settle logic: op.rules[info.id] ?? ruleFor(op, info, call.name) → (ruleFor(op, info, call.name))":
      "ruleFor looks for a known rule too",
  },
  "src/table/op.ts": {
    "Call.badIndex literal: 1 → (1 + 1) in -1": "any negative number means that there is none",
    "Call.result condition: if (spec.shape !== shape) → true":
      "to write the same shape changes nothing",
    "makeOp literal: 16 → (16 - 1) in new Array(16)": "the array grows",
  },
  "src/table/table.ts": {
    "argReduce literal: 8 → (8 + 1) in [-8, 8]": "only tests read the interval, and draw from it",
    "argReduce literal: 8 → (8 - 1) in -8": "only tests read the interval, and draw from it",
    "compare swap: map(`x ${op} y`, numpy)": "comparisons are the same text in NumPy",
    "map literal: 8 → (8 - 1) in -8": "only tests read the interval, and draw from it",
    "reduce literal: 1 → (1 - 1) in ulp: 1": "only tests read how much an error may be",
    "reduce literal: 8 → (8 - 1) in [-8, 8]": "only tests read the interval, and draw from it",
    "scan literal: 2 → (2 - 1) in -2": "only tests read the interval, and draw from it",
    "scan literal: 2 → (2 - 1) in [-2, 2]": "only tests read the interval, and draw from it",
    "unary literal: 1 → (1 + 1) in ulp: 1": "only tests read how much an error may be above 0",
  },
  "src/table/user_expr.ts": {
    "renamed drop: return expr;": "the name that a number gets is not printed",
  },
  "src/api/random.ts": {
    "split comparison: count > MAX_KEYS → count >= MAX_KEYS": "so many keys take long",
    "spread condition: if (scale !== 1) → true": "a product with 1 changes nothing",
    "uniform swap: checkFinite(low, high)": "all of the values are checked, in any order",
  },
  "src/core/composite.ts": {
    "empty literal: false → true": "what is written to the memory overwrites the zeros",
  },
  "src/tensor/create.ts": {
    "LARGE_ZEROS arithmetic: 1 << 15 → ((15) << (1))": "only the speed changes",
    "LARGE_ZEROS literal: 1 → (1 - 1) in 1 << 15": "only the speed changes",
  },
  "src/tensor/define_op.ts": {
    "attributesOf literal: 0 → (0 - 1) in parameters.length === 0":
      "attributes without numbers mean the same as none",
    "runBy literal: 0 → (0 - 1) in flags: 0":
      "copies within the library ignore the flags of operands",
  },
  "src/tensor/format.ts": {
    "GAP literal: 1 → (1 + 1) in -1": "any number that is no index marks the gap",
  },
  "src/api/functions/tensors.ts": {
    "sharesBuffer logic: p.exposed && q.exposed → (p.exposed || q.exposed)":
      "bytes that were handed out are on no slab",
  },
  "src/ops/index/op.ts": {
    "onlyTensor literal: 2 → (2 + 1) in call.inputs.length === 2":
      "the general way gives the same, slowly",
    "GET.decompose condition: only === undefined ? argumentsOf(call, 1) : [only] → (argumentsOf(call, 1))":
      "the general way gives the same, slowly",
  },
  "src/ops/index/put.ts": {
    "SET.infer drop: prepareWrite(x as Operand, name);":
      "the ops that it is made of prepare the write too",
    "setAt logic: options?.accumulate ?? false → (options?.accumulate)":
      "undefined means the same as false",
    "writeTo drop: recycle(copy.storage);": "the memory is collected instead of used again",
  },
  "src/ops/join/op.ts": {
    "STACK.infer literal: 0 → (0 - 1) in shape.toSpliced(at, 0, xs.length)":
      "a negative count deletes nothing, as 0 does",
  },
  "src/ops/matmul/op.ts": {
    "MATMUL literal: true → false": "the result is copied to outputs that are not contiguous",
    "MAX_BATCH literal: 25 → (25 - 1) in 2 ** 25": "a batch of so many matrices takes long",
    "OUTER.decompose literal: 0 → (0 - 1) in call.outputs[0]":
      "the result is copied to the output that was given",
    "matmul condition: dtype === undefined ? undefined : { dtype } → ({ dtype })":
      "an attribute that is undefined means the same as none",
  },
  "src/ops/linear/op.ts": {
    "promoteWith logic: !isOperand(input) || input.storage.info === dtype → (!isOperand(input))":
      "a dtype promotes with itself to itself",
  },
  "src/ops/manipulate/op.ts": {
    "PAD.copy condition: i === axis ? length : size → (size)":
      "an axis that is broadcast is read as far as the target goes",
    "PAD.copy literal: 0 → (0 - 1) in length === 0": "a copy of nothing changes nothing",
    'pad drop: checkOperand(x, "pad");': "the op checks its input too",
  },
  "src/ops/create/ranges.ts": {
    "LINE_ROW literal: 10 → (10 + 1) in 1 << 10": "only the speed changes",
    "LONG_LINE literal: 1 → (1 - 1) in 1 << 13": "only the speed changes",
    "LONG_LINE literal: 13 → (13 + 1) in 1 << 13": "only the speed changes",
    'checkFinite logic: typeof value !== "number" || !Number.isFinite(value) → (!Number.isFinite(value))':
      "Number.isFinite is false for what is no number",
    'holdsLine logic: kind === "i" || kind === "u" → (kind === "i" && kind === "u")':
      "the general path gives the same",
  },
  "src/ops/reduce/op.ts": {
    'IS_CLOSE.infer literal: 0 → (0 - 1) in typeof y === "number" ? 0 : y':
      "comparisons take every number",
    "LOG_SUM_EXP.decompose logic: out ?? log → (out)":
      "the sum takes memory of its own instead of that of the logarithm",
    'asFloat logic: typeof value === "bigint" || typeof value === "boolean" → (typeof value === "bigint")':
      "the op takes booleans too",
    "finiteMax literal: 0 → (0 - 1) in apply(MAP.where, apply(MAP.isfinite, max), max, 0)":
      "infinity plus any number is infinity",
    "logSumExp drop: checkOperand(x, LOG_SUM_EXP.name);": "the op checks its input too",
  },
  "src/ops/index/selection.ts": {
    "selectAlong logic: own || found.own → (own && found.own)":
      "the memory comes back with the next garbage collection",
    "indicesBy comparison: i < n → i <= n": "a typed array ignores a write beyond its end",
    "SMALL_MASK literal: 128 → (128 + 1) in SMALL_MASK = 128": "only the speed changes",
    "asInput condition: isOperandArgument(indices) ? indices : undefined → (indices)":
      "nothing takes an array for an operand",
    "checkIndices drop: checkOperand(indices, name);":
      "the ops that use the indices check them too",
    "indexTensors drop: checkDevice(x.storage, argument.storage, name);":
      "the ops that use the indices check the devices too",
    "integers condition: if (value as number < min || value as number > max) → true":
      "indices of int64 pick the same elements",
  },
  "src/ops/softmax_norm/op.ts": {
    "normalizeRows literal: 0 → (0 - 1) in x.layout.size === 0":
      "the ops that it is made of give nothing of nothing",
    "overRoot swap: apply(x, scale)": "a product is the same either way",
    "softmaxOp.decompose literal: 0 → (0 - 1) in x.layout.size === 0":
      "the ops that it is made of give nothing of nothing",
    "zeroLike literal: 1 → (1 - 1) in () => 1": "its only element is read along all axes",
  },
  "src/ops/sort/op.ts": {
    "sortsLastAxis logic: size > 0 && (axis === -1 || axis === shape.length - 1) → ((axis === -1 || axis === shape.length - 1))":
      "kernels sort nothing of an empty tensor",
    "sortOp.infer drop: checkOperand(x, call.name);":
      "the function that calls the op checks the input",
  },
  "src/tensor/tensor.ts": {
    "Tensor.dispose condition: if (this.storage === DISPOSED) → false":
      "no storage to recycle is left",
    "Tensor.toArray logic: options?.bigint ?? false → (options?.bigint)":
      "undefined means the same as false",
    "intoShared literal: 0 → (0 + 1) in flags: 0":
      "copies within the library ignore the flags of operands",
    'nested logic: !bigint && (info.name === "float32" || info.name === "float64") → ((info.name === "float32" || info.name === "float64"))':
      "floats are numbers either way",
    "tensorsIn condition: Array.isArray(kept) ? kept : Object.values(kept) → (Object.values(kept))":
      "the values of an array are its elements",
  },
  "src/types/axes.ts": {
    "NoAxis tuple: [number, ...infer R extends Shape] → [...infer R extends Shape, number]":
      "only the length of the tuple is used",
    'AlongAxes branch: number extends S["length"] | A["length"] → AxisIndexes<Op, S, A> extends infer E extends string ? E : S':
      "what is not known passes the next check too",
    "ExpandDims literal: 1 → 2 #3": "only the length of the tuple is used",
    "Take tuple: [...OneLess<S>, ...I] → [...I, ...OneLess<S>]":
      "only the length of the tuple is used",
    "DropAxes tuple: [...Seen, 0] → [0, ...Seen]": "only the length of the tuple is used",
    "Diagonal literal: 0 → 1": "the default stands at the method too",
    "AxisIndex tuple: [...infer H, ...Span<P>] → [...Span<P>, ...infer H]":
      "as many axes come before as come after",
    "AxisIndexes tuple: [...Out, number] → [number, ...Out]":
      "an axis that is not known makes the whole result so",
    "PickAxes branch: Is[K] extends keyof S → S[Is[K]]": "callers check the axes",
    "SplitEqual branch: number extends S[I] | N → [Quotient<S[I], N>] extends [never] ? `C … <S, I, Quotient<S[I], N>>":
      "a quotient of sizes that are not known is not known",
  },
  "src/types/core.ts": {
    "Parts tuple: [...N, 0] → [0, ...N]": "only the length of the tuple is used",
    'Sizes branch: number extends S["length"] → { -readonly [K in keyof S]: number }':
      "a dynamic shape comes out as it was",
    "OfRank literal: 32 → 33": "where the ranks end that are written out is a choice",
    "GuardRest tuple: [error: NoInfer<R>, ...rest: unknown[]] → [...rest: unknown[], error: NoInfer<R>]":
      "the error stands at another argument",
  },
  "src/types/dtype.ts": {
    "OkDType branch: [Extract<R, DType>] extends [never] → Extract<R, DType>":
      "the error stands at the argument already",
  },
  "src/types/nested.ts": {
    "LeafDType tuple: [E] → []": "the next branch gives the same for no element",
    "DataShape tuple: [...Out, number] → [number, ...Out]": "arrays hold no typed arrays",
    'ArrayDType branch: X extends Float64Array → "float64"': "no other typed array is left",
  },
  "src/types/reshape.ts": {
    "Cancel branch: number extends H → Without<To, H> extends infer T ? [T] ext …  T, Left> : never : never":
      "sizes that are not known are in the place of each other",
  },
  "src/types/slice.ts": {
    "AxisAt tuple: [...infer Used extends Shape, ...Unknowns<Left>] → [...Unknowns<Left>, ...infer Used extends Shape]":
      "only the length of the tuple is used",
    "OrZero branch: D extends Digits → D": "a difference that is there consists of digits",
  },
};
