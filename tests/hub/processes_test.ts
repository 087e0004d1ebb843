/**
 * Several processes that download one model at once, of which some are killed: no file is damaged,
 * no process fails, and nothing is left.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { type ChildProcess, spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { root } from "../../scripts/tools.ts";
import { download } from "../../src/hub/mod.ts";
import { amount } from "../support/amount.ts";
import { blobOf, COMMIT, folderOf, type Hub, sha256, WEIGHTS, withHub } from "./support.ts";

const ROUNDS = amount(1, 20);
const PROCESSES = amount(5, 8);
const PIECE = 1 << 14;

/** A program that downloads the model, and prints the checksum of what it finds, or its error. */
const PROGRAM = `
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { download } from ${JSON.stringify(pathToFileURL(join(root, "src/hub/mod.ts")).href)};
const [options] = process.argv.slice(2);
try {
  const folder = await download("org/m", JSON.parse(options));
  const bytes = readFileSync(folder + "/model.safetensors");
  console.log(createHash("sha256").update(bytes).digest("hex"));
} catch (error) {
  console.log(error.stack);
}
`;

/** Sends a file in pieces, each after a turn, and calls `onPiece` with the token and the count. */
function sendInPieces(
  hub: Hub,
  onPiece: (token: string, pieces: number) => void,
): NonNullable<Hub["answer"]> {
  return (path: string, request: IncomingMessage, response: ServerResponse): boolean => {
    const isProbe = request.headers.range === "bytes=0-0";
    if (!path.endsWith("/model.safetensors") || isProbe) return false;
    const token = String(request.headers.authorization).slice("Bearer hf_".length);
    const from = Number(/^bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0);
    hub.seen.push(`${token} ${from}`);
    response.statusCode = from > 0 ? 206 : 200;
    response.setHeader("content-length", WEIGHTS.length - from);
    let at = from;
    const next = (): void => {
      if (at >= WEIGHTS.length) return void response.end();
      response.write(WEIGHTS.subarray(at, at += PIECE));
      onPiece(token, Math.ceil((at - from) / PIECE));
      setTimeout(next, 5);
    };
    next();
    return true;
  };
}

test(`${PROCESSES} processes download at once, and some are killed: ${ROUNDS} rounds`, async () => {
  const counts = { whole: 0, killed: 0, damaged: 0, errors: 0, continued: 0 };
  for (let round = 0; round < ROUNDS; round++) {
    await withHub(async (hub) => {
      const program = join(hub.cache, "program.ts");
      writeFileSync(program, PROGRAM);
      const children = new Map<string, ChildProcess>();
      const start = async (token: string): Promise<void> => {
        const options = { ...hub.options, token: `hf_${token}`, files: ["*.safetensors"] };
        const args = "Deno" in globalThis
          ? ["run", "-A", "--no-check", "--quiet", `--config=${join(root, "deno.json")}`]
          : [];
        const child = spawn(process.execPath, [...args, program, JSON.stringify(options)], {
          cwd: root,
          stdio: ["ignore", "pipe", "pipe"],
        });
        children.set(token, child);
        let output = "";
        child.stdout.on("data", (data) => output += data);
        child.stderr.on("data", (data) => output += data);
        const signal = await new Promise((resolve) => child.on("close", (_, by) => resolve(by)));
        if (signal !== null) counts.killed++;
        else if (output.trim() === sha256(WEIGHTS)) counts.whole++;
        else if (/^[0-9a-f]{64}$/.test(output.trim())) counts.damaged++;
        else {
          counts.errors++;
          console.log(output);
        }
      };
      // Up to three are killed, each after another part, the first one before any other is done.
      hub.answer = sendInPieces(hub, (token, pieces) => {
        const victim = ["p0", "p3", "p6"].indexOf(token);
        if (victim >= 0 && pieces === 2 + 7 * victim + round % 5) {
          children.get(token)!.kill("SIGKILL");
        }
      });
      const tokens = Array.from({ length: PROCESSES }, (_, i) => `p${i}`);
      await Promise.all(tokens.map(start));
      counts.continued += hub.seen.filter((request) => !request.endsWith(" 0")).length;
      const seen = hub.seen.length;
      await start("last");
      assertEquals(hub.seen.length, seen, "the file is there");
      const blobs = readdirSync(join(folderOf(hub), "blobs"));
      assertEquals(blobs, [sha256(WEIGHTS)]);
      assertEquals(sha256(readFileSync(blobOf(hub))), sha256(WEIGHTS));
      assertEquals(readdirSync(join(folderOf(hub), "snapshots", COMMIT)), ["model.safetensors"]);
      assertEquals(readdirSync(join(folderOf(hub), "refs")), ["main"]);
      assertEquals(readFileSync(join(folderOf(hub), "refs", "main"), "utf8"), COMMIT);
    });
  }
  console.log(`${ROUNDS} rounds of ${PROCESSES} processes: ${JSON.stringify(counts)}`);
  assertEquals([counts.damaged, counts.errors], [0, 0]);
  assertEquals(counts.whole + counts.killed, ROUNDS * (PROCESSES + 1));
  assert(counts.whole >= ROUNDS * (PROCESSES - 3 + 1), JSON.stringify(counts));
});

