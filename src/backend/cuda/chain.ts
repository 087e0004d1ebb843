/**
 * Chains on CUDA devices: one kernel made of the structs of the ops, and its arguments.
 *
 * @module
 */
import { DTYPE, type DType, type DTypeInfo } from "../../base/dtype.ts";
import { OFFSETS, type Plan, planMaps, strideOf } from "../../base/plan.ts";
import { chainForm } from "../../ops/chain/op.ts";
import { writeElement } from "../../memory/element.ts";
import { Storage } from "../../memory/storage.ts";
import { type ChainAttributes, type ChainForm, isCondition } from "../../ops/chain/steps.ts";
import type { Call } from "../../table/op.ts";
import { isComputeBound } from "../../table/c_rules.ts";
import { MAP } from "../../table/table.ts";
import { checkOperand } from "../ffi/checks.ts";
import { CONSTANTS } from "./source/constants.ts";
import { Arguments, type CudaDevice } from "./device.ts";
import { kernelText, mapSource, type Source, sourceOf, suffixOf } from "./source/mod.ts";
import { addAxes, isPacked, start } from "./walks.ts";

const { THREADS, FEW_AXES } = CONSTANTS["device.h"];
const { MAP_ALIGNED, MAP_ELEMENTS } = CONSTANTS["map.h"];

/** With more inputs, one pack of each is enough in flight. */
const MANY_INPUTS = 3;

const CHAIN_KERNELS = {
  contiguous: "RM_CHAIN_CONTIGUOUS",
  strided: "RM_CHAIN_STRIDED",
} as const;

type ChainKernel = keyof typeof CHAIN_KERNELS;

/** A chain over certain dtypes, as C. */
interface ChainSource extends Source<ChainKernel> {
  /** Elements of each operand that one access moves, if they are contiguous. */
  readonly pack: number;
  /** Packs of a thread of the contiguous kernel. */
  readonly packs: number;
}

const args = new Arguments();

/** The sources of chains by what they depend on, and the keys by the names of sources. */
const sources = new Map<string, ChainSource>();
const keys = new Map<string, string>();

/** Whether a chain has a kernel: positions in 32 bits along a few axes. */
export function isSmallChain(call: Call): boolean {
  const { shape } = call.attributes as ChainAttributes;
  return shape.length <= FEW_AXES && shape.reduce((size, n) => size * n, 1) < 2 ** 30;
}

/** Queues a chain; false if its kernel cannot be compiled, or elements are too far apart. */
export function chain(device: CudaDevice, call: Call): boolean {
  const form = chainForm(call);
  const { outputs } = call;
  const operands = [...outputs, ...form.operands];
  const plan = planMaps(
    outputs.map(({ layout }) => layout),
    form.operands.map(({ layout }) => layout),
  );
  if (plan.size === 0) return true;
  if (plan.needsInt64Index) return false;
  const storages = operands.map(({ storage }) => storage);
  storages.forEach((storage, k) => checkOperand("rm_cuda_launch", plan, k, storage));
  const source = chainSource(form, storages.map(({ info }) => info), outputs.length);
  const kernel = isContiguous(plan, outputs.length) ? "contiguous" : "strided";
  const handle = device.find(source.kernels[kernel], () => kernelText(source, kernel));
  if (handle === 0) return false;
  const perThread = kernel === "contiguous" ? source.pack * source.packs : MAP_ELEMENTS;
  const aligned = storages.every((storage, k) =>
    strideOf(plan, k, 0) !== 1 || isPacked(plan, k, storage, source.pack)
  );
  args.clear().integer(plan.size).integer(plan.rank).integer(aligned ? MAP_ALIGNED : 0);
  storages.forEach((storage, k) => args.integer(start(plan, k, storage)));
  addNumbers(form);
  addAxes(args, plan, 0, plan.rank, FEW_AXES, false);
  device.launch(handle, [Math.ceil(plan.size / (THREADS * perThread))], [THREADS], args);
  return true;
}

/** Whether the outputs are contiguous, and inputs contiguous or single elements. */
function isContiguous(plan: Plan, outputs: number): boolean {
  if (plan.rank !== 1) return false;
  if (plan.data[OFFSETS + plan.operands] === 1) return true;
  for (let k = 0; k < plan.operands; k++) {
    const stride = strideOf(plan, k, 0);
    if (stride !== 1 && (k < outputs || stride !== 0)) return false;
  }
  return true;
}

/** Adds the constants and the parameters of the steps; at least one number. */
function addNumbers({ constants, steps }: ChainForm): void {
  for (const { value, dtype } of constants) {
    const element = new Storage(new dtype.array(1), dtype, true, false);
    writeElement(element, 0, value);
    args.element(element);
  }
  const parameters = steps.flatMap(({ parameters }) => parameters);
  for (const parameter of parameters) args.real(parameter);
  if (constants.length + parameters.length === 0) args.skip(1);
}

