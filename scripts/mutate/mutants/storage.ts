/**
 * Mutants of memory and ownership: escape, slabs, reuse, copy on write, moves.
 *
 * @module
 */
import { edits, type Mutant } from "./core.ts";

const CREATE = edits("storage", "src/tensor/create.ts", ["feature_creation"], {
  "zeros: old values, where they are many": [
    "  if (!zero || pooled !== undefined) fillScalar(",
    "  if (!zero) fillScalar(",
  ],
});

const STORAGE = edits(
  "storage",
  "src/memory/storage.ts",
  ["feature_ownership", "memory", "mutation_gaps", "feature_creation"],
  {
    "escape: stays on the slab": ["    if (this.onSlab) {\n", "    if (false) {\n"],
    "escape: without its values": ["      own.set(this.array as never);\n", ""],
    "escape: not remembered": ["    this.escaped = true;\n  }\n\n", "  }\n\n"],
    "escape: old words": ["      this.#words = null;\n", ""],
    "words: from the begin of the slab": [
      "      this.array.byteOffset,\n      this.array.byteLength >> 2,",
      "      0,\n      this.array.byteLength >> 2,",
    ],
    "shared: never": ["this.array.buffer instanceof SharedArrayBuffer;", "false;"],
    "disposed: goes on": ["if (storage === GONE) {", "if (false) {"],
    "slab: small arrays too near": ["slabUsed += (bytes + 15) & ~15;", "slabUsed += bytes - 1;"],
    "slab: no steps of 16": ["slabUsed += (bytes + 15) & ~15;", "slabUsed += bytes;"],
    "slab: never a new one": [
      "if (slabUsed + bytes > slab.byteLength) {",
      "if (slab.byteLength === 0) {",
    ],
    "slab: used from the middle": ["    slabUsed = 0;\n", ""],
    "reuse: old values for zeros": [
      "if (zeroed) pooled.array.fill((info.wide ? 0n : 0) as never);",
      "",
    ],
    "reuse: of another dtype": [
      "const bin = binOf(length * 16 + info.id);",
      "const bin = binOf(length * 16 + (info.id === 3 ? 12 : info.id));",
    ],
    "reuse: never": [
      "if (known === undefined) pool.set(key, lastBin = bin);",
      "",
    ],
    "reuse: as one that was handed out": ["  storage.escaped = false;\n", ""],
    "reuse: what was looked up before": ["if (key !== lastKey) {", "if (lastKey === -1) {"],
    "recycle: bytes that were handed out": ["  if (storage.escaped) return;\n", ""],
    "recycle: twice": [
      "  // Not to be given back twice.\n  storage.escaped = true;\n",
      "",
    ],
    "recycle: without limit": [
      "  if (pooledBytes > POOL_LIMIT_BYTES || pool.size > MOST_BINS) makeRoom();\n",
      "",
    ],
    "memory: not counted": ["  liveBytes += bytes;\n", ""],
    "memory: peak": ["  peakBytes = Math.max(peakBytes, bytesInUse());\n", ""],
    "memory: pool emptied in name only": ["  pool.clear();\n", ""],
    "memory: no room": [
      '  } catch {\n    throw new OutOfMemoryError(bytes, "cpu");\n  }\n}\n\nfunction bytesInUse',
      "  } catch (error) {\n    throw error;\n  }\n}\n\nfunction bytesInUse",
    ],
    "adopted memory is recycled": [
      "return new Storage(array, DTYPE[dtype], true, false);",
      "return new Storage(array, DTYPE[dtype], false, false);",
    ],
  },
);

const OWNERSHIP = edits("storage", "src/tensor/tensor.ts", [
  "feature_ownership",
  "memory",
  "mutation_gaps",
], {
  "data: of a strided tensor": [
    "    if (!this.layout.contiguous) {\n      throw new ShapeError(\n        `Cannot data",
    "    if (false) {\n      throw new ShapeError(\n        `Cannot data",
  ],
  "data: read-only": ['    prepareWrite(this, "data");\n', ""],
  "data: bytes not marked": [
    '"data");\n    const { storage, layout } = this;\n    storage.escape();\n',
    '"data");\n    const { storage, layout } = this;\n',
  ],
  "data: offset": [
    "return asUserArray(storage.array, storage.info, layout.offset, layout.size)",
    "return asUserArray(storage.array, storage.info, 0, layout.size)",
  ],
  "intoTypedArray: moved while others look": [
    "if (!layout.contiguous || !ownsAlone(this)) {",
    "if (!layout.contiguous) {",
  ],
  "intoTypedArray: never moved": ["if (!layout.contiguous || !ownsAlone(this)) {", "{"],
  "into: read-only moved": [
    "storage.handles === 1 && !(flags & READ_ONLY) &&",
    "storage.handles === 1 &&",
  ],
  "intoRaw: moved while others look": ["    if (!ownsAlone(this)) {", "    if (false) {"],
  "scope: kept results": [": !keep.has(one)) one.dispose();", ": true) one.dispose();"],
  "scope: a kept result": ["keep === null ? one !== kept :", "keep === null ? true :"],
  "scope: nothing is disposed": [
    "if (keep === null ? one !== kept : !keep.has(one)) one.dispose();\n      else if",
    "if",
  ],
  "scope: not closed": ["    scoped = outer;\n", ""],
  "dispose: memory kept": ["    if (storage.handles === 0) recycle(storage);\n", ""],
  "dispose: memory of others recycled": [
    "if (storage.handles === 0) recycle(storage);",
    "recycle(storage);",
  ],
  "item: first of many": ["    if (this.layout.size !== 1) {", "    if (false) {"],
  "item: offset": [
    "return toValue(this.storage, this.layout.offset, options?.bigint",
    "return toValue(this.storage, 0, options?.bigint",
  ],
});

