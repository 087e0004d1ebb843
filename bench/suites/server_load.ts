/**
 * The load of the suite "server", in a process of its own: connections that send a request, wait and
 * send the next.
 *
 *     bun bench/suites/server_load.ts PORT CONNECTIONS SECONDS
 *
 * Uses a minimal HTTP client on plain sockets: a client that worked as hard as the server would
 * distort the measurement. Compares each answer with the model's. Prints a JSON object.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { connect } from "node:net";
import process from "node:process";
import { loadDigits } from "../../examples/digits/digits.ts";
import { loadLargeModel, probabilities } from "../../examples/digits/large.ts";

/** The result of a run of the load. */
export interface Load {
  readonly requests: number;
  readonly errors: number;
  readonly perSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** A request, and the expected digit. */
interface Question {
  readonly bytes: Buffer;
  readonly digit: number;
}

/** The held-out digits, each as a request. */
async function makeQuestions(): Promise<Question[]> {
  const { heldOut } = await loadDigits();
  const digits = probabilities(await loadLargeModel(), heldOut.images).argmax(1).toArray();
  return heldOut.images.toArray().map((data, i) => {
    const input = { name: "images", datatype: "FP32", shape: [1, 64], data };
    const body = JSON.stringify({ inputs: [input] });
    const head = `POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    return { bytes: Buffer.from(head + body, "latin1"), digit: digits[i]! };
  });
}

/** The digit of an answer. */
function digitOf(text: string): number {
  const shares = (/"data":\[([^\]]*)\]/.exec(text)?.[1] ?? "").split(",").map(Number);
  return shares.indexOf(Math.max(...shares));
}

/**
 * Sends requests on one connection until `end`; collects latencies in milliseconds, and counts
 * errors.
 */
function ask(
  port: number,
  questions: readonly Question[],
  first: number,
  end: number,
): Promise<{ latencies: number[]; errors: number }> {
  return new Promise((resolve) => {
    const latencies: number[] = [];
    let [errors, next, begin, text] = [0, first, 0, ""];
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    const send = () => {
      if (performance.now() >= end) return void socket.end();
      text = "";
      begin = performance.now();
      socket.write(questions[++next % questions.length]!.bytes);
    };
    socket.setEncoding("latin1");
    socket.on("connect", send);
    socket.on("data", (part) => {
      text += part;
      const head = text.indexOf("\r\n\r\n");
      if (head < 0) return;
      const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1]);
      if (text.length < head + 4 + length) return;
      latencies.push(performance.now() - begin);
      const right = text.startsWith("HTTP/1.1 200 ") &&
        digitOf(text) === questions[next % questions.length]!.digit;
      if (!right) errors++;
      send();
    });
    socket.on("error", () => errors++);
    socket.on("close", () => {
      // An answer still pending when the server closes is an error, too.
      if (performance.now() < end) errors++;
      resolve({ latencies, errors });
    });
  });
}

/** Puts a server under load. */
async function load(port: number, connections: number, seconds: number): Promise<Load> {
  const questions = await makeQuestions();
  const begin = performance.now();
  const end = begin + seconds * 1000;
  const runs = await Promise.all(
    Array.from({ length: connections }, (_, i) => ask(port, questions, 7 * i, end)),
  );
  const elapsed = (performance.now() - begin) / 1000;
  const latencies = Float64Array.from(runs.flatMap((run) => run.latencies)).sort();
  const at = (share: number) => latencies[Math.floor(share * (latencies.length - 1))] ?? NaN;
  return {
    requests: latencies.length,
    errors: runs.reduce((sum, run) => sum + run.errors, 0),
    perSecond: latencies.length / elapsed,
    p50: at(0.5),
    p99: at(0.99),
    max: at(1),
  };
}

if (import.meta.main) {
  const [port, connections, seconds] = process.argv.slice(2).map(Number);
  console.log(JSON.stringify(await load(port!, connections!, seconds!)));
  process.exit(0);
}
