/**
 * The memory of mapped files: shared between threads and processes, unmapped when the garbage
 * collector has found all arrays on it, and what becomes of programs whose files become shorter.
 *
 * Each test has processes of its own. The memory is that which Linux reports.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { arange, io } from "../../mod.ts";
import { found, inDeno, library, moduleAt, runApart, when } from "../native/support.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-mmap-"));
after(() => rmSync(folder, { recursive: true }));

const COUNT = 4_000_000;
const path = join(folder, "weights.safetensors");
const npy = join(folder, "values.npy");
if (found) writeFileSync(npy, io.encodeNpy(arange(1000)));
if (found) writeFileSync(path, io.encodeSafetensors({ w: arange(COUNT), b: arange(1000) }));

const onLinux = { "Linux": process.platform === "linux" };
/** Deno's permissions, and the collector of both runtimes. */
const ALL = ["-A", "--v8-flags=--expose-gc"];

/** The start of programs. */
const BEGIN = `import * as rm from ${moduleAt("mod.ts")};
import { readFileSync } from "node:fs";
const path = ${JSON.stringify(path)};
const npy = ${JSON.stringify(npy)};
function check(what: boolean, said: unknown = ""): void {
  if (!what) throw new Error(String(said));
}
const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));
/** Kilobytes of the pages of the file in this process, by the names that Linux has for them. */
function pages(): Record<string, number> {
  const sums: Record<string, number> = { Size: 0, Rss: 0, Pss: 0, Anonymous: 0 };
  let inside = false;
  for (const line of readFileSync("/proc/self/smaps", "utf8").split("\\n")) {
    if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) inside = line.endsWith(path) || line.endsWith(npy);
    const [, name, value] = /^(\\w+): +(\\d+) kB/.exec(line) ?? [];
    if (inside && name !== undefined) sums[name] = (sums[name] ?? 0) + Number(value);
  }
  return sums;
}
/** Collects what is lost until \`done\`, or for that many rounds. */
async function collect(done: () => boolean, rounds = 200): Promise<boolean> {
  for (let i = 0; i < rounds && !done(); i++) {
    const { gc, Bun } = globalThis as any;
    if (Bun) Bun.gc(true);
    else gc();
    await pause(20);
  }
  return done();
}
const stays = async (what: unknown): Promise<void> => {
  await collect(() => false, 5);
  check(pages().Size! > 0, "unmapped too early: " + what);
};
const goes = async (what: unknown): Promise<void> =>
  check(await collect(() => pages().Size === 0), "still mapped: " + what);
/** The first argument of everything that a worker posts. */
const next = (worker: Worker): Promise<any> =>
  new Promise((done, failed) => {
    worker.onmessage = ({ data }: any) => done(data);
    worker.onerror = failed;
  });
const start = (text: string): Worker =>
  new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })), { type: "module" });
`;

function runs(program: string, permissions: readonly string[] = ALL): string {
  return runApart(BEGIN + program, {}, permissions);
}

test(...when(onLinux, "nothing is read before the first use, and all of it once", () => {
  runs(`const file = await rm.io.mapSafetensors(path);
    const [w, b] = [file.get("w"), file.get("b")];
    const { Size, Rss } = pages();
    // A file system may have pages of up to 2 MiB.
    check(Size! > 15000 && Rss! < 6000, JSON.stringify(pages()));
    check(b.get(999) === 999 && w.get(${COUNT - 1}) === ${COUNT - 1});
    check(pages().Rss < 10000, JSON.stringify(pages()));
    w.max();
    check(pages().Rss > 15000 && pages().Anonymous === 0, JSON.stringify(pages()));
    // A second mapping takes no more memory, and the tensors of all are the same pages.
    const again = await rm.io.mapSafetensors(path);
    again.get("w").max();
    const { Pss, Anonymous, Rss: all } = pages();
    check(all > 30000 && Pss < 17000 && Anonymous === 0, JSON.stringify(pages()));
    // What is written by mistake becomes memory of the process, page by page.
    (w as any).storage.array[5] = 1;
    check(pages().Anonymous <= 64 && pages().Anonymous > 0, JSON.stringify(pages()));`);
}));

