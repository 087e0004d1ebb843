/**
 * A writer of GGUF files, version 3.
 *
 * @module
 */

/** The types of values, by their numbers. */
const TYPES = {
  uint32: 4,
  int32: 5,
  float32: 6,
  bool: 7,
  string: 8,
} as const;
const ARRAY = 9;
const ALIGNMENT = 32;
const VERSION = 3;

type TypeName = keyof typeof TYPES;
type Value = number | boolean | string;

/** A value of metadata, or an array of them. */
export type GgufValue = readonly [type: TypeName, value: Value | readonly Value[]];

/** A tensor: its type's number, its shape with rows first, and its bytes. */
export interface GgufTensor {
  readonly name: string;
  readonly type: number;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

const u32 = (value: number): Uint8Array => new Uint8Array(Uint32Array.of(value).buffer);
const u64 = (value: number): Uint8Array => new Uint8Array(BigUint64Array.of(BigInt(value)).buffer);

function text(value: string): Uint8Array {
  const bytes = new TextEncoder().encode(value);
  return concatBytes([u64(bytes.length), bytes]);
}

function single(type: TypeName, value: Value): Uint8Array {
  switch (type) {
    case "string":
      return text(value as string);
    case "bool":
      return Uint8Array.of(Number(value));
    case "float32":
      return new Uint8Array(Float32Array.of(value as number).buffer);
    default:
      return u32(value as number);
  }
}

function concatBytes(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The bytes of metadata. */
export function ggufMetadata(values: Readonly<Record<string, GgufValue>>): Uint8Array {
  const parts: Uint8Array[] = [];
  for (const [key, [type, value]] of Object.entries(values)) {
    parts.push(text(key));
    if (Array.isArray(value)) {
      const each = (value as readonly Value[]).map((one) => single(type, one));
      parts.push(u32(ARRAY), u32(TYPES[type]), u64(each.length), concatBytes(each));
    } else parts.push(u32(TYPES[type]), single(type, value as Value));
  }
  return concatBytes(parts);
}

/** A file of `count` values of metadata, whose bytes are `metadata`, and of tensors. */
export function writeGguf(
  metadata: Uint8Array,
  count: number,
  tensors: readonly GgufTensor[],
): Uint8Array<ArrayBuffer> {
  const padded = (size: number): number => Math.ceil(size / ALIGNMENT) * ALIGNMENT;
  const head: Uint8Array[] = [
    new TextEncoder().encode("GGUF"),
    u32(VERSION),
    u64(tensors.length),
    u64(count),
    metadata,
  ];
  let offset = 0;
  for (const { name, type, shape, bytes } of tensors) {
    // Sizes have the innermost first.
    const sizes = shape.toReversed().map(u64);
    head.push(text(name), u32(sizes.length), ...sizes, u32(type), u64(offset));
    offset += padded(bytes.length);
  }
  const length = head.reduce((sum, part) => sum + part.length, 0);
  const data = tensors.flatMap(({ bytes }) => [
    bytes,
    new Uint8Array(padded(bytes.length) - bytes.length),
  ]);
  return concatBytes([...head, new Uint8Array(padded(length) - length), ...data]);
}
