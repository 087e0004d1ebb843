/**
 * Runs programs off the event loop, on the queue thread of the shim.
 *
 * The queue itself is here: the shim sees one job at a time. Knows nothing of tensors.
 *
 * @module
 */
import { ArgumentError, QueueFullError } from "../../base/errors.ts";
import { type Shim, STATUS, type Unavailable } from "../ffi/abi.ts";
import { findQueue, openQueue, type Submit } from "../ffi/queue.ts";
import type { Frame, IndexFault } from "./program.ts";

/** The largest number of jobs in a queue, unless it is set. */
export const QUEUE_LIMIT = 1024;

/** Options of a job. */
export interface JobOptions {
  /** Drops the job if it has not started. */
  readonly signal?: AbortSignal | undefined;
  /** The first call to run. */
  readonly from?: number;
  /** The call before which to stop. */
  readonly to?: number;
}

interface Job {
  readonly frame: Frame;
  readonly address: number;
  readonly from: number;
  readonly to: number;
  readonly signal: AbortSignal | undefined;
  readonly drop: (() => void) | undefined;
  readonly resolve: (fault: IndexFault | null) => void;
  readonly reject: (reason: unknown) => void;
}

/** Jobs of one thread of JavaScript, which run in order. */
export class JobQueue {
  /** The largest number of jobs, the running one included. */
  readonly limit: number;
  readonly #shim: Shim;
  readonly #waiting: Job[] = [];
  #running: Job | null = null;
  #submit: Submit | Unavailable | undefined;

  /** Makes an empty queue. The thread starts with the first job. */
  constructor(shim: Shim, limit: number = QUEUE_LIMIT) {
    if (!Number.isSafeInteger(limit) || limit < 1) {
      throw new ArgumentError(`Cannot make a queue of at most ${limit} jobs`);
    }
    this.#shim = shim;
    this.limit = limit;
  }

  /** The number of jobs that have not ended. */
  get pending(): number {
    return this.#waiting.length + (this.#running === null ? 0 : 1);
  }

  /**
   * Why jobs run on the event loop instead; null if they run on the queue thread, as far as that is
   * known without opening it.
   */
  get refusal(): Unavailable | null {
    const known = this.#submit ?? findQueue(this.#shim);
    return typeof known === "object" ? known : null;
  }

  /** Why jobs run on the event loop instead; null if they run on the queue thread, which it opens. */
  get unavailable(): Unavailable | null {
    const submit = this.#open();
    return typeof submit === "function" ? null : submit;
  }

  /**
   * Runs a frame after all jobs before. The frame must not be used until the promise settles; its
   * arrays stay referenced, and their elements may change at any time until then.
   *
   * Settles as {@link Frame.run} returns or throws. Rejects with a QueueFullError if the queue has
   * {@link limit} jobs, and with the reason of the signal if it aborts before the job starts.
   */
  submit(frame: Frame, options: JobOptions = {}): Promise<IndexFault | null> {
    const { signal, from = 0, to = frame.program.spec.calls.length } = options;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (this.pending >= this.limit) throw new QueueFullError(this.limit);
      const address = frame.lend(from, to);
      const drop = signal && ((): void => this.#drop(job));
      const job: Job = { frame, address, from, to, signal, drop, resolve, reject };
      if (this.#running === null) this.#start(job);
      else {
        this.#waiting.push(job);
        if (drop) signal.addEventListener("abort", drop, { once: true });
      }
    });
  }

  #open(): Submit | Unavailable {
    return this.#submit ??= openQueue(this.#shim, (status) => this.#end(status));
  }

  #drop(job: Job): void {
    this.#waiting.splice(this.#waiting.indexOf(job), 1);
    job.frame.takeBack();
    job.reject(job.signal!.reason);
  }

  #start(job: Job): void {
    const { address, from, to } = this.#running = job;
    const submit = this.#open();
    if (typeof submit === "function" && submit(address, from, to) === STATUS.ok) return;
    // In a task of its own, so that timers and sockets take turns with jobs.
    setTimeout(() => this.#end(this.#shim.rm_program_run(address, from, to)), 0);
  }

  #end(status: number): void {
    const { frame, resolve, reject } = this.#running!;
    this.#running = null;
    frame.takeBack();
    try {
      resolve(status === STATUS.ok ? null : frame.fault(status));
    } catch (error) {
      reject(error);
    }
    const next = this.#waiting.shift();
    if (next === undefined) return;
    if (next.drop) next.signal!.removeEventListener("abort", next.drop);
    this.#start(next);
  }
}
