/**
 * The contents of /metrics, kept by prom-client, the Prometheus client for JavaScript, which
 * implements histograms correctly and runs in both runtimes without native code.
 *
 * @module
 */
import process from "node:process";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { info, memory } from "../../mod.ts";

/** The metrics of one server. */
export interface Metrics {
  /** The text for Prometheus. */
  text(): Promise<string>;
  /** The media type of the text. */
  readonly contentType: string;
  /** One request was answered. */
  request(path: string, code: number, seconds: number): void;
  /** One batch was classified. */
  batch(size: number, seconds: number): void;
  /** The event loop was late for a timer. */
  late(seconds: number): void;
}

const LATENCIES = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

/** New metrics; each read calls `queue` and `inFlight`. */
export function makeMetrics(now: { queue(): number; inFlight(): number }): Metrics {
  const registers = [new Registry()];
  const [registry] = registers as [Registry];
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({ name, help, registers, collect: () => void made[name]!.set(value()) });
  const made: Record<string, Gauge> = {};
  const requests = new Counter({
    name: "digits_requests_total",
    help: "Requests answered, by path and status code",
    labelNames: ["path", "code"],
    registers,
  });
  const latency = new Histogram({
    name: "digits_request_seconds",
    help: "From a request's headers to its answer, for /classify",
    buckets: LATENCIES,
    registers,
  });
  const batchSize = new Histogram({
    name: "digits_batch_size",
    help: "Images classified in one call",
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
    registers,
  });
  const inference = new Histogram({
    name: "digits_inference_seconds",
    help: "Time of one call of the model",
    buckets: [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1],
    registers,
  });
  const lateness = new Histogram({
    name: "digits_event_loop_lateness_seconds",
    help: "How late a timer of the event loop fired",
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 1],
    registers,
  });
  let latest = 0;
  const takeLatest = () => {
    const value = latest;
    latest = 0;
    return value;
  };
  for (
    const [name, help, value] of [
      ["digits_queue_length", "Images that wait for a batch", now.queue],
      ["digits_in_flight_requests", "Requests accepted and not answered yet", now.inFlight],
      ["digits_event_loop_lateness_max_seconds", "The same, the most since last asked", takeLatest],
      ["digits_tensor_bytes", "Memory of tensors", () => memory().bytes],
      ["digits_resident_bytes", "Memory of the process", () => process.memoryUsage().rss],
    ] as const
  ) made[name] = gauge(name, help, value);
  new Counter({
    name: "process_cpu_seconds_total",
    help: "Time of the processor that the process has used",
    registers,
    collect() {
      const { user, system } = process.cpuUsage();
      this.reset();
      this.inc((user + system) / 1e6);
    },
  });
  new Gauge({
    name: "digits_backend_info",
    help: "What computes: the backend on the CPU and its instruction set; always 1",
    labelNames: ["backend", "level", "runtime"],
    registers,
    collect() {
      const { devices, level, runtime } = info();
      this.set({ backend: devices.cpu, level: level ?? "", runtime }, 1);
    },
  });

  return {
    text: () => registry.metrics(),
    contentType: registry.contentType,
    request(path, code, seconds) {
      requests.inc({ path, code: String(code) });
      if (path === "/classify") latency.observe(seconds);
    },
    batch(size, seconds) {
      batchSize.observe(size);
      inference.observe(seconds);
    },
    late(seconds) {
      latest = Math.max(latest, seconds);
      lateness.observe(seconds);
    },
  };
}
