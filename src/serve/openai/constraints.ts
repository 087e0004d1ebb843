/**
 * Constraints of answers, which are compiled once for all requests with the same schema.
 *
 * @module
 */
import { ArgumentError, FormatError, PackageError } from "../../base/errors.ts";
import { type GrammarConstraint, json, jsonSchema } from "../../constraints/mod.ts";
import type { Tokenizer } from "../../tokenizers/mod.ts";
import { badRequest, HttpError } from "../http/http_error.ts";
import type { Field } from "./fields.ts";
import { MOST_SCHEMA } from "./limits.ts";

/** The compiled constraints that are kept for later requests. */
const MOST_KEPT = 32;

/** A constraint, and who uses it. */
interface Kept {
  readonly made: Promise<GrammarConstraint>;
  users: number;
}

/** A constraint for an answer; `end` gives it back. */
export interface Lease {
  readonly constraint: GrammarConstraint;
  end(): void;
}

/** What the answer of a request has to be. */
export interface Wanted {
  /** A schema, or any object of JSON. */
  readonly schema: Readonly<Record<string, unknown>> | "object";
  /** The field that asks for it. */
  readonly place: string;
}

/** The error of a constraint that cannot be made. */
function errorOf(error: unknown, place: string): unknown {
  if (error instanceof PackageError) {
    return new HttpError(501, `${place} needs a package that this server lacks: ${error.package}`, {
      param: place,
      code: "package_missing",
    });
  }
  if (error instanceof FormatError) {
    return new HttpError(501, `${place} does not work with the tokenizer of this model`, {
      param: place,
      code: "unsupported_model",
    });
  }
  if (!(error instanceof ArgumentError)) return error;
  return badRequest(`Invalid value for ${place}: ${error.message}`, place);
}

/** The constraints of a model. */
export class Constraints implements Disposable {
  readonly #tokenizer: Tokenizer;
  /** The one that was not used for longest first. */
  readonly #kept = new Map<string, Kept>();

  constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer;
  }

  /** The constraint of what is wanted. */
  async lease({ schema, place }: Wanted): Promise<Lease> {
    const key = JSON.stringify(schema);
    if (key.length > MOST_SCHEMA) {
      throw badRequest(
        `Invalid value for ${place}: schemas have at most ${MOST_SCHEMA} characters`,
        place,
      );
    }
    const known = this.#kept.get(key);
    const kept: Kept = known ?? {
      made: schema === "object" ? json(this.#tokenizer) : jsonSchema(schema, this.#tokenizer),
      users: 0,
    };
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    kept.users++;
    let isHeld = true;
    const end = (): void => {
      if (isHeld) kept.users--;
      isHeld = false;
      this.#trim(MOST_KEPT);
    };
    try {
      return { constraint: await kept.made, end };
    } catch (error) {
      if (this.#kept.get(key) === kept) this.#kept.delete(key);
      end();
      throw errorOf(error, place);
    }
  }

  /** Frees those that nobody uses, the oldest first, until there are `most`. */
  #trim(most: number): void {
    for (const [key, { made, users }] of this.#kept) {
      if (this.#kept.size <= most) return;
      if (users > 0) continue;
      this.#kept.delete(key);
      made.then((one) => one.dispose(), () => {});
    }
  }

  [Symbol.dispose](): void {
    this.#trim(0);
  }
}

/** What a `response_format` asks for; undefined for any text. */
export function wantedOf(field: Field): Wanted | undefined {
  const format = field.fields();
  if (format === undefined) return undefined;
  const { place } = field;
  const type = format.need("type").oneOf(["text", "json_object", "json_schema"]);
  if (type === "text") return undefined;
  if (type === "json_object") {
    // As llama-server takes it.
    const schema = format.get("schema").fields()?.value;
    return { schema: schema ?? "object", place };
  }
  const given = format.need("json_schema").fields()!;
  given.get("name").text(64);
  given.get("strict").flag();
  const schema = given.need("schema").fields()!;
  return { schema: schema.value, place };
}
