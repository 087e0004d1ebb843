/**
 * Counters, gauges and histograms for Prometheus, which the package `prom-client` keeps. The program
 * gives that package, so that a service without metrics does not need it.
 *
 * @module
 */
import { ArgumentError } from "../../base/errors.ts";
import { describe } from "../../base/text.ts";

/** Values of labels by their names. */
export type Labels = Readonly<Record<string, string>>;

/** A metric as the package `prom-client` takes it. */
export interface PromMetric {
  /** Its name. */
  name: string;
  /** What it measures. */
  help: string;
  /** The names of its labels. */
  labelNames?: string[];
  /** The upper bounds of a histogram's buckets. */
  buckets?: number[];
  /** The registries of the metric: none, as the service adds it to its own. */
  registers?: never[];
  /** Called before the metric is read. */
  collect?: () => void;
}

/** A list of metrics of `prom-client`. */
export interface PromRegistry {
  /** The media type of the text. */
  readonly contentType: string;
  /** All metrics as text. */
  metrics(): Promise<string>;
  /** Adds a metric. */
  registerMetric(metric: object): void;
}

/** The package `prom-client`: `import * as prom from "prom-client"`. */
export interface PromClient {
  /** Makes a list of metrics. */
  readonly Registry: new () => PromRegistry;
  /** Makes a counter. */
  readonly Counter: new (
    metric: PromMetric,
  ) => { inc(labels: Record<string, string>, value?: number): void; reset(): void };
  /** Makes a gauge. */
  readonly Gauge: new (
    metric: PromMetric,
  ) => { set(labels: Record<string, string>, value: number): void };
  /** Makes a histogram. */
  readonly Histogram: new (
    metric: PromMetric,
  ) => { observe(labels: Record<string, string>, value: number): void };
}

/** Bounds in seconds for times of requests. */
export const SECONDS: readonly number[] = [
  ...[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
];
/** Bounds of counts: powers of two. */
export const COUNTS: readonly number[] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

function checked(client: PromClient): PromClient {
  const given: Partial<Record<string, unknown>> = { ...client };
  for (const name of ["Registry", "Counter", "Gauge", "Histogram"]) {
    if (typeof given[name] === "function") continue;
    throw new ArgumentError(
      `Cannot serve with metrics ${describe(client)}: they are the package prom-client, ` +
        `which exports ${name}`,
    );
  }
  return client;
}

/** The metrics of a service; without `prom-client` nothing is kept. */
export class Metrics {
  readonly #client: PromClient | undefined;
  readonly #registry: PromRegistry | undefined;

  constructor(client: PromClient | undefined) {
    this.#client = client && checked(client);
    this.#registry = this.#client && new this.#client.Registry();
  }

  /** Whether there is `prom-client`. */
  get isKept(): boolean {
    return this.#client !== undefined;
  }

  /** A function that adds to a counter, whose name ends in `_total`. */
  counter(
    name: string,
    help: string,
    labelNames: string[] = [],
  ): (labels?: Labels, value?: number) => void {
    if (this.#client === undefined) return () => {};
    const counter = new this.#client.Counter({ name, help, labelNames, registers: [] });
    this.#registry?.registerMetric(counter);
    return (labels = {}, value = 1) => counter.inc(labels, value);
  }

  /** A function that adds a value to a histogram. */
  histogram(
    name: string,
    help: string,
    buckets: readonly number[],
    labelNames: string[] = [],
  ): (value: number, labels?: Labels) => void {
    if (this.#client === undefined) return () => {};
    const histogram = new this.#client.Histogram({
      ...{ name, help, labelNames },
      buckets: [...buckets],
      registers: [],
    });
    this.#registry?.registerMetric(histogram);
    return (value, labels = {}) => histogram.observe(labels, value);
  }

  /** Adds values that are read when the metrics are: each with its labels. */
  gauge(
    name: string,
    help: string,
    read: () => number | readonly (readonly [number, Labels])[],
    labelNames: string[] = [],
  ): void {
    if (this.#client === undefined) return;
    const gauge = new this.#client.Gauge({
      ...{ name, help, labelNames },
      registers: [],
      collect() {
        const values = read();
        const list = typeof values === "number" ? [[values, {}] as const] : values;
        for (const [value, labels] of list) gauge.set(labels, value);
      },
    });
    this.#registry?.registerMetric(gauge);
  }

  /** Adds counts that something else keeps, and that are read when the metrics are. */
  total(
    name: string,
    help: string,
    read: () => number | readonly (readonly [number, Labels])[],
    labelNames: string[] = [],
  ): void {
    if (this.#client === undefined) return;
    const counter = new this.#client.Counter({
      ...{ name, help, labelNames },
      registers: [],
      collect() {
        counter.reset();
        const values = read();
        const list = typeof values === "number" ? [[values, {}] as const] : values;
        for (const [value, labels] of list) counter.inc(labels, value);
      },
    });
    this.#registry?.registerMetric(counter);
  }

  /** All metrics as a response; undefined without `prom-client`. */
  async response(): Promise<Response | undefined> {
    if (this.#registry === undefined) return undefined;
    const headers = { "content-type": this.#registry.contentType };
    return new Response(await this.#registry.metrics(), { headers });
  }
}
