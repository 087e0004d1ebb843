/**
 * The Open Inference Protocol v2 over HTTP, for any program or ONNX model.
 *
 * @module
 */
import {
  ArgumentError,
  AxisError,
  DTypeError,
  IndexError,
  OutOfMemoryError,
  ShapeError,
} from "../base/errors.ts";
import { describe, shorten } from "../base/text.ts";
import { VERSION } from "../base/version.ts";
import { concat, split } from "../ops/join/op.ts";
import { tensorsIn, type Value } from "../onnx/graph/values.ts";
import { checkOptions } from "../table/infer.ts";
import { type AnyTensor, scope, Tensor } from "../tensor/tensor.ts";
import { type Batches, batches } from "./batches.ts";
import { badRequest, HttpError, unavailable } from "./http/http_error.ts";
import { COUNTS, Metrics, SECONDS } from "./http/metrics.ts";
import {
  checkServiceOptions,
  type Incoming,
  json,
  makeService,
  type Route,
  type Service,
  type ServiceOptions,
} from "./http/service.ts";
import { checkContent, LENGTH_HEADER, readRequest, writeResponse } from "./inference/messages.ts";
import { type InferenceModel, metadataOf, specsOf, type TensorSpec } from "./inference/model.ts";

/** How requests of a model become one run. */
export interface InferenceBatchOptions {
  /** The axis of inputs and outputs that the requests are joined along (0). */
  readonly axis?: number | undefined;
  /** The most rows of a run along that axis (32). */
  readonly most?: number | undefined;
  /** The time in milliseconds that a request waits for others (2). */
  readonly waitMs?: number | undefined;
}

/** A model with options. */
export interface InferenceModelOptions {
  /** The model. */
  readonly model: InferenceModel;
  /**
   * Joins requests that arrive within a short time. The rows of a result must not depend on other
   * rows. Each run is padded to a power of two by copies of a row, so that few programs are made.
   */
  readonly batch?: InferenceBatchOptions | undefined;
  /** The most requests that wait for the model (256); beyond, the answer is 503. */
  readonly queue?: number | undefined;
  /** The most of sizes that vary, by their names in the shapes of inputs; beyond, the answer is 400. */
  readonly sizes?: Readonly<Record<string, number>> | undefined;
  /** The version that the protocol shows ("1"). */
  readonly version?: string | undefined;
}

/** Models by their names. */
export type InferenceModels = Readonly<Record<string, InferenceModel | InferenceModelOptions>>;

/** A request on its way through a model. */
interface Job {
  readonly feeds: Readonly<Record<string, Value>>;
  /** Its size along the batch axis. */
  readonly rows: number;
  /** The same for jobs that can be one run. */
  readonly kind: string;
  readonly resolve: (values: Values) => void;
  readonly reject: (error: unknown) => void;
}

type Values = Readonly<Record<string, Value>>;

const ENTRY_OPTIONS = ["model", "batch", "queue", "sizes", "version"];

function disposeAll(values: Values): void {
  for (const x of tensorsIn(Object.values(values))) x.dispose();
}

/** Errors of a run that its inputs cause. */
function isOfInputs(error: unknown): error is Error {
  return error instanceof ShapeError || error instanceof IndexError ||
    error instanceof DTypeError || error instanceof AxisError || error instanceof ArgumentError;
}

function runError(error: unknown): unknown {
  if (isOfInputs(error)) return badRequest(shorten(error.message, 400));
  if (error instanceof OutOfMemoryError) {
    return unavailable("there is not enough memory for these inputs", "out_of_memory");
  }
  return error;
}

/** Jobs that can be one run of at most `most` rows; one with more rows is alone. */
function* runsOf(jobs: readonly Job[], most: number): Generator<Job[]> {
  const kinds = new Set(jobs.map(({ kind }) => kind));
  for (const kind of kinds) {
    const alike = jobs.filter((job) => job.kind === kind);
    let run: Job[] = [];
    let rows = 0;
    for (const job of alike) {
      if (run.length > 0 && rows + job.rows > most) {
        yield run;
        [run, rows] = [[], 0];
      }
      run.push(job);
      rows += job.rows;
    }
    yield run;
  }
}

/** The rows of a run: with more rows than there are, so that few sizes occur. */
function paddedRows(rows: number, most: number): number {
  return rows > most ? rows : Math.min(most, 2 ** Math.ceil(Math.log2(rows)));
}