const HANDLES = edits(
  "storage",
  "src/tensor/tensor.ts",
  ["feature_ownership", "memory", "mutation_gaps"],
  {
    "view: loses read-only": ["x.flags | VIEW) as AnyTensor;", "VIEW) as AnyTensor;"],
    "readonly: writable": ["    view.flags |= READ_ONLY;\n", ""],
    "cow: writes through": [
      "new Tensor(cowOf(this.storage, low, high), this.layout)",
      "new Tensor(this.storage, this.layout)",
    ],
    "release: still counted": ["  x.storage.handles--;\n", ""],
    "release: still usable": ["  x.storage = GONE;\n", ""],
    "intoOwned: moves views": ["if (flags & VIEW || storage.borrows) {", "if (storage.borrows) {"],
    "intoOwned: moves copy-on-write": [
      "if (flags & VIEW || storage.borrows) {",
      "if (flags & VIEW) {",
    ],
    "intoOwned: shared with others": [
      "if (storage.shared && storage.handles > 1) {",
      "if (false) {",
    ],
    "intoOwned: source stays": [
      "    const made = copy();\n    x.dispose();\n",
      "    const made = copy();\n",
    ],
    "intoOwnedKeepLayout: compact": [
      "() => new Tensor(wholeCopy(this.storage), this.layout),",
      "() => contiguousCopy(this) as never,",
    ],
    "whole copy: the same memory": [
      "const copy = allocateIn(memory, info, length, false);",
      "const copy = storage;",
    ],
    "intoShared: shared again": [
      "storage.shared && !(x.flags & READ_ONLY) && sameShape",
      "false && sameShape",
    ],
    "intoShared: read-only moved": [
      "storage.shared && !(x.flags & READ_ONLY) && sameShape",
      "storage.shared && sameShape",
    ],
    "intoShared: not filled": ["  } else fill(shared, layout, x);\n", "  }\n"],
  },
);

const COWS = edits(
  "storage",
  "src/memory/snapshot.ts",
  ["feature_ownership", "memory", "mutation_gaps"],
  {
    "cow: not counted by what it looks at": [
      "    storage.handles++;\n  }\n\n  /** One more",
      "  }\n\n  /** One more",
    ],
    "cow: left for good": ["    if (storage.cows === this) storage.cows = null;\n", ""],
    "cow: still counted after its end": ["if (--storage.handles === 0) recycle(storage);", ""],
    "cow: forgets the others too": ["    if (--this.users > 0) return;\n", "    this.users--;\n"],
    "cow: its copy not counted": ["    this.storage.handles++;\n", ""],
    "cow: still watched after a copy": [
      "    storage.cows = null;\n    storage.handles--;",
      "    storage.handles--;",
    ],
    "cow: still counted after a copy": ["    storage.handles--;\n", ""],
    "cow: what others reach left out": [
      "    this.#low = Math.min(this.#low, low);\n",
      "    this.#low = low;\n",
    ],
    "cow: what others reach left out, at the end": [
      "    this.#high = Math.max(this.#high, high);\n",
      "    this.#high = high;\n",
    ],
    "cow: copy at another place": [
      "copyElements(copy, low, storage, low, high + 1 - low);",
      "copyElements(copy, 0, storage, low, high + 1 - low);",
    ],
    "cow: part of the copy left out": [
      "copyElements(copy, low, storage, low, high + 1 - low);",
      "copyElements(copy, low, storage, low, high - low);",
    ],
    "cow: of the others not told": [
      "snapshot.users > 1 ? snapshot : snapshot.storage.cows",
      "snapshot.storage.cows",
    ],
    "cow: its own not told": ["snapshot.users > 1 ? snapshot : snapshot.storage.cows", "snapshot"],
    "cow: writes what others look at": [
      "    if (!this.borrows) return this.base.settle();\n",
      "    if (!this.borrows) return;\n",
    ],
    "cow: never copied": [
      "if (base.handles === 1 && snapshot.users === 1) {",
      "if (base !== null) {",
    ],
    "cow: copied when nobody else is left": [
      "if (base.handles === 1 && snapshot.users === 1) {",
      "if (base === null) {",
    ],
    "cow: written where others hold it": [
      "if (base.handles === 1 && snapshot.users === 1) {",
      "if (snapshot.users === 1) {",
    ],
    "cow: written where others look at it": [
      "if (base.handles === 1 && snapshot.users === 1) {",
      "if (base.handles === 1) {",
    ],
    "cow: taken over, and still one": ["      base.cows = null;\n", ""],
    "cow: in two places": [
      "    snapshot.leave();\n  }\n\n  override free",
      "  }\n\n  override free",
    ],
    "cow: memory kept": [
      "  override free(): void {\n    this.#snapshot.leave();\n",
      "  override free(): void {\n",
    ],
  },
);

/** Faults of storages and handles. */
export const STORAGES: readonly Mutant[] = [
  ...CREATE,
  ...STORAGE,
  ...OWNERSHIP,
  ...HANDLES,
  ...COWS,
];