/** The struct of a chain over operands of `dtypes`, the first `outputs` of which are its outputs. */
export function chainSource(
  form: ChainForm,
  dtypes: readonly DTypeInfo[],
  outputs: number,
): ChainSource {
  const lines = form.steps.map(({ op, compute, result, inputs }) =>
    [op.id, compute.id, result.id, ...inputs].join(".")
  );
  const ids = dtypes.map(({ id }) => id).join(".");
  const key = `${ids};${outputs};${form.outputs.join(".")};${lines.join(",")}`;
  let source = sources.get(key);
  if (source === undefined) sources.set(key, source = makeChain(form, dtypes, outputs, key));
  return source;
}

/** A name that is the same in every process, as files of compiled kernels contain it. */
function nameOf(key: string): string {
  let hash = 0x811c9dc5;
  for (const character of key) hash = Math.imul(hash ^ character.charCodeAt(0), 0x01000193) >>> 0;
  // Names of ops have no underscore.
  let name = `ops_chain_${hash.toString(16)}`;
  while (keys.has(name) && keys.get(name) !== key) name += "_";
  keys.set(name, key);
  return name;
}

function makeChain(
  form: ChainForm,
  dtypes: readonly DTypeInfo[],
  outputs: number,
  key: string,
): ChainSource {
  const { constants, steps } = form;
  const name = nameOf(key);
  const structs = new Set<string>();
  const stored = (dtype: DTypeInfo): string => `rm_${suffixOf(dtype.name)}::stored`;
  const inputs = form.operands.length;
  const values = dtypes.slice(outputs);
  const lines = values.map((dtype, v) => `const ${stored(dtype)} v${v} = in.v${v}.at[i];`);
  let next = constants.length;
  steps.forEach((step, s) => {
    const { op, compute, result, parameters } = step;
    const operands = step.inputs.map((value, k) => {
      const dtype = isCondition(op, k) ? DTYPE.bool : compute;
      return value < 0
        ? `rm_argument<${stored(dtype)}>(numbers[${-1 - value}])`
        : castText(`v${value}`, values[value]!.name, dtype.name);
    });
    const made = `const ${stored(result)} v${inputs + s} = `;
    if (op === MAP.copy) {
      lines.push(`${made}${castText(operands[0]!, compute.name, result.name)};`);
    } else {
      const { name: struct, text } = mapSource(op, compute.name, result.name, false);
      structs.add(text);
      while (operands.length < 3) operands.push("0");
      const attributes = parameters.length === 0 ? "nullptr" : `(const double *)numbers + ${next}`;
      next += parameters.length;
      lines.push(`${made}rm_apply<${struct}>(${operands.join(", ")}, ${attributes});`);
    }
    values.push(result);
  });
  form.outputs.forEach((s, k) => lines.push(`out${k}.at[i] = v${inputs + s};`));
  const pack = (dtype: DTypeInfo): string => `rm_pack<${stored(dtype)}, N>`;
  const [made, given] = [dtypes.slice(0, outputs), dtypes.slice(outputs)];
  const size = 16 / Math.max(2, ...dtypes.map(({ bytes }) => bytes));
  const heavy = steps.some(({ op }) => isComputeBound(op));
  const packs = heavy || inputs > MANY_INPUTS ? 1 : 2;
  const text = [...structs].join("") +
    `struct ${name} {\n` +
    `  static constexpr int operands = ${dtypes.length}, numbers = ${Math.max(1, next)};\n` +
    `  static constexpr int pack = ${size}, packs = ${packs};\n` +
    `  template <int N>\n  struct inputs {\n` +
    given.map((dtype, v) => `    ${pack(dtype)} v${v};\n`).join("") +
    `  };\n` +
    `  template <int N, typename From>\n  static inline inputs<N> load(const From &from) {\n` +
    `    return {${
      given.map((dtype, v) => `from.template load<${stored(dtype)}, N>(${outputs + v})`).join(", ")
    }};\n  }\n` +
    `  template <int N, typename To>\n` +
    `  static inline void apply(const inputs<N> &in, const int64_t *numbers, const To &to) {\n` +
    made.map((dtype, k) => `    ${pack(dtype)} out${k};\n`).join("") +
    `    RM_UNROLL for (int i = 0; i < N; i++) {\n` +
    lines.map((line) => `      ${line}\n`).join("") + "    }\n" +
    made.map((_, k) => `    to.store(${k}, out${k});\n`).join("") + "  }\n};\n";
  return { ...sourceOf(name, "map.h", CHAIN_KERNELS, text), pack: size, packs };
}

function castText(text: string, from: DType, to: DType): string {
  return from === to ? text : `rm_cast<rm_${suffixOf(to)}, rm_${suffixOf(from)}>(${text})`;
}