/** A model behind its queue. */
class Served {
  readonly name: string;
  readonly version: string;
  readonly platform: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  readonly most: Readonly<Record<string, number>>;
  readonly queue: Batches<Job, void>;
  readonly #model: InferenceModel;
  readonly #axis: number | undefined;
  readonly #mostRows: number;
  readonly #onRun: (rows: number, seconds: number) => void;

  constructor(
    name: string,
    entry: InferenceModel | InferenceModelOptions,
    onRun: (rows: number, seconds: number) => void,
  ) {
    const fail = (why: string): never => {
      throw new ArgumentError(`Cannot serve model ${describe(name)}: ${why}`);
    };
    if (!/^[\w.-]{1,128}$/.test(name)) {
      fail("its name has 1 to 128 letters, digits, dots, underscores and hyphens");
    }
    if (typeof entry !== "object" || entry === null) fail(`it is ${describe(entry)}`);
    const options = "run" in entry ? { model: entry } : entry;
    checkOptions(`serve model ${describe(name)}`, options, ENTRY_OPTIONS);
    const { model, batch, queue = 256, sizes = {}, version = "1" } = options;
    if (typeof model !== "object" || model === null || typeof model.run !== "function") {
      fail(`${describe(model)} is no model with inputs, outputs and run`);
    }
    if (typeof version !== "string" || !/^[\w.-]{1,32}$/.test(version)) {
      fail(`its version is ${describe(version)}: a text of 1 to 32 letters, digits, ., _ and -`);
    }
    this.name = name;
    this.version = version;
    this.platform = "opsets" in model ? "rowmajor_onnx" : "rowmajor_program";
    this.inputs = specsOf(name, "input", model.inputs);
    this.outputs = specsOf(name, "output", model.outputs);
    checkOptions(`serve model ${describe(name)} with sizes`, sizes, this.#sizeNames());
    for (const [size, value] of Object.entries(sizes)) {
      if (!Number.isSafeInteger(value) || value < 1) {
        fail(`the most of ${size} is ${describe(value)}: it is an integer of at least 1`);
      }
    }
    this.most = { ...sizes };
    this.#model = model;
    this.#onRun = onRun;
    if (batch === undefined) {
      this.#mostRows = 1;
      this.queue = batches((jobs: Job[]) => this.#runAll(jobs), { most: 1, waitMs: 0, queue });
      return;
    }
    checkOptions(`serve model ${describe(name)} in batches`, batch, ["axis", "most", "waitMs"]);
    const { axis = 0, most = 32, waitMs } = batch;
    for (const { name, shape, dtype, isOptional } of [...this.inputs, ...this.outputs]) {
      const size = shape?.[axis];
      if (shape !== undefined && (size === undefined || typeof size === "number")) {
        fail(`${describe(name)} has no axis ${describe(axis)} whose size varies, for batches`);
      }
      if (dtype === "string") fail(`${describe(name)} has texts, which do not form batches`);
      if (isOptional) fail(`${describe(name)} may be absent, which does not form batches`);
    }
    this.#axis = axis;
    this.queue = batches((jobs: Job[]) => this.#runAll(jobs), { most, waitMs, queue });
    this.#mostRows = most;
  }

  #sizeNames(): string[] {
    const sizes = this.inputs.flatMap(({ shape }) => shape ?? []);
    return sizes.filter((size) => typeof size === "string");
  }

  /** The outputs for inputs, which the caller disposes of. */
  async run(feeds: Values, signal: AbortSignal): Promise<Values> {
    const kind = this.#kindOf(feeds);
    return await new Promise((resolve, reject) => {
      // A job has its result when its own run ends, which may be before that of its batch.
      this.queue({ feeds, ...kind, resolve, reject }, { signal }).catch(reject);
    });
  }

  #kindOf(feeds: Values): { rows: number; kind: string } {
    const axis = this.#axis;
    if (axis === undefined) return { rows: 1, kind: "" };
    const rows = new Set<number>();
    const kinds = this.inputs.map(({ name }) => {
      const { shape } = feeds[name] as AnyTensor;
      const size = shape[axis];
      if (size === undefined || size === 0) {
        throw badRequest(`input ${describe(name)} has no rows along axis ${axis}`);
      }
      rows.add(size);
      return shape.toSpliced(axis, 1).join();
    });
    if (rows.size > 1) throw badRequest(`the inputs have other sizes along axis ${axis}`);
    return { rows: [...rows][0] ?? 1, kind: kinds.join(";") };
  }

  /** Runs jobs; it does not reject, as each job has a result of its own. */
  async #runAll(jobs: readonly Job[]): Promise<void[]> {
    for (const run of runsOf(jobs, this.#mostRows)) {
      try {
        const values = await this.#runOnce(run);
        run.forEach((job, i) => job.resolve(values[i]!));
      } catch (error) {
        if (run.length === 1) run[0]!.reject(runError(error));
        // The inputs of one client are no fault of the others.
        else for (const job of run) await this.#runAll([job]);
      }
    }
    return jobs.map(() => undefined);
  }

  /** The values of several jobs, by one run. */
  async #runOnce(jobs: readonly Job[]): Promise<Values[]> {
    const begin = performance.now();
    const rows = jobs.reduce((sum, job) => sum + job.rows, 0);
    const padding = this.#axis === undefined ? 0 : paddedRows(rows, this.#mostRows) - rows;
    const isAlone = jobs.length === 1 && padding === 0;
    const feeds = isAlone ? jobs[0]!.feeds : this.#join(jobs, padding);
    try {
      const model = this.#model;
      // A program's own failure is thrown here too.
      const values = await (model.async === undefined ? model.run(feeds) : model.async(feeds));
      if (typeof values !== "object" || values === null) {
        throw new Error(`the model returned ${describe(values)} instead of outputs by name`);
      }
      if (isAlone) return [values];
      try {
        return this.#split(values, jobs, rows + padding);
      } finally {
        disposeAll(values);
      }
    } finally {
      if (!isAlone) disposeAll(feeds);
      this.#onRun(rows, (performance.now() - begin) / 1000);
    }
  }

