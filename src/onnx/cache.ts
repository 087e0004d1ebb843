/**
 * Caches of models: a file that keeps the graph as {@link optimize} leaves it, and the weights as programs
 * pack them, so that the next open reads neither the graph of the ONNX file nor the weights.
 *
 * The file has a head, a value of JSON with a checksum, and the elements of tensors, each at a multiple of
 * 64 bytes. It counts only for the same contents of the model, the same version of the library, and the
 * same backend and instruction set. All sizes and places are checked; elements are as far as those of the
 * model: a byte that has changed there changes a weight.
 *
 * @module
 */
import { abiHash, CONFIGURE } from "../backend/ffi/abi.ts";
import { host } from "../backend/ffi/runtime.ts";
import type { Identity } from "../backend/ffi/host.ts";
import type { MappedFile } from "../backend/ffi/files.ts";
import { kernelSource } from "../backend/cpu.ts";
import { DTYPE, type DType } from "../base/dtype.ts";
import { ArgumentError, FormatError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { MAX_RANK, sizeOf } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { VERSION } from "../base/version.ts";
import { type Computation, type ConstantStore, keepConstantsIn } from "../compile/constants.ts";
import { cpuBackendName, infer, performCall } from "../core/dispatch.ts";
import { wrap } from "../core/handles.ts";
import type { Interpreter } from "../core/interpreter.ts";
import { checkBools, decodeUtf8 } from "../io/bytes.ts";
import { bytesIn, storageIn } from "../io/mapped.ts";
import { type FileBytes, openBytes, type Read, readerOf } from "../io/source.ts";
import { copiedStorage, hasCopy, isFixed } from "../memory/lazy.ts";
import { isOperand } from "../memory/operand.ts";
import { allocate, letGo } from "../memory/pool.ts";
import { cowOf } from "../memory/snapshot.ts";
import type { Storage } from "../memory/storage.ts";
import { isQuantized } from "../ops/quantized/dtypes.ts";
import type { Call, Input } from "../table/op.ts";
import { Decoder, Encoder, type Json } from "./graph/coding.ts";
import type { Graph } from "./graph/graph.ts";
import { elementsAt, type ExternalFile, LARGE_BYTES, type Origin } from "./graph/initializers.ts";
import type { T } from "./graph/values.ts";
import { sourceOf } from "./halves.ts";

/** What changes with the contents of the file, the passes of {@link optimize} and the layouts of weights. */
const FORMAT = 3;
const MAGIC = "ROWMAJOR ONNX\n\n\n";
/** The magic, the bytes of the head as 16 digits, and the SHA-256 of the head. */
const PREFIX_BYTES = 96;
const MOST_HEAD = 1 << 28;
const [LINE, PAGE] = [64, 4096];
/** Tensors with fewer bytes are copied: a view of the file takes more memory. */
const LEAST_VIEW = 4096;
/** Operands with more bytes that are of no file are not told apart. */
const MOST_CONTENT = 1 << 16;
/** The bytes of files that are hashed and written at once. */
const PIECE = 1 << 26;
/** The most times that a model writes its file: programs for other shapes pack other weights. */
const MOST_WRITES = 8;
/** Files that changed so many milliseconds ago may change again within the precision of their times. */
const RECENT = 2000;

const aligned = (at: number, to: number): number => Math.ceil(at / to) * to;

/** A file of a model: itself, or one with external data. */
export interface ModelFile {
  /** The name in the model; empty for the model itself. */
  readonly name: string;
  readonly contents: ExternalFile;
  /** What it is on disk; undefined for bytes of the caller. */
  readonly identity: Identity | undefined;
}

/** Opens the files of a model, of which these have external data; by name. */
export type FilesOf = (externals: Iterable<string>) => Promise<ReadonlyMap<string, ModelFile>>;

/** What an open needs of a model that is not the tensors. */
export interface CachedModel {
  readonly opsets: ReadonlyMap<string, number>;
  readonly metadata: ReadonlyMap<string, string>;
  readonly ops: ReadonlyMap<string, number>;
  readonly graph: Graph;
}

/** Where the elements of a storage are. */
interface Row {
  readonly dtype: DType;
  /** The place of the file among those of the model; -1 for this file. */
  file: number;
  /** The first byte there. */
  begin: number;
  readonly length: number;
  /** Elements that are not in the file yet. */
  data?: Storage | undefined;
  /** The storage of elements of the model's files. */
  readonly lazy?: Storage;
}

/** The kernels that run, whose results a file is of. */
function kernels(winograd: boolean): string {
  const level = kernelSource()?.shim.rm_configure(CONFIGURE.level, -1) ?? 0;
  const own = `${host.platform} ${host.arch} ${cpuBackendName()} ${level}`;
  return winograd ? own : `${own} without Winograd`;
}

const library = (): string => `${VERSION} ${FORMAT} ${abiHash()}`;

/** The pieces of a file. */
function* piecesOf({ contents: { size, read } }: ModelFile): Generator<Uint8Array<ArrayBuffer>> {
  for (let at = 0; at < size; at += PIECE) {
    const bytes = new Uint8Array(Math.min(PIECE, size - at));
    read(at, bytes);
    yield bytes;
  }
}

/** The SHA-256 of the pieces of a file. */
async function digestLater(file: ModelFile): Promise<string> {
  const parts: string[] = [];
  for (const piece of piecesOf(file)) parts.push(await host.sha256Later(piece));
  return parts.join();
}

/** {@link digestLater} at once. */
function digestNow(file: ModelFile): string {
  return Array.from(piecesOf(file), (piece) => host.sha256(piece)).join();
}

/** What shows that a file on disk is as it was when it was hashed; null if it is too new to tell. */
function stampOf({ identity }: ModelFile): Json {
  if (identity === undefined) return null;
  const { ino, mtimeMs, ctimeMs } = identity;
  const latest = Math.max(mtimeMs ?? NaN, ctimeMs ?? NaN);
  if (ino === undefined || !(Date.now() - latest > RECENT)) return null;
  // Deno gives the seconds of the second one alone.
  return [ino, Math.floor(mtimeMs!), Math.floor(ctimeMs! / 1000)];
}

/** A value of attributes as text; undefined for what is no plain value. */
function plain(x: unknown): string | undefined {
  if (typeof x === "object" && x !== null) {
    const isList = Array.isArray(x);
    if (!isList && Object.getPrototypeOf(x) !== Object.prototype) return undefined;
    const parts = Object.entries(x).map(([key, value]) => {
      const text = plain(value);
      return text === undefined ? undefined : `${JSON.stringify(key)}:${text}`;
    });
    return parts.includes(undefined) ? undefined : isList ? `[${parts}]` : `{${parts}}`;
  }
  if (typeof x === "function" || typeof x === "symbol") return undefined;
  if (typeof x === "string") return JSON.stringify(x);
  return Object.is(x, -0) ? "-0" : `${x}${typeof x === "bigint" ? "n" : ""}`;
}

/** A hash of bytes, to tell operands of one model apart. */
function hashOf(bytes: Uint8Array): string {
  let [a, b, c, d] = [0x9e3779b9, 0x85ebca6b, 0xc2b2ae35, 0x27d4eb2f];
  for (const byte of bytes) {
    a = Math.imul(a ^ byte, 0x01000193);
    b = Math.imul(b ^ byte ^ a >>> 15, 0x85ebca6b);
    c = Math.imul(c + byte ^ b >>> 13, 0xc2b2ae35);
    d = Math.imul(d ^ c >>> 16, 0x9e3779b1) + byte | 0;
  }
  return [bytes.length, a, b, c, d].map((one) => (one >>> 0).toString(16)).join("-");
}

/** Another kind of file is at the path of a cache. */
class ForeignError extends Error {
  constructor(override readonly cause: FormatError) {
    super("foreign");
  }
}

/** The bytes of a file: mapped, or read on request. */
class Contents {
  readonly path: string;
  readonly size: number;
  readonly #mapped: MappedFile | undefined;
  readonly #read: Read;

  constructor(source: FileBytes) {
    const { path, mapped, identity } = source;
    this.path = String(path);
    this.size = identity.size;
    this.#mapped = "reason" in mapped ? undefined : mapped;
    this.#read = readerOf(source);
  }

  bytes(begin: number, end: number): Uint8Array {
    if (end > this.size || begin > end) throw new FormatError("the file ends", this.path, begin);
    if (this.#mapped !== undefined) return bytesIn(this.#mapped, begin, end, this.path);
    const bytes = new Uint8Array(end - begin);
    this.#read(begin, bytes);
    return bytes;
  }

  /** A storage on elements; small ones are copied. */
  storage(dtype: DType, begin: number, length: number): Storage {
    const info = DTYPE[dtype];
    const end = begin + length * info.bytes;
    if (end > this.size) throw new FormatError("the file ends", this.path, begin);
    if (end - begin < LEAST_VIEW || dtype === "bool") {
      const storage = allocate(dtype, length, false);
      const { buffer, byteOffset, byteLength } = storage.array;
      if (byteLength !== end - begin) throw new FormatError(`no ${dtype}`, this.path, begin);
      const own = new Uint8Array(buffer, byteOffset, byteLength);
      own.set(this.bytes(begin, end));
      if (dtype === "bool") checkBools(own, this.path, begin);
      return storage;
    }
    if (this.#mapped !== undefined) return storageIn(dtype, this.#mapped, begin, end, this.path);
    return copiedStorage(info, length, (into) => this.#read(begin, into));
  }
}

/** The cache of a model. */
export class ModelCache implements ConstantStore, Interpreter {
  readonly path: string;
  readonly #winograd: boolean;
  readonly #kernels: string;
  /** The model's files. */
  readonly #files: readonly ModelFile[];
  readonly #rows: Row[] = [];
  /** The rows of storages, and their storages. */
  readonly #ids = new WeakMap<Storage, number>();
  readonly #storages: (Storage | undefined)[] = [];
  /** What programs have computed, by what it was computed of. */
  readonly #made = new Map<string, readonly number[]>();
  /** Storages that it holds a handle of. */
  #held: Storage[] = [];
  /** Whether it takes and gives constants no more. */
  #isOff = false;
  #model: Json = null;
  #contents: Contents | undefined;
  /** Whether the file lacks something. */
  #isNew = true;
  #writes = 0;

  /** The cache of a model that is read from its own files, for {@link ModelCache.note}. */
  constructor(path: string, files: readonly ModelFile[], winograd: boolean) {
    this.path = path;
    this.#files = files;
    this.#winograd = winograd;
    this.#kernels = kernels(winograd);
  }

  /**
   * Opens the cache of a model; `model` is undefined if the file is not there, or is of another model,
   * library or machine.
   *
   * @throws {FormatError} If another kind of file is there.
   * @throws {ArgumentError} If this program may not write the file that has to be made.
   */
  static async open(
    path: string,
    model: string,
    filesOf: FilesOf,
    winograd: boolean,
  ): Promise<{ cache: ModelCache; model: CachedModel } | undefined> {
    const found = host.look(path);
    if (found === undefined) return undefined;
    let source: FileBytes;
    try {
      if (host.identity(path) === undefined && found.kind !== "file") {
        // The file would take the place of a device, or of a link.
        throw new FormatError("it is no regular file: a cache of a model is one", path, 0);
      }
      source = await openBytes(path, {});
    } catch (error) {
      // Another process may have removed it.
      if (host.look(path) === undefined) return undefined;
      throw error;
    }
    try {
      return await ModelCache.#read(new Contents(source), model, filesOf, winograd);
    } catch (error) {
      if (error instanceof ForeignError) throw error.cause;
      // Whatever is wrong with it, the model has all that it is made of.
      return undefined;
    }
  }

  /** Throws an ArgumentError if this program may not write a file. */
  static checkWritable(path: string, model: string): void {
    const folder = path.replace(/[\\/][^\\/]*$/, "") || "/";
    const own = folder === path ? "." : folder;
    if (host.may("write", own)) return;
    throw new ArgumentError(
      `Cannot open ${model} with cache ${
        describe(path)
      }: the file is to be made, and this program ` +
        `may not write in its folder: use --allow-write=${own}`,
    );
  }

  static async #read(
    contents: Contents,
    model: string,
    filesOf: FilesOf,
    winograd: boolean,
  ): Promise<{ cache: ModelCache; model: CachedModel } | undefined> {
    const { path, size } = contents;
    const prefix = String.fromCharCode(...contents.bytes(0, Math.min(size, PREFIX_BYTES)));
    // One that was cut is of the library still.
    if (!prefix.startsWith(MAGIC.slice(0, size))) {
      const error = new FormatError("the file is no cache of a model: remove it", path, 0);
      throw new ForeignError(error);
    }
    const headBytes = Number(prefix.slice(16, 32));
    if (!Number.isInteger(headBytes) || headBytes > Math.min(MOST_HEAD, size - PREFIX_BYTES)) {
      return undefined;
    }
    const bytes = contents.bytes(PREFIX_BYTES, PREFIX_BYTES + headBytes).slice();
    if (await host.sha256Later(bytes) !== prefix.slice(32)) return undefined;
    const decoder: Decoder = new Decoder(path, model, (place) => cache.#tensorAt(decoder, place));
    const head = decoder.object(JSON.parse(decodeUtf8(bytes)!));
    const start = aligned(PREFIX_BYTES + headBytes, PAGE);
    if (head["library"] !== library() || head["kernels"] !== kernels(winograd)) return undefined;
    if (start + decoder.count(head["bytes"]) !== size) return undefined;
    const records = decoder.list(head["files"]).map((one) => decoder.object(one));
    const names = records.map(({ name }) => decoder.text(name));
    const opened = await filesOf(names.filter((name) => name !== ""));
    const files = names.map((name) => opened.get(name)!);
    for (const [k, { size, digest, stamp }] of records.entries()) {
      const file = files[k]!;
      if (file.contents.size !== size) return undefined;
      const isSame = stamp !== null && plain(stamp) === plain(stampOf(file));
      if (!isSame && await digestLater(file) !== digest) return undefined;
    }
    const cache: ModelCache = new ModelCache(path, files, winograd);
    cache.#contents = contents;
    cache.#isNew = false;
    for (const one of decoder.list(head["storages"])) {
      const [name, file, begin, length] = decoder.list(one);
      const dtype = decoder.text(name) as DType;
      const isKnown = Object.hasOwn(DTYPE, dtype) && !isQuantized(DTYPE[dtype]) &&
        (file === -1 || decoder.count(file) < files.length);
      if (!isKnown) return undefined;
      const row = { dtype, file: file as number, begin: decoder.count(begin) };
      const first = row.begin + (row.file < 0 ? start : 0);
      const most = row.file < 0 ? size : files[row.file]!.contents.size;
      if (first + decoder.count(length) * DTYPE[dtype].bytes > most) return undefined;
      cache.#rows.push({ ...row, begin: first, length: length as number });
    }
    for (const [key, ids] of decoder.entries(head["made"], (ids) => decoder.list(ids))) {
      cache.#made.set(key, ids.map((id) => cache.#checkedId(decoder, id)));
    }
    const { graph, opsets, metadata, ops } = decoder.object(head["model"]);
    cache.#model = head["model"] as Json;
    return {
      cache,
      model: {
        graph: decoder.graph(graph),
        opsets: decoder.entries(opsets, (one) => decoder.count(one)),
        metadata: decoder.entries(metadata, (one) => decoder.text(one)),
        ops: decoder.entries(ops, (one) => decoder.count(one)),
      },
    };
  }

  #checkedId(decoder: Decoder, id: unknown): number {
    if (decoder.count(id) < this.#rows.length) return id as number;
    throw new FormatError(`no storage ${id}`, this.path, 0);
  }

  /** The storage of a row. */
  #storageAt(id: number): Storage {
    const before = this.#storages[id];
    if (before !== undefined) return before;
    const { dtype, file, begin, length } = this.#rows[id]!;
    const found = file < 0
      ? this.#contents!.storage(dtype, begin, length)
      : elementsAt(dtype, begin, length, this.#files[file]!.contents);
    if (!isFixed(found)) {
      // A storage that is freed may be reused, and would be taken for this one.
      found.handles++;
      this.#held.push(found);
    }
    this.#know(found, id);
    return this.#storages[id] = found;
  }

  #know(storage: Storage, id: number): void {
    this.#ids.set(storage, id);
    keepConstantsIn(this, storage);
  }

  /** A tensor of the graph. */
  #tensorAt(decoder: Decoder, place: unknown): T {
    const [id, shape, strides, offset] = decoder.list(place);
    const integers = (x: unknown): number[] =>
      decoder.list(x).map((n) => Number.isSafeInteger(n) ? n as number : decoder.count(n));
    const row = this.#checkedId(decoder, id);
    const layout = new Layout(integers(shape), integers(strides), decoder.count(offset));
    const [low, high] = layout.extent();
    const { rank, size } = layout;
    const fits = layout.shape.every((n) => n >= 0) && layout.strides.length === rank &&
      rank <= MAX_RANK && Number.isSafeInteger(size) &&
      (size === 0 || low >= 0 && high < this.#rows[row]!.length);
    if (!fits) throw new FormatError(`no tensor ${plain(place)}`, this.path, 0);
    let storage = this.#storages[row];
    if (storage === undefined) {
      storage = this.#storageAt(row);
      if (isFixed(storage)) {
        storage = cowOf(storage, 0, this.#rows[row]!.length - 1);
        this.#know(storage, row);
        this.#storages[row] = storage;
      }
    }
    return wrap(storage, layout) as T;
  }

  /** The row of a storage, which is a new one for elements of no file. */
  #rowOf(storage: Storage, origin: Origin | undefined): number {
    const before = this.#ids.get(storage);
    if (before !== undefined) return before;
    const { info: { name: dtype, bytes }, length } = storage;
    // Small copies are not worth a read of another file.
    const isSmall = !isFixed(storage.base) && length * bytes < LARGE_BYTES;
    const file = origin === undefined || isSmall
      ? -1
      : this.#files.findIndex(({ name }) => name === origin.location);
    const id = this.#rows.length;
    this.#rows.push(
      file < 0
        ? { dtype, file: -1, begin: 0, length, data: storage }
        : { dtype, file, begin: origin!.begin, length, lazy: storage },
    );
    this.#know(storage, id);
    return id;
  }

  /** Notes a model that was read from its own file; `originOf` tells where its tensors are. */
  note(
    { opsets, metadata, ops, graph }: CachedModel,
    originOf: (storage: Storage) => Origin | undefined,
  ): void {
    const encoder = new Encoder(({ storage, layout: { shape, strides, offset } }) => [
      this.#rowOf(storage, originOf(storage)),
      ...[shape, strides, offset],
    ]);
    this.#model = {
      graph: encoder.graph(graph),
      ...{ opsets: [...opsets], metadata: [...metadata], ops: [...ops] },
    };
  }

  // ---- constants of programs ---------------------------------------------------------------------

  #inputKey(input: Input): string | undefined {
    if (!isOperand(input)) return typeof input === "object" ? undefined : plain(input);
    const { storage, layout: { shape, strides, offset } } = input;
    const place = `[${shape}|${strides}|${offset}]`;
    const id = this.#ids.get(storage);
    if (id !== undefined) return `#${id}${place}`;
    const source = sourceOf(storage);
    const own = source && this.#inputKey(source);
    if (own !== undefined) return `float32(${own})${place}`;
    const isSmall = storage.memory === null && !storage.isTraced &&
      storage.length * storage.info.bytes <= MOST_CONTENT;
    if (!isSmall) return undefined;
    const { buffer, byteOffset, byteLength } = storage.array;
    return `${storage.info.name} ${hashOf(new Uint8Array(buffer, byteOffset, byteLength))}${place}`;
  }

  /** What a computation is computed of, as text; undefined if the file cannot keep it. */
  #keyOf({ op, inputs, attributes }: Computation): string | undefined {
    if (this.#isOff || this.#kernels !== kernels(this.#winograd)) return undefined;
    const parts = [plain(attributes), ...inputs.map((input) => this.#inputKey(input))];
    return parts.includes(undefined) ? undefined : `${op.name}(${parts.join()})`;
  }

  find(computation: Computation): readonly Storage[] | undefined {
    const key = this.#keyOf(computation);
    const ids = key === undefined ? undefined : this.#made.get(key);
    const fits = ids?.length === computation.results.length &&
      ids.every((id, k) => {
        const { dtype, length, data } = this.#rows[id]!;
        const { info, length: wanted } = computation.results[k]!;
        return dtype === info.name && length === wanted && data === undefined;
      });
    return fits ? ids!.map((id) => this.#storageAt(id)) : undefined;
  }

  add(computation: Computation, results: readonly Storage[]): void {
    const key = this.#keyOf(computation);
    const isPlain = results.every(({ info, memory }) => !isQuantized(info) && memory === null);
    if (key === undefined || !isPlain) return;
    // Computed anew after the program was freed: the file has it.
    if (this.#made.has(key)) return;
    const ids = results.map((storage) => {
      // Until it is written.
      storage.handles++;
      return this.#rowOf(storage, undefined);
    });
    this.#made.set(key, ids);
    this.#isNew = true;
  }

  /** Has {@link ModelCache.find} give what ops that pack weights make. */
  run(call: Call): void {
    const { op, name, inputs, attributes } = call;
    const isPack = op.kind === "kernel" && op.name.startsWith("pack") && call.outputs.length === 0;
    const specs = isPack ? infer(call) : "data-dependent";
    if (specs === "data-dependent") return performCall(call);
    const results = specs.map(({ shape, dtype }) => ({ info: dtype, length: sizeOf(shape) }));
    const computation: Computation = { op, name, inputs: inputs.slice(), attributes, results };
    const found = this.find(computation);
    if (found !== undefined) {
      specs.forEach(({ shape }, k) =>
        call.outputs[k] = wrap(found[k]!, Layout.contiguous([...shape]))
      );
      return;
    }
    performCall(call);
    const isWhole = call.outputs.every(({ storage, layout }) =>
      layout.contiguous && layout.offset === 0 && layout.size === storage.length
    );
    if (isWhole) this.add(computation, call.outputs.map(({ storage }) => storage));
  }

  /** Programs may read what they like. */
  read(): void {}

  // ---- the file ------------------------------------------------------------------------------------

  /** Writes the file, if it lacks something. Warns where that fails. */
  save(): void {
    if (!this.#isNew || this.#isOff) return;
    this.#isNew = false;
    try {
      this.#write();
      if (++this.#writes === MOST_WRITES) this.#isOff = true;
    } catch (error) {
      this.#isOff = true;
      console.warn(
        `rowmajor: cannot write the cache ${this.path}: ${
          error instanceof Error ? error.message : error
        }`,
      );
    }
    this.#letGo();
  }

  /** Has the file, and no more the memory, what programs have computed. */
  #letGo(): void {
    const made = new Set([...this.#made.values()].flat());
    for (const [id, row] of this.#rows.entries()) {
      if (row.data === undefined) continue;
      if (made.has(id)) {
        // It may be freed and reused.
        this.#ids.delete(row.data);
        letGo(row.data);
      }
      row.data = undefined;
    }
  }

  /** Frees what it holds. */
  dispose(): void {
    this.#isOff = true;
    this.#letGo();
    for (const storage of this.#held) letGo(storage);
    this.#held = [];
  }

  #write(): void {
    const fs = globalThis.process.getBuiltinModule("node:fs");
    let bytes = 0;
    // What programs read of copies is aligned in this file, and needs none.
    for (const row of this.#rows) {
      const base = row.file < 0 ? undefined : row.lazy?.base;
      if (base !== undefined && hasCopy(base)) [row.file, row.data] = [-1, base];
    }
    /** The rows in this file: those that it has from before, and new ones. */
    const own = this.#rows.map((row) => {
      if (row.file >= 0) return { row, begin: row.begin };
      const begin = aligned(bytes, LINE);
      bytes = begin + row.length * DTYPE[row.dtype].bytes;
      return { row, begin };
    });
    const head = new TextEncoder().encode(JSON.stringify({
      ...{ library: library(), kernels: this.#kernels, bytes, model: this.#model },
      files: this.#files.map((file) => ({
        ...{ name: file.name, size: file.contents.size },
        ...{ digest: digestNow(file), stamp: stampOf(file) },
      })),
      storages: own.map(({ row: { dtype, file, length }, begin }) => [dtype, file, begin, length]),
      made: [...this.#made],
    }));
    const start = aligned(PREFIX_BYTES + head.length, PAGE);
    const digits = String(head.length).padStart(16, "0");
    const prefix = new TextEncoder().encode(MAGIC + digits + host.sha256(head));
    const target = host.look(this.path)?.kind === "link" ? host.resolve(this.path) : this.path;
    const temporary = `${target}.${crypto.randomUUID().slice(0, 8)}`;
    const before = this.#contents;
    let ino: number;
    const descriptor = fs.openSync(temporary, "wx");
    try {
      const put = (part: Uint8Array, at: number): void => {
        for (let done = 0; done < part.length;) {
          const piece = part.subarray(done, done + PIECE);
          done += fs.writeSync(descriptor, piece, 0, piece.length, at + done);
        }
      };
      put(prefix, 0);
      put(head, PREFIX_BYTES);
      for (const { row, begin } of own) {
        if (row.file >= 0) continue;
        const end = row.begin + row.length * DTYPE[row.dtype].bytes;
        const { buffer, byteOffset, byteLength } = row.data?.array ?? before!.bytes(row.begin, end);
        put(new Uint8Array(buffer, byteOffset, byteLength), start + begin);
      }
      fs.ftruncateSync(descriptor, start + bytes);
      fs.fsyncSync(descriptor);
      ({ ino } = fs.fstatSync(descriptor));
    } catch (error) {
      fs.closeSync(descriptor);
      fs.unlinkSync(temporary);
      throw error;
    }
    fs.closeSync(descriptor);
    try {
      fs.renameSync(temporary, target);
    } catch (error) {
      fs.unlinkSync(temporary);
      throw error;
    }
    const identity = fs.statSync(target, { throwIfNoEntry: false });
    if (identity?.ino !== ino) {
      // Another process has removed or replaced it.
      this.#isOff = true;
      return;
    }
    // Later writes take what they have from it.
    const mapped = { reason: "it was written here" };
    this.#contents = new Contents({ path: this.path, identity, mapped });
    for (const { row, begin } of own) if (row.file < 0) row.begin = start + begin;
  }
}