test(...when(onLinux, "processes share the memory", () => {
  // Maps the file and uses all of it, while another process has done the same.
  runs(`import { spawnSync } from "node:child_process";
    import process from "node:process";
    const file = await rm.io.mapSafetensors(path);
    check(file.get("w").max().item() === ${COUNT - 1} && file.get("b").max().item() === 999);
    console.log(JSON.stringify(pages()));
    if (process.env.AGAIN !== "1") {
      const [, script] = process.argv;
      const args = (globalThis as any).Deno
        ? ["run", "-A", "--no-check", "--quiet", "--v8-flags=--expose-gc", script!]
        : [script!];
      const { stdout, stderr, status } = spawnSync(process.execPath, args, {
        env: { ...process.env, AGAIN: "1" },
        encoding: "utf8",
      });
      check(status === 0, stderr);
      const [mine, other] = [pages(), JSON.parse(stdout)];
      // Half of the pages count for each process, and neither has any of its own.
      check(other.Rss > 15000 && other.Pss < 9000 && other.Anonymous === 0, stdout);
      check(mine.Rss! > 15000 && mine.Anonymous === 0, JSON.stringify(mine));
    }`);
}));

test(...when(onLinux, "workers share the memory, each with a mapping of its own", () => {
  runs(`const file = await rm.io.mapSafetensors(path);
    file.get("w").max();
    const text = \`
      import { io } from ${moduleAt("mod.ts")};
      const file = globalThis.kept = await io.mapSafetensors(\${JSON.stringify(path)});
      postMessage([file.backing, file.get("w").max().item(), file.get("b").max().item()]);
      setInterval(() => {}, 1000);\`;
    const workers = [1, 2, 3].map(() => start(text));
    for (const answer of await Promise.all(workers.map(next))) {
      check(String(answer) === "mapped,${COUNT - 1},999", answer);
    }
    check(pages().Size > 4 * 15000 && pages().Anonymous === 0, JSON.stringify(pages()));
    for (const worker of workers) worker.terminate();
    check(await collect(() => pages().Size < 2 * 16000), JSON.stringify(pages()));
    check(file.get("w").max().item() === ${COUNT - 1});
    (globalThis as any).process.exit();`);
}));

test(...when(onLinux, "the memory stays as long as an array on it, and no longer", () => {
  runs(`const open = (): Promise<any> => rm.io.mapSafetensors(path);
    const uses: Record<string, (file: any) => () => unknown> = {
      file: (file) => () => file.get("w").get(7) === 7,
      tensor: (file) => (file.get("w").get(0), ((w) => () => w.get(7) === 7)(file.get("w"))),
      "a tensor that is not used before": (file) => ((b) => () => b.get(7) === 7)(file.get("b")),
      view: (file) => ((v) => () => v.max().item() === 8)(file.get("w").slice("5:9")),
      array: (file) => ((a) => () => a[999] === 999)(file.get("b").storage.array),
      "a copy on write": (file) => ((c) => () => c.get(7) === 7)(file.get("w").intoCow()),
      npy: () => () => true,
    };
    // Functions of their own, as engines keep what their frames may still contain.
    async function round(what: string): Promise<void> {
      const use = uses[what]!(await open());
      const x = what === "npy" ? await rm.io.mapNpy(npy) : undefined;
      await stays(what);
      check(use() && (x === undefined || x.max().item() === 999), what);
    }
    for (const what of Object.keys(uses)) {
      await round(what);
      await goes(what);
    }
    await (async () => void await rm.io.mapNpy(path).catch(() => {}))();
    await goes("what was no npy file");`);
}));