  #join(jobs: readonly Job[], padding: number): Values {
    const axis = this.#axis!;
    return scope(() => {
      const joined: [string, Value][] = this.inputs.map(({ name }) => {
        const parts = jobs.map(({ feeds }) => feeds[name] as AnyTensor);
        const [row] = split(parts[0]!, [1], axis);
        return [name, concat([...parts, ...Array(padding).fill(row)], axis) as AnyTensor];
      });
      return Object.fromEntries(joined);
    });
  }

  #split(values: Values, jobs: readonly Job[], rows: number): Values[] {
    const axis = this.#axis!;
    const ends: number[] = [];
    for (const job of jobs) ends.push((ends.at(-1) ?? 0) + job.rows);
    return scope(() => {
      const made = jobs.map((): Record<string, Value> => ({}));
      for (const { name } of this.outputs) {
        const value = values[name];
        if (!(value instanceof Tensor) || value.shape[axis] !== rows) {
          throw new Error(
            `output ${describe(name)} of model ${describe(this.name)} has not the ${rows} rows ` +
              `of its inputs along axis ${axis}: it does not form batches`,
          );
        }
        const parts = split(value, ends, axis) as AnyTensor[];
        // Views keep the elements of all rows, until the last of them is disposed of.
        made.forEach((own, i) => own[name] = parts[i]);
      }
      return made;
    });
  }
}

/** The models, checked. */
function servedOf(models: InferenceModels, metrics: Metrics): Map<string, Served> {
  if (typeof models !== "object" || models === null || Array.isArray(models)) {
    throw new ArgumentError(`Cannot serve models ${describe(models)}: they are an object by name`);
  }
  const seconds = metrics.histogram(
    "rowmajor_inference_seconds",
    "Time of one run of a model",
    SECONDS,
    ["model"],
  );
  const sizes = metrics.histogram(
    "rowmajor_inference_batch_size",
    "Rows of one run of a model, without padding",
    COUNTS,
    ["model"],
  );
  const served = new Map<string, Served>();
  for (const [name, entry] of Object.entries(models)) {
    const model = new Served(name, entry, (rows, time) => {
      sizes(rows, { model: name });
      seconds(time, { model: name });
    });
    served.set(name, model);
  }
  metrics.gauge(
    "rowmajor_inference_waiting",
    "Requests that wait for a model",
    () => [...served].map(([model, { queue }]) => [queue.stats.waiting, { model }] as const),
    ["model"],
  );
  return served;
}

/** The body of an error's answer, as the protocol has it. */
export function inferenceError({ message }: HttpError): unknown {
  return { error: message };
}

/** The routes of {@link inference}, for a service that has others besides. */
export function inferenceRoutes(models: InferenceModels, metrics: Metrics): Route[] {
  return routesOf(servedOf(models, metrics));
}

