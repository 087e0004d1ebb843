/**
 * GGUF models in several files, as `gguf-split` writes them: `model-00001-of-00003.gguf` has the
 * metadata of the model, and each part has its number and the number of parts.
 *
 * Knows nothing of the class Tensor.
 *
 * @module
 */
import { describePath } from "../base/text.ts";
import { quote } from "./bytes.ts";
import { Fields, type Metadata, NO_METADATA } from "./metadata.ts";

/** The name of a part: what precedes its number, the number and the number of parts. */
const NAME = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/is;
/** The most parts, by the five digits in their names. */
const MOST_PARTS = 99_999;

/** A file, and what it has of each of its tensors. */
interface File<Entry> {
  readonly file: string;
  readonly metadata?: Metadata;
  readonly entries: ReadonlyMap<string, Entry>;
}

/** Which part of a model a file is, from 1. */
interface Part {
  readonly number: number;
  /** The number of parts; 1 for a whole model. */
  readonly count: number;
  readonly fields: Fields;
}

function partOf({ file, metadata = NO_METADATA }: File<unknown>): Part {
  const fields = Fields.of(metadata, file);
  const count = fields.integer("split.count", { most: MOST_PARTS, otherwise: 0 });
  if (count <= 1) return { number: 1, count: 1, fields };
  const number = 1 + fields.integer("split.no", { most: count - 1 });
  return { number, count, fields };
}

const digits = (number: number): string => String(number).padStart(5, "0");
const endOf = (number: number, count: number): string =>
  `-${digits(number)}-of-${digits(count)}.gguf`;

/** The names of all parts of the model of which `name` is the first; undefined for other names. */
function namesOf(name: string): string[] | undefined {
  const [, start, number, count] = NAME.exec(name) ?? [];
  if (Number(number) !== 1) return undefined;
  return Array.from({ length: Number(count) }, (_, i) => start + endOf(i + 1, Number(count)));
}

/** The first part, if `names` are the parts of one model. */
export function firstOfParts(names: readonly string[]): string | undefined {
  const sorted = names.toSorted();
  const all = sorted.length > 1 ? namesOf(sorted[0]!) : undefined;
  const isModel = all?.length === sorted.length && all.every((name, i) => name === sorted[i]);
  return isModel ? sorted[0] : undefined;
}

/** Throws a FormatError for bytes that are a part of a model. */
export function checkWhole<F extends File<unknown>>(source: F): F {
  const { number, count, fields } = partOf(source);
  if (count === 1) return source;
  return fields.fail(
    `part ${number} of a model in ${count} files: open the first one by its path, not as bytes`,
  );
}

/**
 * The tensors of all parts of a model whose first part is `source`, at `path`; `source` itself if
 * it is a whole model.
 *
 * @throws {FormatError} For another part, and for parts that are missing or those of another
 *   model.
 */
export async function withParts<Entry>(
  source: File<Entry>,
  path: string,
  isFile: (path: string) => boolean,
  open: (path: string) => Promise<File<Entry>>,
): Promise<File<Entry>> {
  const { number, count, fields } = partOf(source);
  if (count === 1) return source;
  if (number !== 1) {
    const start = NAME.exec(path)?.[1];
    const first = start === undefined ? undefined : start + endOf(1, count);
    return fields.fail(
      `part ${number} of a model in ${count} files: open the first one, ` +
        (first === undefined
          ? `whose name ends with ${endOf(1, count)}`
          : `${describePath(first)}${isFile(first) ? "" : ", which is not there"}`),
    );
  }
  const names = namesOf(path);
  if (names?.length !== count) {
    return fields.fail(
      `part 1 of a model in ${count} files, whose name must end with ${
        endOf(1, count)
      }: the names ` +
        "of the others follow from it",
    );
  }
  const entries = new Map(source.entries);
  for (const [i, name] of names.entries()) {
    if (i === 0) continue;
    if (!isFile(name)) {
      fields.fail(
        `part ${i + 1} of ${count} is not there, or may not be read: ${describePath(name)}`,
      );
    }
    const part = await open(name);
    const own = partOf(part);
    if (own.number !== i + 1 || own.count !== count) {
      own.fields.fail(`part ${own.number} of ${own.count}, and must be part ${i + 1} of ${count}`);
    }
    for (const [tensor, entry] of part.entries) {
      if (entries.has(tensor)) own.fields.fail(`tensor ${quote(tensor)} is in another part too`);
      entries.set(tensor, entry);
    }
  }
  const total = fields.integer("split.tensors.count", { most: 2 ** 31, otherwise: entries.size });
  if (total !== entries.size) {
    fields.fail(`the ${count} parts have ${entries.size} tensors, and must have ${total}`);
  }
  return { ...source, entries };
}
