/**
 * Faults of what tensors on other devices need: names, storages, moves, reads.
 *
 * Left out is a sleep between parts of a read, which costs nothing but time.
 *
 * @module
 */
import { edits, type Mutant } from "./core.ts";

const NAMES = edits("device", "src/core/backend.ts", ["device"], {
  "name of the first": ['return String(device).replace(/:0$/, "");', "return String(device);"],
  "opened twice": ["  if (known !== undefined) return known;\n", ""],
  "number": ["const opened = open(Number(index));", "const opened = open(0);"],
  "memory of the CPU": ["deviceOf(device, what)?.memory ?? null;", "null;"],
});

const STORAGES = edits("device", "src/memory/storage.ts", ["device", "cuda_memory"], {
  "array: nothing": [
    "      get(this: DeviceStorage): never {\n        throw new",
    "      get(this: DeviceStorage): unknown {\n        return new",
  ],
  "zeros": ["    if (zeroed) memory.zero(this.#address, bytes);\n", ""],
  "nothing is allocated": [
    "this.#address = bytes === 0 ? 0 : memory",
    "this.#address = memory",
  ],
  "lost memory": ["    lost.register(this, { memory, address: this.#address }, this);\n", ""],
  "freed twice": ["    this.escaped = true;\n    if (this.#length", "    if (this.#length"],
  "freed and lost": ["    lost.unregister(this);\n", ""],
  "never freed": ["return storage.free();", "return;"],
  "shared": [
    "  override get shared(): boolean {\n    return false;",
    "  override get shared(): boolean {\n    return true;",
  ],
  "download: from the begin": [
    "memory.read(address + from * info.bytes,",
    "memory.read(address,",
  ],
  "later: from the begin": [
    "memory.readLater(address + from * info.bytes,",
    "memory.readLater(address,",
  ],
  "upload: to the begin": ["memory.write(address + from * info.bytes,", "memory.write(address,"],
  "copy: to the begin": ["target.address + to * bytes,", "target.address,"],
  "copy: from the begin": ["source.address + from * bytes,", "source.address,"],
  "copy: by the CPU": ["familyOf(memory) !== familyOf(other)", "memory !== other"],
  "sent: stays": [
    "  if (memory === null) return storage;\n  const made",
    "  return storage;\n  const made",
  ],
});

const MEMORY = edits("device", "src/backend/cuda/memory.ts", ["cuda_memory"], {
  "read: faults": ["bytes.length);\n    this.#cuda.checkFaults();", "bytes.length);"],
  "later: faults": ["    cuda.judge(faults, indexings);\n", ""],
  "wait: faults": [
    "    this.#cuda.synchronize();\n    this.#cuda.checkFaults();",
    "    this.#cuda.synchronize();",
  ],
  "wait: not at all": ["    this.#cuda.synchronize();\n", ""],
  "always asks": ["waited < EAGER_MS;", "waited < 1e9;"],
  "ended": ["if (came === CUDA_READ.ended) return;", "return;"],
  "usage": ["bytes: inUse! + kept!,", "bytes: inUse!,"],
});

const CALLS = edits("device", "src/backend/cuda/device.ts", ["cuda_memory"], {
  "out of memory": ["if (status === STATUS.outOfMemory)", "if (false)"],
  "other errors": ['    this.check("rm_cuda_memory", status);\n', ""],
  "faults: judged too early": ["Math.max(this.#judged, indexings)", "this.#indexed"],
});

const OPS = edits("device", "src/core/dispatch.ts", ["device"], {
  "dense: where it is": [
    "if (dense && storage.memory === memory) return source;",
    "if (dense) return source;",
  ],
  "dense: offset": ["whole.storage, whole.layout.offset, size);", "whole.storage, 0, size);"],
  "dense: packed copy kept": ["  recycleCopy(whole, source);\n", ""],
  "dense: copy kept": ["    recycleCopy(copy, x);\n", ""],
  "here by any name": [" || storage.device === deviceName(device)", ""],
});

const TENSORS = edits("device", "src/tensor/tensor.ts", ["device"], {
  "data of a device": [
    '    checkOnCpu(this as never, "data", "toTypedArray() and read() copy its elements");\n',
    "",
  ],
  "shared by workers": [
    '  checkOnCpu(x, op, "workers share memory of the CPU; move it with cpu()");\n',
    "",
  ],
  "into a copy: kept": [
    "      this.dispose();\n      return copy;",
    "      release(this);\n      return copy;",
  ],
  "into raw: kept": [
    "this.dispose();\n      return asUserArray(copy",
    "release(this);\n      return asUserArray(copy",
  ],
  "read: offset": [
    "downloadLater(storage, layout.offset, size)",
    "downloadLater(storage, 0, size)",
  ],
});

