/**
 * Mutants of the file formats: every check that a hostile file must meet.
 *
 * @module
 */
import { edits, type Mutant } from "./core.ts";

const NPY = edits("io", "src/io/npy.ts", ["io_npy", "io", "io_fuzz"], {
  "magic": ["if (byte[1] !== MAGIC.charCodeAt(byte[0]))", "if (false)"],
  "version": ["if (major < 1 || major > 3 || minor !== 0) {", "if (false) {"],
  "length of the header": ["length = major === 1", "length = major !== 9"],
  "largest header": ["if (length > MAX_HEADER)", "if (false)"],
  "rest of the file": [
    "if (cursor.left > 0) cursor.fail(`${cursor.left} bytes follow",
    "if (false) cursor.fail(`${cursor.left} bytes follow",
  ],
  "bools": ['if (dtype === "bool") checkBools(', "if (false) checkBools("],
  "big-endian": ["if (header.bigEndian && width > 1)", "if (false)"],
  "Fortran order": ["if (header.fortran && shape.length > 1)", "if (false)"],
  "keys twice": ['key === "shape" && shape === undefined', 'key === "shape"'],
  "most axes": ["if (shape.length > MAX_RANK)", "if (false)"],
  "shape that is no tuple": ["if (shape.length === 1) cursor.fail(", "if (false) cursor.fail("],
  "padding when written": [
    "(Math.floor((prefix + dict.length + 1) / 64) + 1) * 64",
    "Math.ceil((prefix + dict.length + 1) / 64) * 64",
  ],
});

const NPZ = edits("io", "src/io/npz.ts", ["io_npz", "io", "io_fuzz"], {
  "checksum": ["if (zlib().crc32(data) !== member.crc) {", "if (false) {"],
  "size": ["if (data.length !== size) {", "if (false) {"],
  "names twice": ["if (members.has(name)) cursor.fail(", "if (false) cursor.fail("],
  "most bytes": ["if (!(inflated <= maxBytes)) {", "if (false) {"],
  "ratio": ["if (method === DEFLATED && size > packed * MAX_DEFLATE_RATIO) {", "if (false) {"],
  "overlap": ["if (packed > start) cursor.fail(", "if (false) cursor.fail("],
  "method of the member": [
    'if (cursor.u16("the method") !== member.method) {',
    'cursor.u16("the method");\n  if (false) {',
  ],
  "encrypted": ["if (flags & 0x2061) cursor", "if (false) cursor"],
});

const SAFETENSORS = edits("io", "src/io/safetensors.ts", ["io_safetensors", "io", "io_fuzz"], {
  "length of the header": ["if (LENGTH_BYTES + Number(length) > fileSize) {", "if (false) {"],
  "largest header": ["if (length > MAX_HEADER) {\n    cursor", "if (false) {\n    cursor"],
  "names twice": ["if (tensors.has(name)) cursor.fail(", "if (false) cursor.fail("],
  "begin of the header": ["if (text[0] !== 0x7b) cursor", "if (false) cursor"],
  "offsets in the file": ["if (begin > end || end > fileSize) {", "if (false) {"],
  "bytes of the shape": [
    "if (dtype !== undefined && checkedBytes(shape, DTYPE[dtype].bytes) !== end - begin) {",
    "if (false) {",
  ],
  "gaps and overlaps": ["if (begin !== at) {", "if (false) {"],
  "rest of the file": ["if (at !== fileSize) throw", "if (false) throw"],
  "bools": ['if (dtype === "bool") checkBools(', "if (false) checkBools("],
  "metadata twice": ["if (Object.hasOwn(out, key)) cursor.fail(", "if (false) cursor.fail("],
  "order when written": ["ORDER.indexOf(a.dtype) - ORDER.indexOf(b.dtype) ||", ""],
  "padding when written": ["Math.ceil(header.length / 8) * 8", "header.length"],
});

const BYTES = edits("io", "src/io/bytes.ts", ["io_npy", "io_safetensors", "io_npz", "io_fuzz"], {
  "past the end": ["    if (count > this.left) {\n", "    if (false) {\n"],
  "offsets in errors": ["this.#base + at);", "at);"],
  "numbers above 2^53": [
    "if (value > Number.MAX_SAFE_INTEGER) this.fail(",
    "if (false) this.fail(",
  ],
  "leading zeros": ["if (digits > 1 && this.#bytes[start] === 0x30)", "if (false)"],
  "strings without end": [
    'if (this.left <= 0) this.fail("the string',
    'if (false) this.fail("the string',
  ],
  "lone surrogates": ["if (value.isWellFormed()) return value;", "return value;"],
  "shapes above 2^53": ["if (bound > Number.MAX_SAFE_INTEGER) return undefined;", ""],
  "zeros in large shapes": ["bound *= Math.max(size, 1);", "bound *= size;"],
  "bool bytes": ["if (data[i] > 1) throw", "if (false) throw"],
  "bytes that do not fit the shape": [
    "if (checkedBytes(raw.shape, DTYPE[raw.dtype].bytes) !== raw.data.length) {",
    "if (false) {",
  ],
});

/** Faults of the readers and writers. */
export const FILES: readonly Mutant[] = [...NPY, ...NPZ, ...SAFETENSORS, ...BYTES];
