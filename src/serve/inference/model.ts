/**
 * Models of the Open Inference Protocol: what they say of their tensors, and the checks of these.
 *
 * @module
 */
import { ArgumentError } from "../../base/errors.ts";
import { formatShape, listIn, MAX_RANK, sizeOf } from "../../base/shape.ts";
import { describe, describeAll } from "../../base/text.ts";
import type { Value } from "../../onnx/graph/values.ts";
import { badRequest } from "../http/http_error.ts";
import { datatypeOf, type ElementType, elementTypeOf, type Given } from "./datatypes.ts";

/** An input or an output of a model. */
export interface TensorInfo {
  /** Its name. */
  readonly name: string;
  /** The dtype of a tensor, or `"string"` for texts. */
  readonly dtype: string;
  /** The sizes: numbers, names of sizes that vary, or null; undefined if not even the rank is known. */
  readonly shape?: readonly (number | string | null)[] | undefined;
  /** `"tensor"`, or `"optional"` for an input that a request need not have. */
  readonly kind?: string | undefined;
}

/**
 * A model that a service runs: an opened ONNX file, or a compiled program, or any function of
 * tensors.
 *
 * @example
 * ```ts
 * import { ones, type Tensor } from "@rowmajor/tensor";
 * import { compile } from "@rowmajor/tensor/compile";
 * import type { InferenceModel } from "@rowmajor/tensor/serve";
 *
 * type X = Tensor<"float32", [number, 3]>;
 * const weight = ones([2, 3]);
 * const program = compile((x: X) => x.linear(weight));
 * const model: InferenceModel = {
 *   inputs: [{ name: "x", dtype: "float32", shape: ["rows", 3] }],
 *   outputs: [{ name: "y", dtype: "float32", shape: ["rows", 2] }],
 *   run: async ({ x }: { x: X }) => ({ y: await program.async(x) }),
 * };
 * ```
 */
export interface InferenceModel {
  /** The inputs of a run. */
  readonly inputs: readonly TensorInfo[];
  /** The outputs of a run. */
  readonly outputs: readonly TensorInfo[];
  /**
   * Computes the outputs, by name. The service disposes of them, and of the inputs: return
   * copies of tensors that live longer.
   */
  run(
    feeds: Readonly<Record<string, Value>>,
  ): Readonly<Record<string, Value>> | Promise<Readonly<Record<string, Value>>>;
  /** The same off the event loop, as an ONNX model has it: taken instead of `run`. */
  async?(feeds: Readonly<Record<string, Value>>): Promise<Readonly<Record<string, Value>>>;
}

/** An input or an output, checked. */
export interface TensorSpec {
  readonly name: string;
  readonly dtype: ElementType;
  readonly datatype: string;
  readonly shape: readonly (number | string | null)[] | undefined;
  readonly isOptional: boolean;
}

/** Checks what a model says of its tensors. */
export function specsOf(model: string, what: string, given: unknown): TensorSpec[] {
  const fail = (why: string): never => {
    throw new ArgumentError(`Cannot serve model ${describe(model)}: ${why}`);
  };
  const names = new Set<string>();
  const specs = listIn(given, (one) => {
    const { name, dtype, shape, kind = "tensor" }: Partial<Record<keyof TensorInfo, unknown>> =
      Object(one);
    if (typeof name !== "string" || names.has(name)) {
      return fail(`an ${what} has the name ${describe(name)}: each one has a text of its own`);
    }
    names.add(name);
    const type = typeof dtype === "string" ? elementTypeOf(dtype) : undefined;
    if (type === undefined) {
      return fail(
        `${what} ${describe(name)} is ${describe(dtype)}, which the protocol does not have`,
      );
    }
    if (kind !== "tensor" && kind !== "optional") {
      return fail(`${what} ${describe(name)} is ${describe(kind)}, where a tensor is expected`);
    }
    const sizes = shape === undefined ? undefined : listIn(shape, (size) => {
      if (size === null || typeof size === "string") return size;
      if (typeof size === "number" && Number.isSafeInteger(size) && size >= 0) return size;
      return fail(
        `${what} ${describe(name)} has size ${describe(size)}: it is an integer, a name or null`,
      );
    });
    if (shape !== undefined && sizes === undefined) {
      return fail(`${what} ${describe(name)} has shape ${describe(shape)}: it is a list of sizes`);
    }
    const isOptional = kind === "optional";
    return { name, dtype: type, datatype: datatypeOf(type)!, shape: sizes, isOptional };
  });
  return specs ?? fail(`its ${what}s are ${describe(given)}: they are a list`);
}

/** The most products of the other sizes of a tensor without elements. */
const MAX_EMPTY = 2 ** 20;

/** What the protocol shows of a tensor: -1 stands for sizes that vary. */
export function metadataOf({ name, datatype, shape }: TensorSpec): unknown {
  return {
    name,
    datatype,
    shape: shape === undefined ? [-1] : shape.map((size) => typeof size === "number" ? size : -1),
  };
}

/** The input that a request gives, checked against that of the model before memory is taken. */
export function checkInput(
  spec: TensorSpec,
  datatype: unknown,
  shape: unknown,
  most: Readonly<Record<string, number>>,
): Given {
  const what = `input ${describe(spec.name)}`;
  if (datatype !== spec.datatype) {
    throw badRequest(`${what} is ${spec.datatype}, not ${describe(datatype)}`);
  }
  const wanted = spec.shape;
  if (!Array.isArray(shape) || shape.length > MAX_RANK) {
    throw badRequest(`${what} has shape ${describe(shape)}: it is an array of sizes`);
  }
  const sizes = shape.map((size: unknown) => {
    if (typeof size === "number" && Number.isSafeInteger(size) && size >= 0) return size;
    throw badRequest(`${what} has a size of ${describe(size)}: it is an integer of at least 0`);
  });
  const fits = wanted === undefined || wanted.length === sizes.length &&
      wanted.every((size, axis) => typeof size !== "number" || size === sizes[axis]);
  if (!fits) {
    const shown = describeAll(wanted, (size) => String(size ?? "?")).join(", ");
    throw badRequest(`${what} has shape ${formatShape(sizes)}: it is [${shown}]`);
  }
  wanted?.forEach((size, axis) => {
    const limit = typeof size === "string" && Object.hasOwn(most, size) ? most[size]! : Infinity;
    if (sizes[axis]! <= limit) return;
    throw badRequest(`${size} of ${what} is ${sizes[axis]}: at most ${limit} is taken`);
  });
  const size = sizeOf(sizes);
  // Loops along other axes run although there are no elements.
  const loops = sizeOf(sizes.map((one) => one || 1));
  if (!Number.isSafeInteger(size) || size === 0 && loops > MAX_EMPTY) {
    throw badRequest(`${what} has shape ${formatShape(sizes)}, which is too large`);
  }
  return { what, dtype: spec.dtype, shape: sizes, size };
}
