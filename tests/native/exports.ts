/**
 * The names that a shared library exports, read from the file: ELF, Mach-O and PE, 64-bit.
 *
 * @module
 */
import { readFileSync } from "node:fs";

/** Reads little-endian numbers and names of a file. */
class Reader {
  readonly #view: DataView;

  constructor(readonly bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  u8(at: number): number {
    return this.#view.getUint8(at);
  }

  u16(at: number): number {
    return this.#view.getUint16(at, true);
  }

  u32(at: number): number {
    return this.#view.getUint32(at, true);
  }

  u64(at: number): number {
    return Number(this.#view.getBigUint64(at, true));
  }

  /** The text from `at` to the next 0. */
  text(at: number): string {
    return new TextDecoder().decode(this.bytes.subarray(at, this.bytes.indexOf(0, at)));
  }
}

/** The dynamic symbols that are defined and global or weak. */
function ofElf(file: Reader): string[] {
  const [sections, size, count] = [file.u64(0x28), file.u16(0x3a), file.u16(0x3c)];
  const names: string[] = [];
  for (let i = 0; i < count; i++) {
    const section = sections + i * size;
    const DYNSYM = 11;
    if (file.u32(section + 4) !== DYNSYM) continue;
    const [at, length] = [file.u64(section + 0x18), file.u64(section + 0x20)];
    const strings = file.u64(sections + file.u32(section + 0x28) * size + 0x18);
    for (let symbol = at; symbol < at + length; symbol += 24) {
      const binding = file.u8(symbol + 4) >> 4;
      const defined = file.u16(symbol + 6) !== 0;
      if (defined && binding !== 0) names.push(file.text(strings + file.u32(symbol)));
    }
  }
  return names;
}

/** The symbols that zig's linker adds to every Mach-O library. */
const LINKER_OWN = new Set(["__dso_handle", "_mh_dylib_header"]);

/** The names of the export trie, which begin with an underscore. */
function ofMachO(file: Reader): string[] {
  const names: string[] = [];
  let command = 32;
  for (let i = 0; i < file.u32(16); i++, command += file.u32(command + 4)) {
    const [DYLD_INFO, DYLD_INFO_ONLY, EXPORTS_TRIE] = [0x22, 0x80000022, 0x80000033];
    const kind = file.u32(command);
    if (kind === DYLD_INFO || kind === DYLD_INFO_ONLY) {
      walkTrie(file, file.u32(command + 40), names);
    } else if (kind === EXPORTS_TRIE) walkTrie(file, file.u32(command + 8), names);
  }
  return names;
}

/** Adds the names of a trie: each node may have a value, and children with a part of the name. */
function walkTrie(file: Reader, start: number, names: string[]): void {
  let at = start;
  const number = (): number => {
    let [value, unit] = [0, 1];
    for (;;) {
      const byte = file.u8(at++);
      value += (byte & 127) * unit;
      if (byte < 128) return value;
      unit *= 128;
    }
  };
  const visit = (node: number, prefix: string): void => {
    at = start + node;
    const size = number();
    const name = prefix.slice(1);
    if (size > 0 && !LINKER_OWN.has(name)) names.push(name);
    at += size;
    const children = Array.from({ length: file.u8(at++) }, () => {
      const part = file.text(at);
      at += part.length + 1;
      return [number(), prefix + part] as const;
    });
    for (const [child, prefix] of children) visit(child, prefix);
  };
  visit(0, "");
}

/** The names of the export table. */
function ofPe(file: Reader): string[] {
  const header = file.u32(0x3c);
  const optional = header + 24;
  const sections = optional + file.u16(header + 20);
  const place = (address: number): number => {
    for (let i = 0; i < file.u16(header + 6); i++) {
      const section = sections + i * 40;
      const from = file.u32(section + 12);
      if (address >= from && address < from + file.u32(section + 16)) {
        return address - from + file.u32(section + 20);
      }
    }
    throw new Error(`no section holds address ${address}`);
  };
  const table = place(file.u32(optional + 112));
  const names = place(file.u32(table + 32));
  return Array.from(
    { length: file.u32(table + 24) },
    (_, i) => file.text(place(file.u32(names + 4 * i))),
  );
}

/** The exports of the shared library at `path`, unordered. */
export function exportsOf(path: string): string[] {
  const file = new Reader(readFileSync(path));
  switch (file.u32(0)) {
    case 0x464c457f:
      return ofElf(file);
    case 0xfeedfacf:
      return ofMachO(file);
    default:
      if (file.u16(0) === 0x5a4d) return ofPe(file);
      throw new Error(`${path} is no library of a kind that is known here`);
  }
}
