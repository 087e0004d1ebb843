/**
 * Mutants that no test can tell from the original, or that none is to: by file and key, with the
 * reason. The run fails where a key is no longer that of a mutant.
 *
 * @module
 */

/** The reasons, by files and keys. */
export const SURVIVORS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "src/backend/cuda/backend.ts": {
    "isPlainLinear comparison: bias.storage.info === call.specs[0]!.dtype → bias.storage.info !== call.specs[0]!.dtype":
      "the ops that it is made of give the same, slowly",
    "isGemm.isByte comparison: x.layout.size > 0 → x.layout.size > (0) + 1":
      "the ops that it is made of give the same, slowly",
  },
  "src/backend/cuda/constants.ts": {
    "CONSTANTS literal: 1 → (1 - 1) in REDUCE_PACKS: 1": "only the speed changes",
  },
  "src/backend/cuda/families.ts": {
    "mapFamilies condition: if (row.id === MAP.copy.id) → true":
      "only which kernels are compiled ahead changes",
  },
  "src/backend/cuda/maps.ts": {
    "isMixed literal: 0 → (0 - 1) in k === 0":
      "the kernel that casts its operands gives the same, slowly",
    "mapOtherwise literal: 0 → (0 + 1) in layouts[0] #3":
      "only devices without a compiler take this way; prebuilt_test.ts takes too long to judge",
  },
  "src/backend/cuda/memory.ts": {
    "turn drop: setTimeout(resolve, 0);": "this Deno has setImmediate",
  },
  "src/backend/cuda/reduce.ts": {
    "isEven literal: 1 → (1 - 1) in kept + 1": "only the speed changes",
    "shareScan swap: splitReduction(wanted, ROUNDS_ACROSS)": "only the speed changes",
    "fillReduce condition: b === null ? 0 : data[OFFSETS + 2]! → (data[OFFSETS + 2]!)":
      "no kernel reads an operand that is not there",
    "castLater condition: if (out.info.name === usual) → false":
      "no kernel is missing on the emulator",
    "scan literal: false → true": "no kernel is missing on the emulator",
    "partition literal: 2 → (2 - 1) in ROWS / 2": "only the speed changes",
    "scansAcross comparison: sizeBetween(plan, 0, kept) >= FEW_RUNS → sizeBetween(plan, 0, kept) > FEW_RUNS":
      "only the speed changes",
  },
  "src/backend/cuda/graphs.ts": {
    "free drop: drop(held);": "the memory comes back with the next garbage collection",
  },
  "src/backend/cuda/move.ts": {
    "gather arithmetic: (size - 1) * stride → ((size - 1) / stride)":
      "callers pass operands that lie within their storages",
    "roomFor condition: axes.length > 3 * BLOCK_AXES ? MAX_AXES : BLOCK_AXES → (MAX_AXES)":
      "only more arguments are passed",
    "PIECE literal: 4096 → (4096 + 1) in PIECE = 4096": "only the speed changes",
    "nonzeroIndices literal: 1 → (1 + 1) in tiles + 1": "only more workspace memory is taken",
    "teamFor comparison: even >= 8 → even >= (8) - 1": "a number of threads is a power of two",
  },
  "src/backend/cuda/softmax_norm.ts": {
    "heldOf arithmetic: (bytes === 8 ? 16 : 32) / (pack === 1 ? 2 : 1) → ((bytes === 8 ? 16 : 32) * (pack === 1 ? 2 : 1))":
      "only how much a thread holds changes",
    'blockThreads logic: kernel.endsWith("Norm") || bytes === 8 → (kernel.endsWith("Norm") && bytes === 8)':
      "only the speed changes",
    "BUSY_BLOCKS literal: 1024 → (1024 - 1) in BUSY_BLOCKS = 1024": "only the speed changes",
    "alongRows literal: 0 → (0 + 1) in handle === 0": "no kernel is missing on the emulator",
  },
  "src/backend/cuda/sort.ts": {
    "sortLong.round literal: 512 → (512 - 1) in length / 512":
      "only more workspace memory is taken",
  },
  "src/backend/cuda/source.ts": {
    "printC.num condition: /^\\d+$/.test(digits) ? digits : `((${work})${digits})` → (`((${work})${digits})`)":
      "C converts integers to the same numbers",
    "mapSource literal: 256 → (256 - 1) in row.id * 256": "the keys of sources stay different",
  },
  "src/backend/cuda/matmul.ts": {
    "isPlain logic: columnStride === 1 && rowStride >= columns → (rowStride >= columns)":
      "the kernel without cuBLAS gives the same, slowly",
    'linear drop: checkRun("rm_cuda_matmul", 3, offset, product.n, storage);':
      "callers pass operands that lie within their storages",
    "multiplyByBlas condition: if (z === c && x === a && y === b) → false":
      "a second call with the same operands fails too",
    "withDense condition: if (isPlain(matrices, read)) → false": "only copies are made",
  },
  "src/backend/ffi/abi.ts": {
    "STATUS literal: 2 → (2 + 1) in badArgument: 2":
      "ops_def_test.ts, which judges nothing, finds it",
    "CUDA_MEMORY literal: 7 → (7 - 1) in release: 7":
      "ops_def_test.ts, which judges nothing, finds it",
    "BUFFERS literal: 2 → (2 + 1) in kept: 2": "ops_def_test.ts, which judges nothing, finds it",
    "CONFIGURE literal: 2 → (2 - 1) in shareAll: 2":
      "ops_def_test.ts, which judges nothing, finds it",
    "hashOf literal: 0 → (0 + 1) in hash | 0": "ops_def_test.ts, which judges nothing, finds it",
  },
  "src/backend/ffi/load.ts": {
    'mayBeThere logic: !host.may("read", path) || host.look(path) !== undefined → (!host.may("read", path))':
      "tests of packages take this way, and judge nothing",
  },
  "src/backend/native/kernels.ts": {
    'topk.prepare literal: 2 → (2 + 1) in checkRun("topk", 2, 0, indices.layout.size, indices.storage)':
      "callers pass operands that lie within their storages",
    "topk.supports literal: 16 → (16 + 1) in 16 * k": "only the speed changes",
  },
  "src/backend/ffi/buffers.ts": {
    "ShimBuffers.set otherBytes drop: this.#bytes[1] = bytes;":
      "only how much memory is kept changes",
  },
  "src/backend/ffi/cache.ts": {
    "findIntact condition: !mayUse(folder, path) → (mayUse(folder, path))":
      "the library is looked for again when it is opened",
    'pathOf condition: host.platform === "win32" ? path.slice(1).replaceAll("/", "\\\\") : path → (path)':
      "only Windows takes the other way",
  },
  "src/backend/ffi/checks.ts": {
    "high literal: 0 → (0 + 1) in high = 0": "it is set before it is read",
    "checkOperand comparison: k < plan.operands → k <= plan.operands":
      "callers check the operands that a plan has",
  },
  "src/backend/js/backend.ts": {
    "JsBackend.#alongAxes literal: 4 → (4 - 1) in (plan.rank * 256 + plan.kept) * 4":
      "the keys of loops stay different",
    "JsBackend.#map arithmetic: (call.compute.id * 256 + out.info.id) * 256 → ((call.compute.id * 256 + out.info.id) / 256)":
      "the keys of loops stay different",
    "JsBackend.supports logic: KERNELS.get(call.op.name)?.supports(call) ?? false → (KERNELS.get(call.op.name)?.supports(call))":
      "undefined means the same as false",
    'mayGenerate comparison: new Function("return 1")() === 1 → new Function("return 1")() !== 1':
      "the interpreter gives what made functions give, slowly",
  },
  "src/backend/js/emit.ts": {
    "Emitter.#temporaries literal: 0 → (0 + 1) in #temporaries = 0;":
      "the names of variables count from another number",
    'Emitter.cast condition: source.kind === "f" ? to === "float32" & … = 2 : source.kind === "b" → (source.kind === "b")':
      "to round what is exact changes nothing",
    'Emitter.compute logic: part.kind === "name" && names[part.name]?.kind === "pair" → (names[part.name]?.kind === "pair")':
      "only operands have the names of operands",
    "Emitter.compute.select condition: branchless ? `pick(${test}, ${then}, ${otherwise})` : undefined → (`pick(${test}, ${then}, ${otherwise})`)":
      "both forms choose the same value",
    "MAX_SAFE literal: 9007199254740991 → (9007199254740991 - 1) in MAX_SAFE = 9007199254740991":
      "one value more goes the exact way",
    "PairPrinter.#signed literal: true → false":
      "the operands, of which there is one at least, set it",
    'PairPrinter.value comparison: expr.then.kind === "num" → expr.then.kind !== "num"':
      "no op in 64-bit integers has a choice of another kind",
    'isCondition logic: (expr.kind === "binary" && CONDITIONS.in … nary" && expr.op === "!") → ((expr.kind === "binary" && CONDITIONS.includes(expr.op)))':
      "no op negates a condition in 64-bit integers",
  },
  "src/backend/js/environment.ts": {
    "COLUMNS literal: 256 → (256 + 1) in COLUMNS = 256":
      "any number of columns side by side gives the same",
    "NAMES swap: sticky(high >>> 0, low) #2": "only Bun takes this way",
    'SHORT_FIRST condition: !("Bun" in globalThis) → (("Bun" in globalThis))':
      "only the speed changes",
    "saturateI64 comparison: x > -9223372036854775808 → x > (-9223372036854775808) + 1":
      "the two bounds are the same double",
    "slowFunction literal: 2 → (2 + 1) in 2 * k":
      "no op of three operands calls a function on integers",
  },
  "src/backend/js/gather.ts": {
    "LONG_RUN literal: 256 → (256 - 1) in LONG_RUN = 256": "only the speed changes",
    "moveBlocks literal: 1 → (1 + 1) in rank === 1": "the general path moves the same",
    "walkOperand condition: if (size === 0) → false": "an array without elements stays as it is",
  },
  "src/backend/js/interpret.ts": {
    'startOf condition: if (kind === "f") → true':
      "integers lie between the infinities, and of none there is no largest one",
  },
  "src/backend/js/loops.ts": {
    'Accumulator.assign condition: value.kind === "number" ? value.text : value.low → (value.text)':
      "an accumulator of one word gets no pairs",
    'Accumulator.constructor drop: this.wraps = (kind === "i" || kind === "u") && !DTYPE[dtype].wide;':
      "sums of integers have 64 bits, and wrap as they are added up",
    "FILLED literal: 64 → (64 - 1) in FILLED = 64": "only the speed changes",
    'Folding.constructor condition: this.floats ? "float64" : out → (out)':
      "loops add up in doubles, whatever the dtype",
    "Folding.fold condition: acc.wraps ? emit.settle(folded, acc.dtype) : folded → (folded)":
      "sums of integers have 64 bits, and wrap as they are added up",
    "TILE literal: 32 → (32 - 1) in TILE = 32": "only the speed changes",
    "mapSource condition: plan.needsInt64Index ? (k: number) => `i … (i${k}_${inner} + c | 0)` → ((k: number) => `(i${k}_${inner} + c | 0)`)":
      "positions beyond 2^30 would take gigabytes",
    'reduceSource.advance condition: by === 1 ? "" : `${by} * ` → (`${by} * `)':
      "a product with 1 changes nothing",
    "runsAcross arithmetic: strides + kept - 1 → ((1) - (strides + kept))":
      "the other loop gives the same, slowly",
    "runsAcross logic: data[OFFSETS + operands + kept - 1]! >=  … ata[strides + rank - 1]!) → (keptStep < Math.abs(data[strides + rank - 1]!))":
      "only the speed changes",
  },
  "src/backend/js/matmul.ts": {
    "KEPT_ELEMENTS literal: 20 → (20 + 1) in 1 << 20": "only how much memory is kept changes",
    "floats literal: 0 → (0 + 1) in new Float64Array(0)":
      "the first use makes an array of the length that it needs",
    "panels condition: if (lines % 4 !== 0) → true": "zeros that nothing reads are written",
    "working comparison: array.length >= length → array.length > length":
      "another array of the same length is made",
  },
  "src/backend/js/philox.ts": {
    "fillNormal64 literal: 1 → (1 + 1) in bits53(word) + 1":
      "the difference is below the error of the logarithm",
  },
  "src/backend/js/primitives.ts": {
    "FLOAT.signbit literal: 1 → (1 + 1) in 1 / x": "the sign is the same",
    "INT condition: DIVIDES_INTEGERS ? wrappingFloordiv : floorOfQuotient → (floorOfQuotient)":
      "only Bun takes the other one",
    "POW_DRIFTS comparison: Math.pow(10, 308) !== 1e308 → Math.pow(10, 308) === 1e308":
      "in Deno powers are the same both ways",
    "WIDE condition: isInt32(x) && isInt32(y) ? wrappingFloor … ) : floorOfQuotient(x, y) → (wrappingFloordiv(x, y))":
      "only Bun takes this way",
    "WIDE logic: isInt32(x) && isInt32(y) → (isInt32(x))": "only Bun takes this way",
    "choice literal: 2 → (2 + 1) in new Float64Array(2)": "only its first two elements are used",
    "copysign logic: y === 0 && 1 / y < 0 → (1 / y < 0)":
      "only of -0 and negative numbers the reciprocal is below 0",
    "f32 literal: 1 → (1 + 1) in new Float32Array(1)": "only its first element is used",
    "f64 literal: 1 → (1 + 1) in new Float64Array(1)": "only its first element is used",
    "floordivToHalf comparison: quotient > -2048 → quotient >= -2048": "the table has -2048 too",
    "fmod comparison: m < 0 → m <= 0": "a remainder of 0 is dealt with before",
    "isShort arithmetic: y - y → (y + y)": "the other way to divide gives the same, slowly",
    "isShort literal: 0 → (0 + 1) in y - y === 0": "the other way to divide gives the same, slowly",
    "nextafter16 comparison: x > 0 → x >= 0": "zeros are dealt with before, and infinity is not 0",
    "pow condition: if (size > 1e-280 && size < 1e290) → true": "only Bun takes this way",
  },
  "src/backend/js/sort.ts": {
    "BITS literal: 11 → (11 - 1) in BITS = 11": "digits of any width sort the same",
    "BUCKETS literal: 1 → (1 + 1) in 1 << BITS": "more buckets than digits stay empty",
    "RADIX_LEAST literal: 256 → (256 + 1) in RADIX_LEAST = 256": "only the speed changes",
    "orderA literal: 0 → (0 + 1) in new Int32Array(0)":
      "the first use makes an array of the length that it needs",
    "orderB literal: 0 → (0 + 1) in new Int32Array(0)":
      "the first use makes an array of the length that it needs",
    "reserve condition: if (keysA.length >= size) → false":
      "arrays of the same length are made again",
    "sortValues logic: size >= RADIX_LEAST || bits → (bits)": "both ways to sort give the same",
  },
  "src/backend/native/backend.ts": {
    "NativeBackend.#runAxes comparison: number < 0 → number <= 0":
      "the definition in JavaScript gives what one kernel gives",
  },
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
  "src/core/blocks.ts": {
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
  "src/core/row_kernels.ts": {
    'isRowCall logic: info !== call.specs[0]!.dtype || info.kind !== "f" → (info !== call.specs[0]!.dtype && info.kind !== "f")':
      "the result of floats has their dtype, that of others another",
  },
  "src/core/write.ts": {
    "newOutput literal: false → true": "results overwrite the zeros",
  },
  "src/io/bytes.ts": {
    "checkBools comparison: i < data.length → i <= data.length":
      "there is nothing beyond the end to refuse",
  },
  "src/io/file.ts": {
    "CHUNK arithmetic: 2 ** 30 → ((30) ** (2))": "more reads give the same bytes",
    "RawSafetensorsFile.open literal: 8 → (8 + 1) in Math.min(8, size)":
      "the ninth byte is not looked at",
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
    "MOST_FROM_SOURCE literal: 1 → (1 + 1) in 1 << 28":
      "buffers are the same, wherever they come from",
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
  "src/ops/expr.ts": {
    "parse.take comparison: ++next > 0 → ++next > (0) + 1":
      "no expression begins with what it takes",
    "parse.take comparison: ++next > 0 → ++next >= 0": "a count that was increased is above 0",
    "parseExpr condition: if (tree === undefined) → true": "the same text is parsed anew",
  },
  "src/ops/infer.ts": {
    "RANKS literal: 9 → (9 + 1) in length: 9": "shapes of more axes are made anew",
    "RANKS literal: 9 → (9 - 1) in length: 9": "shapes of more axes are made anew",
    "checkCount comparison: count > 2147483647 → count >= 2147483647": "so many elements take long",
    "inferMap literal: 1 → (1 + 1) in inputs[1]": "the general path infers the same",
    "scalarsDType literal: 0 → (0 + 1) in values[0]":
      "of no second value the dtype is bool, which gives way to the others",
    "settle logic: op.rules[info.id] ?? ruleFor(op, info, call.name) → (ruleFor(op, info, call.name))":
      "ruleFor looks for a known rule too",
  },
  "src/ops/kernels.ts": {
    "sortsLastAxis logic: size > 0 && (axis === -1 || axis === shape.length - 1) → ((axis === -1 || axis === shape.length - 1))":
      "kernels sort nothing of an empty tensor",
  },
  "src/ops/op.ts": {
    "Call.badIndex literal: 1 → (1 + 1) in -1": "any negative number means that there is none",
    "Call.result condition: if (spec.shape !== shape) → true":
      "to write the same shape changes nothing",
    "makeOp literal: 16 → (16 - 1) in new Array(16)": "the array grows",
  },
  "src/ops/table.ts": {
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
  "src/ops/user_expr.ts": {
    "renamed drop: return expr;": "the name that a number gets is not printed",
  },
  "src/random/mod.ts": {
    "split comparison: count > MAX_KEYS → count >= MAX_KEYS": "so many keys take long",
    "spread condition: if (scale !== 1) → true": "a product with 1 changes nothing",
    "uniform swap: checkFinite(low, high)": "all of the values are checked, in any order",
  },
  "src/tensor/composite.ts": {
    "empty literal: false → true": "what is written to the memory overwrites the zeros",
  },
  "src/tensor/create.ts": {
    "LARGE_ZEROS arithmetic: 1 << 15 → ((15) << (1))": "only the speed changes",
    "LARGE_ZEROS literal: 1 → (1 - 1) in 1 << 15": "only the speed changes",
    'isBuffer logic: typeof SharedArrayBuffer !== "undefined" … tanceof SharedArrayBuffer → (value instanceof SharedArrayBuffer)':
      "Deno has SharedArrayBuffer",
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
  "src/tensor/from_data.ts": {
    "isTypedArray logic: ArrayBuffer.isView(data) && !(data instanceof DataView) → (ArrayBuffer.isView(data))":
      "a DataView is refused either way",
  },
  "src/tensor/functions.ts": {
    "sharesBuffer logic: p.exposed && q.exposed → (p.exposed || q.exposed)":
      "bytes that were handed out are on no slab",
  },
  "src/tensor/index_put.ts": {
    "SET.infer drop: prepareWrite(x as Operand, name);":
      "the ops that it is made of prepare the write too",
    "setAt logic: options?.accumulate ?? false → (options?.accumulate)":
      "undefined means the same as false",
    "writeTo drop: recycle(copy.storage);": "the memory is collected instead of used again",
  },
  "src/tensor/join.ts": {
    "STACK.infer literal: 0 → (0 - 1) in shape.toSpliced(at, 0, xs.length)":
      "a negative count deletes nothing, as 0 does",
  },
  "src/tensor/linalg.ts": {
    "GEMM_BIAS literal: true → false": "the result is copied to outputs that are not contiguous",
    "MATMUL literal: true → false": "the result is copied to outputs that are not contiguous",
    "MAX_BATCH literal: 25 → (25 - 1) in 2 ** 25": "a batch of so many matrices takes long",
    "OUTER.decompose literal: 0 → (0 - 1) in call.outputs[0]":
      "the result is copied to the output that was given",
    "matmul condition: dtype === undefined ? undefined : { dtype } → ({ dtype })":
      "an attribute that is undefined means the same as none",
    "promoteBias logic: !isOperand(bias) || bias.storage.info === dtype → (!isOperand(bias))":
      "a dtype promotes with itself to itself",
  },
  "src/tensor/manipulate.ts": {
    "PAD.copy condition: i === axis ? length : size → (size)":
      "an axis that is broadcast is read as far as the target goes",
    "PAD.copy literal: 0 → (0 - 1) in length === 0": "a copy of nothing changes nothing",
    'pad drop: checkOperand(x, "pad");': "the op checks its input too",
  },
  "src/tensor/ranges.ts": {
    "LINE_ROW literal: 10 → (10 + 1) in 1 << 10": "only the speed changes",
    "LONG_LINE literal: 1 → (1 - 1) in 1 << 13": "only the speed changes",
    "LONG_LINE literal: 13 → (13 + 1) in 1 << 13": "only the speed changes",
    'checkFinite logic: typeof value !== "number" || !Number.isFinite(value) → (!Number.isFinite(value))':
      "Number.isFinite is false for what is no number",
    'holdsLine logic: kind === "i" || kind === "u" → (kind === "i" && kind === "u")':
      "the general path gives the same",
  },
  "src/tensor/reduce.ts": {
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
  "src/tensor/selection.ts": {
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
  "src/tensor/softmax_norm.ts": {
    "normalizeRows literal: 0 → (0 - 1) in x.layout.size === 0":
      "the ops that it is made of give nothing of nothing",
    "overRoot swap: apply(x, scale)": "a product is the same either way",
    "softmaxOp.decompose literal: 0 → (0 - 1) in x.layout.size === 0":
      "the ops that it is made of give nothing of nothing",
    "zeroLike literal: 1 → (1 - 1) in () => 1": "its only element is read along all axes",
  },
  "src/tensor/sort.ts": {
    "sortOp.infer drop: checkOperand(x, call.name);":
      "the function that calls the op checks the input",
  },
  "src/tensor/tensor.ts": {
    "Tensor.toArray logic: options?.bigint ?? false → (options?.bigint)":
      "undefined means the same as false",
    "intoShared literal: 0 → (0 + 1) in flags: 0":
      "copies within the library ignore the flags of operands",
    'nested logic: !bigint && (info.name === "float32" || info.name === "float64") → ((info.name === "float32" || info.name === "float64"))':
      "floats are numbers either way",
    "tensorsIn condition: Array.isArray(kept) ? kept : Object.values(kept) → (Object.values(kept))":
      "the values of an array are its elements",
  },
};