function routesOf(served: ReadonlyMap<string, Served>): Route[] {
  const find = ({ params: { model = "", version } }: Incoming): Served => {
    const found = served.get(model);
    if (found === undefined) throw new HttpError(404, `there is no model ${describe(model)}`);
    if (version === undefined || version === found.version) return found;
    throw new HttpError(404, `model ${describe(model)} has no version ${describe(version)}`);
  };
  const ready = ({ draining }: Incoming, body: unknown): Response => {
    if (draining) throw unavailable("the service is ending", "draining");
    return json(body);
  };
  const infer = async (incoming: Incoming): Promise<Response> => {
    const model = find(incoming);
    const { headers } = incoming.request;
    checkContent(headers);
    const bytes = await incoming.bytes();
    const { id, parameters, feeds, outputs } = readRequest(
      bytes,
      headers.get(LENGTH_HEADER),
      model,
    );
    incoming.note({ model: model.name });
    let values: Values = {};
    try {
      values = await model.run(feeds, incoming.signal);
      const head = { model_name: model.name, model_version: model.version, id, parameters };
      return await writeResponse(head, outputs, values);
    } finally {
      disposeAll(feeds);
      disposeAll(values);
    }
  };
  const metadata = (incoming: Incoming): Response => {
    const { name, version, platform, inputs, outputs } = find(incoming);
    return json({
      ...{ name, versions: [version], platform },
      inputs: inputs.map(metadataOf),
      outputs: outputs.map(metadataOf),
    });
  };
  const errorBody = inferenceError;
  const get = (path: string, answer: Route["answer"], isOpen = false): Route => ({
    ...{ method: "GET", path, isOpen, errorBody, answer },
  });
  return [
    get(
      "/v2",
      () => json({ name: "rowmajor", version: VERSION, extensions: ["binary_tensor_data"] }),
    ),
    get("/v2/health/live", () => json({ live: true }), true),
    get("/v2/health/ready", (incoming) => ready(incoming, { ready: true }), true),
    ...["/v2/models/:model", "/v2/models/:model/versions/:version"].flatMap((path): Route[] => [
      get(path, metadata),
      get(
        `${path}/ready`,
        (incoming) => ready(incoming, { name: find(incoming).name, ready: true }),
      ),
      { method: "POST", path: `${path}/infer`, errorBody, answer: infer },
    ]),
  ];
}

/**
 * Makes a service of the Open Inference Protocol v2, over HTTP with JSON and its extension for binary
 * data: an opened ONNX file, a compiled program, or any function of tensors becomes a model.
 *
 * ONNX models run off the event loop, one run of a model at a time. Bodies and shapes are checked
 * before memory is taken for tensors. `stats.models` has the numbers of each model's queue.
 *
 * @throws {ArgumentError} If a model or an option is not valid.
 *
 * @example
 * ```ts
 * import type { Tensor } from "@rowmajor/tensor";
 * import { inference } from "@rowmajor/tensor/serve";
 *
 * const service = inference({
 *   models: {
 *     double: {
 *       inputs: [{ name: "x", dtype: "float32", shape: ["n"] }],
 *       outputs: [{ name: "y", dtype: "float32", shape: ["n"] }],
 *       run: ({ x }: { x: Tensor }) => ({ y: x.mul(2) }),
 *     },
 *   },
 * });
 * const response = await service.fetch(
 *   new Request("http://localhost/v2/models/double/infer", {
 *     method: "POST",
 *     body: JSON.stringify({
 *       inputs: [{ name: "x", datatype: "FP32", shape: [3], data: [1, 2, 3] }],
 *     }),
 *     headers: { "content-type": "application/json" },
 *   }),
 * );
 * (await response.json()).outputs; // => [{ name: "y", datatype: "FP32", shape: [3], data: [2, 4, 6] }]
 * ```
 */
export function inference(
  { models }: { readonly models: InferenceModels },
  options: ServiceOptions = {},
): Service {
  checkServiceOptions("serve models", options);
  const metrics = new Metrics(options.metrics);
  const served = servedOf(models, metrics);
  const stats = () => ({
    models: Object.fromEntries([...served].map(([name, { queue }]) => [name, queue.stats])),
  });
  return makeService(
    { routes: routesOf(served), metrics, errorBody: inferenceError, parts: [{ stats }] },
    options,
  );
}
