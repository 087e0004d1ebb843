/**
 * Mutants of memory and ownership: escape, slabs, reuse, copy on write, moves.
 *
 * @module
 */
import { edits, type Mutant } from "./core.ts";

const CREATE = edits("storage", "src/create.ts", ["feature_creation"], {
  "zeros: old values, where they are many": [
    "  if (!zero || pooled !== undefined) fillScalar(",
    "  if (!zero) fillScalar(",
  ],
});

const STORAGE = edits(
  "storage",
  "src/storage.ts",
  ["feature_ownership", "memory", "mutation_gaps", "feature_creation"],
  {
    "escape: stays on the slab": ["    if (this.onSlab) {\n", "    if (false) {\n"],
    "escape: without its values": ["      own.set(this.array as never);\n", ""],
    "escape: not remembered": ["    this.escaped = true;\n  }\n}", "  }\n}"],
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
      "binOf(length * 16 + info.id)?.pop()",
      "binOf(length * 16 + (info.id === 3 ? 12 : info.id))?.pop()",
    ],
    "reuse: never": [
      "if (bin === undefined) pool.set(key, lastBin = bin = []);",
      "if (bin === undefined) bin = [];",
    ],
    "reuse: as one that was handed out": ["  storage.escaped = false;\n", ""],
    "reuse: what was looked up before": ["if (key !== lastKey) {", "if (lastKey === -1) {"],
    "recycle: bytes that were handed out": ["  if (storage.escaped) return;\n", ""],
    "recycle: twice": [
      "  // Not to be given back twice.\n  storage.escaped = true;\n",
      "",
    ],
    "recycle: without limit": [" || pooledBytes + bytes > POOL_LIMIT_BYTES", ""],
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

const OWNERSHIP = edits("storage", "src/tensor.ts", [
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
    "    this.storage.escape();\n    return userArray(this.storage, this.layout",
    "    return userArray(this.storage, this.layout",
  ],
  "data: offset": [
    "return userArray(this.storage, this.layout.offset, this.layout.size)",
    "return userArray(this.storage, 0, this.layout.size)",
  ],
  "intoTypedArray: moved while others look": [
    "const movable = layout.contiguous && storage.handles === 1 &&",
    "const movable = layout.contiguous &&",
  ],
  "intoTypedArray: never moved": [
    "const movable = layout.contiguous && storage.handles === 1 &&",
    "const movable = false &&",
  ],
  "intoTypedArray: read-only moved": [
    "const movable = layout.contiguous && storage.handles === 1 &&\n      !(this.flags & (READ_ONLY | COW)) &&",
    "const movable = layout.contiguous && storage.handles === 1 &&",
  ],
  "intoRaw: moved while others look": ["const alone = storage.handles === 1 &&", "const alone ="],
  "scope: kept results": ["if (!keep.has(one)) one.dispose();", "if (one !== null) one.dispose();"],
  "scope: nothing is disposed": ["if (!keep.has(one)) one.dispose();\n      else if", "if"],
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
  "src/tensor.ts",
  ["feature_ownership", "memory", "mutation_gaps"],
  {
    "view: loses read-only": ["x.flags | VIEW) as AnyTensor;", "VIEW) as AnyTensor;"],
    "view: of copy-on-write not told": ["  if (x.flags & COW) groups.get(x)!.add(view);\n", ""],
    "readonly: writable": ["    view.flags |= READ_ONLY;\n", ""],
    "cow: sees later writes": ["    new Snapshot(this.storage).add(cow as never);\n", ""],
    "cow: writes through": [
      "new Tensor(this.storage, this.layout, COW);",
      "new Tensor(this.storage, this.layout);",
    ],
    "cow: copies twice": ["      x.flags &= ~COW;\n", ""],
    "cow: views of it part": [
      "copy = before.handles === held.length ? before : copyOf(before, held);\n    for (const x of held) {",
      "copy = copyOf(before, held);\n    for (const x of held.slice(0, 1)) {",
    ],
    "cow: still counted after its copy": ["      before.handles--;\n", ""],
    "cow: copy at another place": [
      "copyElements(copy, low, storage, low, high + 1 - low);",
      "copyElements(copy, 0, storage, low, high + 1 - low);",
    ],
    "cow: part of the copy left out": [
      "copyElements(copy, low, storage, low, high + 1 - low);",
      "copyElements(copy, low, storage, low, high - low);",
    ],
    "cow: never copied": [
      "before.handles === held.length ? before : copyOf(before, held)",
      "before",
    ],
    "cow: copied when nobody else is left": [
      "before.handles === held.length ? before : copyOf(before, held)",
      "copyOf(before, held)",
    ],
    "cow: still watched after its end": ["  if (x.flags & COW) groups.get(x)?.remove(x);\n", ""],
    "cow: forgets the others too": ["if (held === undefined || held === x) this", "this"],
    "cow: left for good": [
      "if (cows?.delete(this) && cows.size === 0) this.#storage.cows = null;",
      "",
    ],
    "cow: copy not counted": ["      copy.handles++;\n", ""],
    "release: still counted": ["  x.storage.handles--;\n", ""],
    "release: still usable": ["  x.storage = GONE;\n", ""],
    "intoOwned: moves views": ["if (flags & (VIEW | COW)) {", "if (flags & COW) {"],
    "intoOwned: moves copy-on-write": ["if (flags & (VIEW | COW)) {", "if (flags & VIEW) {"],
    "intoOwned: shared with others": [
      "if (storage.shared && storage.handles > 1) {",
      "if (false) {",
    ],
    "intoOwned: source stays": [
      "    const made = copy();\n    release(x);\n",
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
      "storage.shared && !(x.flags & (READ_ONLY | COW)) && sameShape",
      "false && sameShape",
    ],
    "intoShared: read-only moved": [
      "storage.shared && !(x.flags & (READ_ONLY | COW)) && sameShape",
      "storage.shared && sameShape",
    ],
    "intoShared: not filled": ["  } else fill(shared, layout, x);\n", "  }\n"],
  },
);

/** Faults of storages and handles. */
export const STORAGES: readonly Mutant[] = [...CREATE, ...STORAGE, ...OWNERSHIP, ...HANDLES];