test(...when(onLinux, "an array that was given to a worker keeps the memory there", () => {
  runs(`const text = \`
      let kept;
      onmessage = ({ data }) => {
        kept ??= data;
        postMessage([kept.length, kept[0], kept[kept.length - 1]]);
      };\`;
    const worker = start(text);
    async function give(): Promise<any> {
      const file = await rm.io.mapSafetensors(path);
      const w = file.get("w") as any;
      const answer = next(worker);
      const { array } = w.storage;
      worker.postMessage(array, [array.buffer]);
      return answer;
    }
    check(String(await give()) === "${COUNT},0,${COUNT - 1}");
    await stays("given");
    const answer = next(worker);
    worker.postMessage(null);
    check(String(await answer) === "${COUNT},0,${COUNT - 1}");
    worker.terminate();
    await goes("given");
    (globalThis as any).process.exit();`);
}));

test(
  ...when(
    onLinux,
    "a file that becomes shorter while its tensors are in use ends the process",
    () => {
      const short = join(folder, "short.safetensors");
      const program = join(folder, "short.ts");
      writeFileSync(
        program,
        `${BEGIN}
    import { truncateSync, writeFileSync } from "node:fs";
    writeFileSync(${JSON.stringify(short)}, readFileSync(path));
    const w = (await rm.io.mapSafetensors(${JSON.stringify(short)})).get("w");
    check(w.get(7) === 7);
    truncateSync(${JSON.stringify(short)}, 8192);
    console.log("used");
    console.log(w.max().item());`,
      );
      const args = inDeno ? ["run", "-A", "--no-check", "--quiet", program] : [program];
      const env = { ...process.env, ROWMAJOR_LIB: library };
      const { status, signal, stdout } = spawnSync(process.execPath, args, {
        encoding: "utf8",
        env,
      });
      assertEquals(stdout, "used\n");
      // Bun handles the signal itself, and ends with another one.
      if (inDeno) assertEquals(signal, "SIGBUS");
      else assert(signal !== null || status !== 0);
    },
  ),
);

test(...when({ "Deno": inDeno }, "permission for the library alone is enough", () => {
  const said = runs(
    `console.log(rm.info().files, (await rm.io.mapSafetensors(path)).backing);`,
    [`--allow-ffi=${library}`, "--allow-env", `--allow-read=${folder},/proc`],
  );
  assertEquals(said, "mapped mapped\n");
}));

test(...when({ "Deno": inDeno }, "without it, files are read", () => {
  const program = `const [w] = [(await rm.io.mapSafetensors(path)).get("w")];
    rm.setBackend("js");
    console.log(rm.info().files, (await rm.io.mapSafetensors(path)).backing);
    console.log(w.get(3), w.access, (await rm.io.mapNpy(path).catch((error) => error)).name);`;
  const read = `--allow-read=${folder}`;
  const said = runs(program, ["--allow-env", read]);
  const why = `read: not allowed to open ${library}: use --allow-ffi=${library}`;
  assertEquals(said, `${why} ${why}\n3 read FormatError\n`);
  // After the library was opened, but before files are mapped.
  const dropped = `rm.ones([2]).add(1);
    Deno.permissions.revokeSync({ name: "ffi" });
    ${program}`;
  const later = runs(dropped, ["--allow-env", "--allow-ffi", read]);
  assertStringIncludes(later, `read: not allowed to open ${library} any more: use --allow-ffi=`);
  // The library does not read what the program may not.
  const refused = runs(
    `console.log(await rm.io.mapSafetensors(path).catch((error) => error.name));`,
    ["--allow-env", "--allow-ffi"],
  );
  assertEquals(refused, "NotCapable\n");
}));

test(...when({}, "without a library, files are read", () => {
  const said = runApart(
    `${BEGIN}
    rm.setBackend("js");
    const file = await rm.io.mapSafetensors(path);
    console.log(rm.info().files.slice(0, 6), file.backing.slice(0, 6), file.get("w").get(3));`,
    { ROWMAJOR_LIB: "/nowhere/librowmajor.so" },
    ALL,
  );
  assertEquals(said, "read:  read:  3\n");
}));
