/**
 * The known survivors of src/backend: see survivors.ts.
 *
 * @module
 */

/** The reasons, by files and keys. */
export const BACKEND_SURVIVORS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "src/backend/cuda.ts": {
    'module drop: registerDevices("cuda", open);': "tests register a device of their own",
  },
  "src/backend/cuda/backend.ts": {
    "CudaBackend.warmUp condition: if (names.length > 0) → false":
      "only when kernels are compiled changes",
    "isPlainLinear comparison: bias.storage.info === call.specs[0]!.dtype → bias.storage.info !== call.specs[0]!.dtype":
      "the ops that it is made of give the same, slowly",
    "isGemm.isByte comparison: x.layout.size > 0 → x.layout.size > (0) + 1":
      "the ops that it is made of give the same, slowly",
  },
  "src/backend/cuda/source/constants.ts": {
    "CONSTANTS literal: 1 → (1 - 1) in REDUCE_PACKS: 1": "only the speed changes",
  },
  "src/backend/cuda/device.ts": {
    "Arguments.#reals literal: 512 → (512 - 1) in new Float64Array(512)": "only its length changes",
    "CudaDevice.#call literal: 8 → (8 + 1) in new Float64Array(8)": "only its length changes",
    "Arguments.#count literal: 0 → (0 + 1) in #count = 0;": "each call clears the arguments first",
  },
  "src/backend/cuda/families.ts": {
    "usualFamilies condition: row === MAP.copy ? DTYPES.map((dtype) => … dtype])) : [usualOf(row)] → ([usualOf(row)])":
      "only which kernels are compiled ahead changes",
    'sumsOf condition: accumulates(row) && from !== "bool" ? [from] : [] → ([])':
      "only which kernels are compiled ahead changes",
    "mapFamilies condition: if (row.id === MAP.copy.id) → true":
      "only which kernels are compiled ahead changes",
  },
  "src/backend/cuda/maps.ts": {
    'mapOtherwise.isFine logic: device === "cpu" || (info.name === dtype …  isSingle(layouts[k]!)))) → ((info.name === dtype && (layouts[k]!.co … isSingle(layouts[k]!)))))':
      "only devices without a compiler take this way; prebuilt_test.ts takes too long to judge",
    "MOST_AT_ONCE arithmetic: 2 ** 28 → ((28) ** (2))": "only how much is done at once changes",
    "mapOtherwise.isSingle literal: 0 → (0 - 1) in stride === 0":
      "only devices without a compiler take this way; prebuilt_test.ts takes too long to judge",
    "isMixed literal: 0 → (0 - 1) in k === 0":
      "the kernel that casts its operands gives the same, slowly",
    "mapOtherwise literal: 0 → (0 + 1) in layouts[0] #3":
      "only devices without a compiler take this way; prebuilt_test.ts takes too long to judge",
  },
  "src/backend/cuda/memory.ts": {
    "EAGER_MS literal: 0.2 → (0.2 - 1) in EAGER_MS = 0.2": "only the speed changes",
    "CudaMemory.#endRead arithmetic: waited * PATIENCE → (waited / PATIENCE)":
      "only the speed changes",
    "PATIENCE literal: 8 → (8 + 1) in 1 / 8": "only the speed changes",
    "LONGEST_SLEEP_MS literal: 10 → (10 + 1) in LONGEST_SLEEP_MS = 10": "only the speed changes",
    "CudaMemory.note drop: this.#cuda.notes?.write(out);":
      "what a graph copies to is memory that it made",
    "turn drop: setTimeout(resolve, 0);": "this Deno has setImmediate",
  },
  "src/backend/cuda/random.ts": {
    'randomFamily drop: add(instanceOf(DTYPE.uint32, "bits", false));':
      "only which kernels are compiled ahead changes",
    "MOST_BLOCKS literal: 20 → (20 + 1) in 2 ** 20": "only the speed changes",
  },
  "src/backend/cuda/reduce.ts": {
    "runsAcross literal: 1 → (1 + 1) in strideOf(plan, 1, rank - 1)": "only the speed changes",
    "varies condition: if (plan.operands < 3) → true":
      "no reduction has a second operand that varies",
    "FEW_RUNS literal: 32 → (32 + 1) in FEW_RUNS = 32": "only the speed changes",
    "MOST_PARTS_ACROSS literal: 64 → (64 - 1) in MOST_PARTS_ACROSS = 64": "only the speed changes",
    "BLOCKS literal: 4096 → (4096 + 1) in BLOCKS = 4096": "only the speed changes",
    "ROUNDS_ACROSS literal: 2 → (2 - 1) in ROUNDS_ACROSS = 2": "only the speed changes",
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
    "lost drop: free(owned);": "only the garbage collector calls it",
    "Graph.free drop: lost.unregister(this);": "only the garbage collector shows it",
    "free drop: drop(held);": "the memory comes back with the next garbage collection",
  },
  "src/backend/cuda/move.ts": {
    "addAxes literal: 0 → (0 + 1) in axes.push(1, 0, 0) #2": "kernels read no axes beyond the rank",
    "MOST_SORTED literal: 2 → (2 + 1) in 2 ** 26": "only how much is done at once changes",
    "MOST_BLOCKS literal: 24 → (24 + 1) in 2 ** 24": "only the speed changes",
    "MOST_ADDED literal: 30 → (30 - 1) in 2 ** 30": "only how much is done at once changes",
    "BLOCK_AXES literal: 5 → (5 - 1) in BLOCK_AXES = 5":
      "kernels with room for all axes give the same",
    "gather arithmetic: (size - 1) * stride → ((size - 1) / stride)":
      "callers pass operands that lie within their storages",
    "roomFor condition: axes.length > 3 * BLOCK_AXES ? MAX_AXES : BLOCK_AXES → (MAX_AXES)":
      "only more arguments are passed",
    "PIECE literal: 4096 → (4096 + 1) in PIECE = 4096": "only the speed changes",
    "nonzeroIndices literal: 1 → (1 + 1) in tiles + 1": "only more workspace memory is taken",
    "teamFor comparison: even >= 8 → even >= (8) - 1": "a number of threads is a power of two",
  },
  "src/backend/cuda/softmax_norm.ts": {
    'TEAMS literal: 4 → (4 - 1) in [4, 8, 16, 32, "wide", 0, "parts", "finish"]':
      "only which kernels are compiled ahead changes",
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
  "src/backend/cuda/source/folds.ts": {
    'identityOf condition: lowest ? "0" : "1" → ("1")':
      "programs_test.ts finds it, after the time that judges have",
    'makeReduce condition: exact ? "rm_two_sum(a, x)" : expr → (expr)':
      "programs_test.ts finds it, after the time that judges have",
    "keyOf literal: 256 → (256 - 1) in (row.id * 256 + DTYPE[from].id) * 256":
      "the keys of sources stay different",
  },
  "src/backend/cuda/source/maps.ts": {
    "mapSource literal: 256 → (256 - 1) in row.id * 256": "the keys of sources stay different",
  },
  "src/backend/cuda/source/text.ts": {
    "printC.num condition: /^\\d+$/.test(digits) ? digits : `((${work})${digits})` → (`((${work})${digits})`)":
      "C converts integers to the same numbers",
  },
  "src/backend/cuda/source/usual.ts": {
    "scansOf swap: scanSource(from, resultOf(row, from))":
      "only which kernels are compiled ahead changes",
  },
  "src/backend/cuda/matmul.ts": {
    "plan literal: 128 → (128 + 1) in new Float64Array(128)": "only its length changes",
    "BIAS_ALIGNMENT literal: 16 → (16 - 1) in BIAS_ALIGNMENT = 16": "only more copies are made",
    "MOST_BLOCKS_Y literal: 65535 → (65535 + 1) in MOST_BLOCKS_Y = 65535":
      "so many products take too long on the emulator",
    "isPlain logic: columnStride === 1 && rowStride >= columns → (rowStride >= columns)":
      "the kernel without cuBLAS gives the same, slowly",
    'linear drop: checkRun("rm_cuda_matmul", 3, offset, product.n, storage);':
      "callers pass operands that lie within their storages",
    "multiplyByBlas condition: if (z === c && x === a && y === b) → false":
      "a second call with the same operands fails too",
    "withDense condition: if (isPlain(matrices, read)) → false": "only copies are made",
  },
  "src/backend/cuda/walks.ts": {
    "start arithmetic: storage.address + plan.data[OFFSETS + k]! * storage.info.bytes → (storage.address - plan.data[OFFSETS + k]! * storage.info.bytes)":
      "the address is aligned, so both are aligned or neither",
  },
  "src/backend/fallback.ts": {
    "isLarge logic: k > 0 || !op.moves → (k > 0)":
      "fallback_test.ts runs programs of its own, which judge nothing",
    "WarningBackend.constructor drop: this.#reason = reason;":
      "fallback_test.ts runs programs of its own, which judge nothing",
    "WarningBackend.run drop: this.#warned();":
      "fallback_test.ts runs programs of its own, which judge nothing",
  },
  "src/backend/ffi/abi.ts": {
    "CUDA_MATMUL literal: 1 → (1 + 1) in tf32: 1":
      "ops_def_test.ts, which judges nothing, finds it",
    "CUDA_CONTROL literal: 0 → (0 - 1) in synchronize: 0":
      "ops_def_test.ts, which judges nothing, finds it",
    "CUDA_READ literal: 2 → (2 - 1) in moves: 2": "ops_def_test.ts, which judges nothing, finds it",
    "VERSION literal: 6 → (6 - 1) in VERSION = 6":
      "ops_def_test.ts, which judges nothing, finds it",
    "STATUS literal: 2 → (2 + 1) in badArgument: 2":
      "ops_def_test.ts, which judges nothing, finds it",
    "CUDA_MEMORY literal: 7 → (7 - 1) in release: 7":
      "ops_def_test.ts, which judges nothing, finds it",
    "BUFFERS literal: 2 → (2 + 1) in kept: 2": "ops_def_test.ts, which judges nothing, finds it",
    "CONFIGURE literal: 2 → (2 - 1) in shareAll: 2":
      "ops_def_test.ts, which judges nothing, finds it",
    "hashOf literal: 0 → (0 + 1) in hash | 0": "ops_def_test.ts, which judges nothing, finds it",
  },
  "src/backend/ffi/deno.ts": {
    'denoHost.variable condition: granted({ name: "env", variable: name }) … env.get(name) : undefined → (deno.env.get(name))':
      "tests of packages find it, and judge nothing",
    'denoHost logic: deno && { platform: deno.build.os === "w … , open, buffers, views, } → ({ platform: deno.build.os === "windows" …  open, buffers, views, })':
      "judges run in Deno",
    'hostOf condition: protocol === "https:" ? "443" : "80" → ("80")':
      "tests of packages find it, and judge nothing",
    'denoHost.mayImport condition: url.protocol === "file:" ? granted({ nam … rt", host: hostOf(url) }) → (granted({ name: "import", host: hostOf(url) }))':
      "tests of packages find it, and judge nothing",
    "denoHost.sha256Later literal: 16 → (16 + 1) in byte.toString(16)":
      "the library is looked for again when it is opened",
  },
  "src/backend/ffi/load.ts": {
    'mayBeThere logic: !host.may("read", path) || host.look(path) !== undefined → (!host.may("read", path))':
      "tests of packages take this way, and judge nothing",
  },
  "src/backend/native/kernels.ts": {
    "matrices literal: 64 → (64 + 1) in new Float64Array(64)": "only its length changes",
    "SMALL_K literal: 64 → (64 + 1) in SMALL_K = 64": "only the speed changes",
    'topk.prepare literal: 2 → (2 + 1) in checkRun("topk", 2, 0, indices.layout.size, indices.storage)':
      "callers pass operands that lie within their storages",
    "topk.supports literal: 16 → (16 + 1) in 16 * k": "only the speed changes",
  },
  "src/backend/ffi/buffers.ts": {
    "ShimBuffers.release drop: this.#shim.rm_buffers(BUFFERS.release, this.#numbers);":
      "only Bun has buffers from the library",
  },
  "src/backend/ffi/cache.ts": {
    "folderIn logic: value !== undefined && isFromRoot(value) → (isFromRoot(value))":
      "undefined is no path from the root",
    "ownerOfNew drop: return undefined;": "the folder is not used either way",
    "fromRoot swap: below(host.folder(), path)": "tests of packages find it, and judge nothing",
    "importContent condition: host.mayImport(url) → (!host.mayImport(url))":
      "tests of packages find it, and judge nothing",
    "inWords condition: error instanceof Error ? error.message : String(error) → (error.message)":
      "only errors are thrown",
    "findIntact condition: !mayUse(folder, path) → (mayUse(folder, path))":
      "the library is looked for again when it is opened",
    'pathOf condition: host.platform === "win32" ? path.slice(1).replaceAll("/", "\\\\") : path → (path)':
      "only Windows takes the other way",
  },
  "src/backend/ffi/checks.ts": {
    "low literal: 0 → (0 - 1) in low = 0": "it is set before it is read",
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
    "reduceSource.step literal: 2 → (2 - 1) in index(2)":
      "table_test.ts finds it, with ops that its time leaves out",
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
    "NativeBackend.setShareAll condition: on ? 1 : 0 → (0)":
      "only how work is shared between threads changes",
    'CROSSOVER literal: 48 → (48 - 1) in "Deno" in globalThis ? 64 : 48': "only Bun takes this way",
    "NativeBackend.get threads literal: 1 → (1 + 1) in -1": "any negative number asks",
    "NativeBackend.#kernelOf logic: KERNELS.get(op.name) ?? null → (KERNELS.get(op.name))":
      "undefined means the same as null",
    "NativeBackend.#runAxes comparison: number < 0 → number <= 0":
      "the definition in JavaScript gives what one kernel gives",
  },
};
