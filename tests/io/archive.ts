/**
 * Makes zip archives, also in forms that our writer does not use.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { crc32, deflateRawSync } from "node:zlib";

/** A number in `width` bytes, little-endian. */
function le(value: number, width: number): Uint8Array {
  return Uint8Array.from({ length: width }, (_, i) => Math.floor(value / 256 ** i) & 255);
}

function joined(...parts: Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

/** Packed members and their checksums, as an archive may have one under many names. */
const known = new WeakMap<Uint8Array, { body: Uint8Array; sum: number }>();

function packedOf(data: Uint8Array): { body: Uint8Array; sum: number } {
  let one = known.get(data);
  if (one === undefined) {
    one = { body: new Uint8Array(deflateRawSync(data)), sum: crc32(data) };
    known.set(data, one);
  }
  return one;
}

/** A zip archive; with `zip64`, sizes and offsets are in the fields of 64 bits. */
export function zip(members: Record<string, Uint8Array>, { zip64 = false, packed = false } = {}) {
  const parts: Uint8Array[] = [];
  const entries: Uint8Array[] = [];
  let at = 0;
  for (const [key, data] of Object.entries(members)) {
    const name = new TextEncoder().encode(key);
    const { body, sum } = packed ? packedOf(data) : { body: data, sum: crc32(data) };
    const method = packed ? 8 : 0;
    const none = 0xffffffff;
    const size = (n: number): Uint8Array => le(zip64 ? none : n, 4);
    const head = joined(
      ...[0, method, 0, 33].map((n) => le(n, 2)),
      le(sum, 4),
      size(body.length),
      size(data.length),
      le(name.length, 2),
    );
    const sizes = joined(le(data.length, 8), le(body.length, 8));
    const local = zip64 ? joined(le(1, 2), le(16, 2), sizes) : new Uint8Array();
    const own = zip64 ? joined(le(1, 2), le(24, 2), sizes, le(at, 8)) : new Uint8Array();
    const written = joined(
      le(0x04034b50, 4),
      le(45, 2),
      head,
      le(local.length, 2),
      name,
      local,
      body,
    );
    entries.push(
      joined(
        le(0x02014b50, 4),
        le(45, 2),
        le(45, 2),
        head,
        le(own.length, 2),
        new Uint8Array(10),
        size(at),
        name,
        own,
      ),
    );
    parts.push(written);
    at += written.length;
  }
  const directory = joined(...entries);
  const count = entries.length;
  if (!zip64) {
    const end = [le(0x06054b50, 4), le(0, 4), le(count, 2), le(count, 2), le(directory.length, 4)];
    return joined(...parts, directory, ...end, le(at, 4), le(0, 2));
  }
  const record = at + directory.length;
  return joined(
    ...parts,
    directory,
    ...[le(0x06064b50, 4), le(44, 8), le(45, 2), le(45, 2), le(0, 4), le(0, 4)],
    ...[le(count, 8), le(count, 8), le(directory.length, 8), le(at, 8)],
    ...[le(0x07064b50, 4), le(0, 4), le(record, 8), le(1, 4)],
    ...[le(0x06054b50, 4), le(0, 4), le(0xffff, 2), le(0xffff, 2)],
    ...[le(0xffffffff, 4), le(0xffffffff, 4), le(0, 2)],
  );
}
