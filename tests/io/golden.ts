/**
 * The files of golden/io, written by NumPy and safetensors, with their contents.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { assert, assertThrows } from "@std/assert";
import type { DType } from "../../src/base/dtype.ts";
import { FormatError } from "../../src/base/errors.ts";
import type { RawTensor } from "../../src/io/bytes.ts";
import { decodeNpz, type NpzOptions } from "../../src/io/npz.ts";

/** One golden file. */
export interface Golden {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** Whether our writer must produce the same bytes. */
  readonly same: boolean;
  /** Part of the error message for an invalid file. */
  readonly refused: string | undefined;
  readonly arrays: Map<string, RawTensor>;
  readonly metadata: Record<string, string> | undefined;
}

interface Entry {
  same?: boolean;
  refused?: string;
  arrays?: Record<string, { dtype: DType; shape: number[]; hex: string }>;
  metadata?: Record<string, string>;
}

const FOLDER = new URL("../golden/io/", import.meta.url);

function read(name: string): Uint8Array {
  return new Uint8Array(readFileSync(new URL(name, FOLDER)));
}

/** The golden files whose names end in `extension`. */
export function golden(extension: string): Golden[] {
  const index: Record<string, Entry> = JSON.parse(new TextDecoder().decode(read("index.json")));
  const files = Object.entries(index).filter(([name]) => name.endsWith(extension));
  assert(files.length > 0);
  return files.map(([name, { same, refused, arrays, metadata }]) => ({
    name,
    bytes: read(name),
    same: same === true,
    refused,
    arrays: new Map(
      Object.entries(arrays ?? {}).map(([key, { dtype, shape, hex }]) => [
        key,
        { dtype, shape, data: fromHex(hex) },
      ]),
    ),
    metadata,
  }));
}

/** The golden file of that name. */
export function goldenFile(name: string): Golden {
  return golden(name)[0];
}

function fromHex(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (byte) => parseInt(byte, 16));
}

/** Bytes of a text whose characters are bytes. */
export function latin1(text: string): Uint8Array {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/** Asserts a {@link FormatError} with that part of the message, at `offset` if given. */
export function assertFormatError(run: () => unknown, message: string, offset?: number): void {
  const error = assertThrows(run, FormatError, message);
  if (offset !== undefined) {
    assert(error.offset === offset, `offset ${error.offset}, expected ${offset}: ${error.message}`);
  }
}

/** The arrays in .npz bytes; throws the error of the first one that is not read. */
export function decodeWhole(bytes: Uint8Array, options?: NpzOptions): Map<string, RawTensor> {
  return new Map(
    [...decodeNpz(bytes, options)].map(([name, raw]) => {
      if (raw instanceof FormatError) throw raw;
      return [name, raw];
    }),
  );
}