const FORMAT = edits("device", "src/tensor/format.ts", ["device"], {
  "all is read": ["onCpu(shownPart(x, axes), visitAll)", "onCpu(x, visitAll)"],
  "shown: tail": ["[layout.shape[axis] - tail, tail]", "[head, tail]"],
});

/** Parts of the tests that run on a CUDA device. */
const ALONE = ["cuda_programs:on CUDA: graphs", "cuda_programs:on CUDA: memory"];
const LINEAR = ["cuda_programs:on CUDA: linear"];

const GRAPHS = [
  ...edits("device", "src/backend/cuda/graphs.ts", ALONE, {
    "what is used is not held": ["    if (!own) storage.handles++;\n", ""],
    "what is made is not held": ["if (own) storage.handles++;", ""],
    "what a copy on write looks at is not held": ["this.#use(input.base);", "this.#use(input);"],
    "never let go of": ["if (--storage.handles === 0)", "if (--storage.handles === -1)"],
    "faults of a run": ["    if (this.indexes) device.nextIndexing();\n", ""],
  }),
  ...edits("device", "src/device/devices.ts", ALONE, {
    "run: copies on write": ["      storage.settle();\n", ""],
    "capture: async": ["given instanceof Promise", "false"],
  }),
  ...edits("device", "src/device/devices.ts", ["device"], {
    "warm up: unknown": ["if (made === undefined)", "if (false)"],
    "warm up: one row for a name": ["...WARM.get(op) ?? [], name", "name"],
    "warm up: rows only": ["WARM.set(op, names)", "WARM.set(op, WARM.get(op) ?? names)"],
  }),
  ...edits("device", "src/backend/cuda/memory.ts", ALONE, {
    "recorded: taken": ["    this.#cuda.notes?.take(address);\n", ""],
    "recorded: copies": ["    this.#cuda.notes?.add(out, input);\n", ""],
    "recorded: another device": ["source !== this && (recording || this.recording)", "false"],
  }),
  ...edits("device", "src/core/dispatch.ts", ALONE, {
    "write: recorded copies": ["if (storage.memory?.recording)", "if (false)"],
  }),
  ...edits("device", "src/backend/cuda/matmul.ts", LINEAR, {
    "bias: where": ["bias.address + offset * info.bytes", "bias.address"],
    "TF32": ["tf32 ? TF32 : 0", "0"],
  }),
  ...edits("device", "src/tensor/linalg.ts", LINEAR, {
    "bias twice": ["if (ready ? multiply() : tidily(multiply)) plus = undefined;", "multiply();"],
    "bias: views pass": ["added.layout.contiguous ? added : contiguousCopy(added)", "added"],
    "bias: overlaps": [" && (bias === undefined || !overlaps(out, bias))", ""],
  }),
];

/** What is made on the way and not given back. */
const LEAVINGS = [
  ...edits("device", "src/core/dispatch.ts", ["leavings"], {
    "leavings: out of reductions": [
      "  recycle(storage);\n  out.storage.version++;",
      "  out.storage.version++;",
    ],
    "leavings: first operand": ["  recycleCopy(x, a);\n", ""],
    "leavings: operands of three": [
      "    if (!isScalar(arg) && storages[k] !== arg.storage) recycle(storages[k]!);\n",
      "",
    ],
    "leavings: casts of reductions": [
      "return tidily(() =>\n        applyReduce(",
      "return (<R>(f: () => R): R => f())(() =>\n        applyReduce(",
    ],
  }),
  ...edits("device", "src/tensor/indexing.ts", ["leavings"], {
    "leavings: indexes": ["    if (what.own) recycle(what.picks.indexes);\n", ""],
    "leavings: values": ["    if (source !== given) recycle(storage);\n", ""],
    "leavings: indexes of others are given back": ["if (what.own) recycle", "recycle"],
  }),
  ...edits("device", "src/tensor/composites.ts", ["leavings"], {
    "leavings: rows of no kernel": ["      recycle(made);\n", ""],
  }),
];

const OTHERS = [
  ...edits("device", "src/device/devices.ts", ["device"], {
    "no wait": ["?.synchronize();", ";"],
    "pool of the CPU": [
      "  if (found === null) emptyCpuPool();\n  else found.release();",
      "  emptyCpuPool();",
    ],
  }),
  ...edits("device", "src/tensor/indexing.ts", ["device"], {
    "indexes stay": ["result(sendTo(like.memory, storage)", "result(sendTo(null, storage)"],
  }),
  ...edits("device", "src/io/mod.ts", ["device"], {
    "written from the CPU alone": [
      "denseIn(null, tensor);",
      "denseIn(tensor.storage.memory, tensor);",
    ],
  }),
];

/** Faults of tensors on devices. */
export const DEVICES: readonly Mutant[] = [
  ...NAMES,
  ...STORAGES,
  ...CALLS,
  ...MEMORY,
  ...OPS,
  ...TENSORS,
  ...FORMAT,
  ...GRAPHS,
  ...LEAVINGS,
  ...OTHERS,
];
