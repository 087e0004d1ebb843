/**
 * The version of the library, and of what its copies in one process know of each other's objects.
 *
 * @module
 */

/** This library's version. */
export const VERSION = "0.1.0";

/**
 * The number of what {@link BRAND} promises. Copies with the same number accept each other's
 * tensors, slices and ranges. It changes when a property that `adopt` and `ownSlice` read does.
 */
export const PROTOCOL = 1;

/**
 * The property by which copies of the library know each other's objects: a hot reload, or a package
 * beside a checkout, loads a second copy, whose classes are others. All copies and realms have the
 * same symbol.
 */
export const BRAND: unique symbol = Symbol.for("rowmajor.brand");

/** The kinds of objects with a brand. */
export type Branded = "tensor" | "slice" | "range";

/** What an object of some copy is. */
export interface Brand {
  /** What it is. */
  readonly kind: Branded;
  /** The {@link PROTOCOL} of its copy. */
  readonly protocol: number;
  /** The {@link VERSION} of its copy. */
  readonly version: string;
  /** The {@link URL_OF_COPY} of its copy; versions before 0.2 have none. */
  readonly url?: string;
}

/** The address that this copy was loaded from, without a query; a bundle may have none. */
export const URL_OF_COPY: string = String(import.meta.url ?? "").replace(/[?#].*/, "");

/** The version and the address of a copy, for messages. */
export function nameOfCopy({ version, url }: Pick<Brand, "version" | "url">): string {
  return `version ${version}${url ? ` from ${url}` : ""}`;
}

/** {@link nameOfCopy} of this copy. */
export const THIS_COPY: string = nameOfCopy({ version: VERSION, url: URL_OF_COPY });

/** The brand of this copy's objects of a kind. */
export function brandFor(kind: Branded): Brand {
  return { kind, protocol: PROTOCOL, version: VERSION, url: URL_OF_COPY };
}

/** The brand of `value` if it is an object of that kind, of this copy or another one. */
export function brandOf(value: unknown, kind: Branded): Brand | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const brand = (value as { [BRAND]?: Brand })[BRAND];
  return brand?.kind === kind ? brand : undefined;
}