test("a killed program's part is continued, whatever its writer, and then removed", () =>
  withHub(async (hub) => {
    const blobs = join(folderOf(hub), "blobs");
    mkdirSync(blobs, { recursive: true });
    const part = (id: string, bytes: number): string => {
      const path = `${blobOf(hub)}.${id}.incomplete`;
      writeFileSync(path, WEIGHTS.subarray(0, bytes));
      return path;
    };
    const [short, long] = [part("0a", 1000), part("0b", 100_000)];
    // Longer than the file: no part of it.
    writeFileSync(`${blobOf(hub)}.0c.incomplete`, new Uint8Array(WEIGHTS.length + 1));
    // What other checksums left, lately and long ago, and a link that was not renamed.
    const [late, old] = ["d", "e"].map((digit) => join(blobs, `${digit.repeat(40)}.0d.incomplete`));
    const link = `${blobOf(hub)}.0e.link`;
    for (const path of [late!, old!, link]) writeFileSync(path, "x");
    for (const path of [old!, link]) utimesSync(path, 1e9, 1e9);
    const folder = await download("org/m", { ...hub.options, files: ["*.safetensors"] });
    assertEquals(hub.seen, ["model.safetensors 100000"]);
    assertEquals(sha256(readFileSync(join(folder, "model.safetensors"))), sha256(WEIGHTS));
    assertEquals([short, long, old!, link].map(existsSync), [false, false, false, false]);
    assertEquals(
      readdirSync(blobs).sort(),
      [sha256(WEIGHTS), late!.slice(blobs.length + 1)].sort(),
    );
  }));

test("a writer whose part another one has removed finds the file", () =>
  withHub(async (hub) => {
    const blobs = join(folderOf(hub), "blobs");
    let pieces = 0;
    hub.answer = sendInPieces(hub, () => {
      if (++pieces !== 3) return;
      for (const name of readdirSync(blobs)) rmSync(join(blobs, name));
      writeFileSync(blobOf(hub), WEIGHTS);
    });
    const options = { ...hub.options, files: ["*.safetensors"] };
    const folder = await download("org/m", options);
    const inode = statSync(blobOf(hub)).ino;
    assertEquals(statSync(join(folder, "model.safetensors")).ino, inode);

    // Removed, and not finished by the other one: it begins again.
    rmSync(blobOf(hub));
    pieces = 0;
    hub.answer = sendInPieces(hub, () => {
      if (++pieces === 3) { for (const name of readdirSync(blobs)) rmSync(join(blobs, name)); }
    });
    await download("org/m", options);
    assertEquals(hub.seen.length, 3);
    assertEquals(sha256(readFileSync(join(folder, "model.safetensors"))), sha256(WEIGHTS));
    assertEquals(readdirSync(blobs), [sha256(WEIGHTS)]);
  }));

test("files that are there stay, and those of another size are replaced", () =>
  withHub(async (hub) => {
    const options = { ...hub.options, files: ["*.safetensors"] };
    const folder = await download("org/m", options);
    const path = join(folder, "model.safetensors");
    const before = [path, blobOf(hub)].map((name) => statSync(name).ino);
    await download("org/m", options);
    assertEquals([path, blobOf(hub)].map((name) => statSync(name).ino), before);
    truncateSync(blobOf(hub), 1000);
    await download("org/m", options);
    assertEquals(sha256(readFileSync(path)), sha256(WEIGHTS));
    rmSync(path);
    writeFileSync(path, "another");
    await download("org/m", options);
    assertEquals(sha256(readFileSync(path)), sha256(WEIGHTS));
    assertEquals(hub.seen.length, 2);
  }));
