/**
 * Requests of several processes: begun by a foreign call, and ended while JavaScript goes on.
 *
 * The library tells of ends through Node-API; where that is missing, a timer asks for them.
 *
 * @module
 */
import type { TypedArray } from "../../base/dtype.ts";
import { COLLECTIVE_AT, REQUEST, type Shim, STATUS } from "./abi.ts";
import { shimPath } from "./load.ts";
import { openModule } from "./node_api.ts";
import { host } from "./runtime.ts";
import { lastError } from "./text.ts";

/**
 * A request that failed: the text of the library, the rank at fault or −1, and whether MPI may still use
 * the memory of the request.
 */
export class RequestFailure {
  readonly status: number;
  readonly text: string;
  readonly peer: number;
  readonly inUse: boolean;

  constructor(status: number, text: string, peer: number, inUse: boolean) {
    this.status = status;
    this.text = text;
    this.peer = peer;
    this.inUse = inUse;
  }
}

interface Pending {
  readonly resolve: (results: Float64Array) => void;
  readonly reject: (failure: RequestFailure) => void;
  /** The memory that the library uses. */
  readonly kept: readonly unknown[];
}

/** Asks for ends so often where the library cannot tell of them. */
const POLL_MS = 1;

/** Promises that are settled at once give way to timers so often. */
const TURN_MS = 2;

/** The requests of this thread of JavaScript. */
export class Requests {
  readonly #shim: Shim;
  readonly #pending = new Map<number, Pending>();
  #watch: ((name: number) => void) | null | undefined;
  #lastTurn = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(shim: Shim) {
    this.#shim = shim;
  }

  /**
   * Begins a request; the promise has its results, or is rejected with a {@link RequestFailure}. Its
   * arrays stay referenced until then.
   */
  start(
    numbers: Float64Array,
    out: TypedArray | null,
    input: TypedArray | null,
  ): Promise<Float64Array> {
    return new Promise((resolve, reject) => {
      // Engines may move small arrays until code asks for their buffer.
      const kept = [out, input, out?.buffer, input?.buffer];
      const status = this.#shim.rm_distributed(REQUEST.start, numbers, out, input);
      if (status !== STATUS.ok) {
        reject(new RequestFailure(status, lastError(this.#shim), -1, false));
        return;
      }
      const name = numbers[0]!;
      this.#pending.set(name, { resolve, reject, kept });
      if (numbers[1] === 1 && performance.now() - this.#lastTurn < TURN_MS) {
        this.#take(name);
        return;
      }
      const watch = this.#open();
      if (watch !== null) watch(name);
      else this.#poll();
    });
  }

  /** Runs a request while this thread waits; returns its results, or throws its failure. */
  wait(
    numbers: Float64Array,
    out: TypedArray | null = null,
    input: TypedArray | null = null,
  ): Float64Array {
    const status = this.#shim.rm_distributed(REQUEST.wait, numbers, out, input);
    if (status === STATUS.ok) return numbers;
    throw this.#failure(status, numbers);
  }

  /** Fails the world, and all requests from now on, for the reason `text`. */
  fail(text: string): void {
    const bytes = new TextEncoder().encode(`${text}\0`);
    this.#shim.rm_distributed(REQUEST.fail, new Float64Array(1), null, bytes);
  }

  #open(): ((name: number) => void) | null {
    if (this.#watch !== undefined) return this.#watch;
    this.#watch = null;
    const path = shimPath(this.#shim);
    if (path === undefined || !host.may("ffi", path)) return null;
    try {
      const { listen } = openModule(this.#shim, path, "requests");
      const make = listen as
        | ((ended: (name: number) => void) => (name: number) => void)
        | undefined;
      this.#watch = make?.((name) => this.#end(name)) ?? null;
    } catch {
      // A timer does as well.
    }
    return this.#watch;
  }

  #poll(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      for (const name of [...this.#pending.keys()]) this.#end(name);
      if (this.#pending.size > 0) this.#poll();
    }, POLL_MS);
  }

  #end(name: number): void {
    this.#lastTurn = performance.now();
    this.#take(name);
  }

  #take(name: number): void {
    const request = this.#pending.get(name);
    if (request === undefined) return;
    const numbers = new Float64Array(COLLECTIVE_AT.numbers);
    numbers[0] = name;
    const status = this.#shim.rm_distributed(REQUEST.take, numbers, null, null);
    if (status === STATUS.notFound) return;
    this.#pending.delete(name);
    if (status === STATUS.ok) return request.resolve(numbers);
    request.reject(this.#failure(status, numbers));
  }

  #failure(status: number, numbers: Float64Array): RequestFailure {
    const inUse = numbers[COLLECTIVE_AT.count]! > 0;
    return new RequestFailure(status, lastError(this.#shim), numbers[COLLECTIVE_AT.peer]!, inUse);
  }
}
