/**
 * The library that a package contains, and its cache folder: simultaneous starts, damaged files,
 * folders that are not trusted or not writable.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { HOST, stageForExecutable, TARGETS } from "../../scripts/release/package.ts";
import { findTool } from "../../scripts/tools.ts";
import { explained } from "../../src/backend/ffi/load.ts";
import { when } from "../native/support.ts";
import { amount } from "../support/amount.ts";
import {
  inDeno,
  librariesIn,
  program,
  report,
  run,
  temporary,
  type Told,
  told,
} from "./support.ts";

const stage = temporary();
after(() => {
  report();
  stage[Symbol.dispose]();
});
const unix = process.platform !== "win32";
const root = process.getuid?.() === 0;
const always = { [`a library for ${HOST}`]: HOST in TARGETS };
const libraries = librariesIn(stage.path);
const [library, kernels] = libraries[HOST]!;
const staged = join(stage.path, "package");
const main = join(stage.path, "main.ts");
stageForExecutable(staged, HOST, libraries);
writeFileSync(main, program("./package/mod.ts"));
// One module, as a runtime would open two hundred at each start.
const bundled = join(stage.path, "main.mjs");
const build = ["build", "--target=node", `--outfile=${bundled}`, main];
const built = await run(findTool("bun"), build, { cwd: stage.path });
assertEquals(built.code, 0, built.stderr);

/** Starts the program with a cache of its own. */
async function start(env: Record<string, string>, permissions: string[] = ["-A"]): Promise<Told> {
  const args = inDeno ? ["run", "--no-check", "--no-prompt", ...permissions, bundled] : [bundled];
  const outcome = await run(process.execPath, args, { cwd: stage.path, env });
  assertEquals(outcome.stderr, "");
  return told(outcome);
}

/** The path of the library in a cache. */
function placeIn(cache: string): string {
  return join(cache, library!.sha256, library!.name);
}

/** Throws unless `cache` contains the library and its companion, whole, and nothing else. */
function assertHolds(cache: string): void {
  assertEquals(readdirSync(cache), [library!.sha256]);
  const files = readdirSync(join(cache, library!.sha256)).sort();
  assertEquals(files, [library!.name, kernels!.name].sort());
  assertEquals(readFileSync(placeIn(cache)), readFileSync(library!.path));
  if (unix) assertEquals(lstatSync(placeIn(cache)).mode & 0o777, 0o600);
}

/**
 * A test with a folder of its own, with a cache and a temporary folder in it; skipped if a
 * condition is not met.
 */
function inFolder(
  name: string,
  body: (
    places: { cache: string; temporary: string; env: Record<string, string> },
  ) => Promise<void>,
  conditions: Readonly<Record<string, boolean>> = {},
): void {
  test(...when({ ...always, ...conditions }, name, async () => {
    using folder = temporary();
    const [cache, temp] = [join(folder.path, "cache"), join(folder.path, "temporary")];
    mkdirSync(temp);
    const names = unix ? ["TMPDIR"] : ["TEMP", "TMP"];
    const env = Object.fromEntries(names.map((name) => [name, temp]));
    await body({ cache, temporary: temp, env: { ...env, ROWMAJOR_CACHE: cache } });
  }));
}

inFolder(
  "processes that start at once on an empty cache all run natively",
  async ({ cache, env }) => {
    const length = amount(4, 8);
    const all = await Promise.all(Array.from({ length }, () => start(env)));
    assertEquals(all.map(({ cpu }) => cpu), Array(length).fill("native"));
    assertHolds(cache);
    if (!unix) return;
    for (const path of [cache, join(cache, library!.sha256)]) {
      assertEquals(lstatSync(path).mode & 0o777, 0o700, path);
    }
  },
);

inFolder(
  "a damaged, a short and a missing file are put there again, others are left",
  async ({ cache, env }) => {
    assertEquals((await start(env)).cpu, "native");
    const path = placeIn(cache);
    const before = lstatSync(path);
    assertEquals((await start(env)).cpu, "native");
    assertEquals(lstatSync(path).ino, before.ino, "an intact library stays");

    const bytes = readFileSync(path);
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(path, bytes);
    assertEquals((await start(env)).cpu, "native");
    assertHolds(cache);

    // What a process left that was killed is removed, unless its writer may live.
    const [old, late] = ["new-old", "new-late"].map((name) => join(cache, name));
    for (const left of [old!, late!]) writeFileSync(left, "part");
    utimesSync(old!, 1e9, 1e9);
    truncateSync(path, 1000);
    assertEquals((await start(env)).cpu, "native");
    assertEquals([existsSync(old!), existsSync(late!)], [false, true]);
    rmSync(late!);
    assertHolds(cache);

    truncateSync(join(cache, library!.sha256, kernels!.name), 10);
    assertEquals((await start(env)).cpu, "native");
    const kept = readFileSync(join(cache, library!.sha256, kernels!.name));
    assertEquals(kept, readFileSync(kernels!.path));
  },
);

inFolder("a cache that cannot be trusted is not used", async ({ cache, temporary, env }) => {
  const other = join(temporary, `rowmajor-${process.getuid!()}`);
  /** Starts with a bad cache: the library is kept in the temporary folder. */
  const assertAvoided = async (): Promise<void> => {
    assertEquals((await start(env)).cpu, "native");
    assertHolds(other);
    assert(!existsSync(placeIn(cache)));
  };
  const real = join(temporary, "elsewhere");
  mkdirSync(real, { mode: 0o700 });
  symlinkSync(real, cache);
  await assertAvoided();
  assertEquals(readdirSync(real), []);

  // cache_folders_test.ts has more of them.
  for (const mode of [0o777, 0o770].slice(0, amount(1, 2))) {
    const open = `${cache}-${mode}`;
    mkdirSync(open);
    chmodSync(open, mode);
    assertEquals((await start({ ...env, ROWMAJOR_CACHE: open })).cpu, "native");
    assertEquals(readdirSync(open), []);
  }
  // The folder at the second place has to be trusted too.
  chmodSync(other, 0o777);
  const refused = await start(env);
  assertEquals(refused.cpu, "wasm");
  assertStringIncludes(refused.native, `${cache} is a link, not a folder`);
  assertStringIncludes(refused.native, `others can write into ${other}`);
}, { "Unix": unix });

inFolder("a cache that belongs to another user is not used", async ({ cache, env }) => {
  mkdirSync(cache, { mode: 0o755 });
  chownSync(cache, 12345, 12345);
  assertEquals((await start(env)).cpu, "native");
  assertEquals(readdirSync(cache), []);
  const narrow = [...inDeno ? ["--allow-ffi", "--allow-env", `--allow-read=${cache}`] : []];
  if (!inDeno) return;
  // Without the permission to query the user, a new file shows it, or it is unknown.
  for (const write of [[], [`--allow-write=${cache}`]]) {
    const { cpu, native } = await start(env, [...narrow, ...write]);
    assertEquals(cpu, "wasm");
    assertStringIncludes(native, `${cache} belongs to another user`);
    assertEquals(readdirSync(cache), []);
  }
}, { "to be root, who can give folders away": root });

inFolder(
  "where nothing can be written WebAssembly serves, and a filled cache still does",
  async ({ cache, temporary, env }) => {
    const file = join(temporary, "file");
    writeFileSync(file, "");
    const nowhere = join(file, "cache");
    const names = unix ? ["TMPDIR"] : ["TEMP", "TMP"];
    const blocked: Record<string, string> = { ...env, ROWMAJOR_CACHE: nowhere };
    for (const name of names) blocked[name] = nowhere;
    const { cpu, native } = await start(blocked);
    assertEquals(cpu, "wasm");
    assertStringIncludes(native, `cannot keep the library in ${nowhere}: `);

    assertEquals((await start(env)).cpu, "native");
    for (const name of names) env[name] = nowhere;
    chmodSync(join(cache, library!.sha256), 0o500);
    chmodSync(cache, 0o500);
    assertEquals((await start(env)).cpu, "native");
    if (inDeno) {
      const read = ["--allow-ffi", "--allow-env", `--allow-read=${cache}`];
      assertEquals((await start(env, read)).cpu, "native");
    }
    chmodSync(cache, 0o700);
    chmodSync(join(cache, library!.sha256), 0o700);
    assertHolds(cache);
  },
);

inFolder(
  "an empty cache that cannot be written leaves it to the temporary folder",
  async ({ temporary, env }) => {
    const fixed = join(temporary, "fixed");
    mkdirSync(fixed, { mode: 0o500 });
    assertEquals((await start({ ...env, ROWMAJOR_CACHE: fixed })).cpu, "native");
    assertHolds(join(temporary, `rowmajor-${process.getuid!()}`));
  },
  // Root can write into all.
  { "Unix, and not to be root": unix && !root },
);

inFolder("a program that may not use the cache is told what to allow", async ({ cache, env }) => {
  const needed = `--allow-ffi=${cache} --allow-read=${cache} --allow-write=${cache}`;
  for (
    const permissions of [
      ["--allow-ffi"],
      ["--allow-ffi=/elsewhere", `--allow-read=${cache}`],
      [`--allow-ffi=${cache}`, `--allow-read=${cache}`],
    ]
  ) {
    const { cpu, native } = await start(env, ["--allow-env", ...permissions]);
    assertEquals(cpu, "wasm");
    assertStringIncludes(
      native,
      `not allowed to keep the library in ${cache}: use -A, or ${needed}`,
      permissions.join(" "),
    );
    assert(!existsSync(cache));
  }
}, { "Deno": inDeno });

inFolder(
  "without HOME the temporary folder serves; XDG_CACHE_HOME and HOME are used",
  async ({ temporary, env }) => {
    const { ROWMAJOR_CACHE: cache, ...rest } = env;
    assertEquals((await start(rest)).cpu, "native");
    assertHolds(join(temporary, `rowmajor-${process.getuid!()}`));

    assertEquals((await start({ ...rest, HOME: cache! })).cpu, "native");
    const inHome = process.platform === "darwin" ? "Library/Caches/rowmajor" : ".cache/rowmajor";
    assertHolds(join(cache!, inHome));

    const named = join(cache!, "xdg");
    assertEquals((await start({ ...rest, HOME: cache!, XDG_CACHE_HOME: named })).cpu, "native");
    assertHolds(join(named, "rowmajor"));
  },
  // Windows has LOCALAPPDATA.
  { "Unix": unix },
);

inFolder("what a package lacks, or holds damaged, is a reason", async ({ cache, env }) => {
  const path = join(stage.path, "damaged.ts");
  const load = pathToFileURL(join(staged, "src/backend/ffi/load.ts")).href;
  const files = [library!, { ...library!, sha256: "0".repeat(64) }];
  writeFileSync(
    path,
    `import { openCarried } from ${JSON.stringify(load)};
    import { content } from "./package/src/backend/ffi/native/${HOST}.ts";
    const reasons = [
      openCarried({ files: [], content: () => content }),
      openCarried({ files: ${JSON.stringify(files.slice(1))}, content: () => content }),
      openCarried({ files: ${JSON.stringify(files.slice(0, 1))}, content: () => undefined }),
    ];
    console.log(JSON.stringify(reasons.map(({ reason }) => reason)));`,
  );
  const args = inDeno ? ["run", "--no-check", "-A", path] : [path];
  const { stdout, stderr } = await run(process.execPath, args, { cwd: stage.path, env });
  assertEquals(stderr, "");
  const [none, damaged, missing] = JSON.parse(stdout) as string[];
  assertEquals(none, `there is no native library for ${HOST} in this package`);
  assertStringIncludes(damaged!, `${library!.name} of the package is damaged`);
  assertStringIncludes(missing!, `${library!.name} could not be fetched`);
  assertEquals(readdirSync(cache), []);
});

const onLinux = { "Linux": process.platform === "linux" };

test(...when(onLinux, "what the system says of a library is explained", () => {
  const old = "/lib/libc.so.6: version `GLIBC_2.17' not found (required by librowmajor.so)";
  const musl = "Error loading shared library libdl.so.2: No such file or directory";
  for (const text of [old, musl]) {
    assertStringIncludes(explained(text), "needs glibc 2.17 or newer");
  }
  const noexec = "librowmajor.so: failed to map segment from shared object";
  assertStringIncludes(explained(noexec), "mounted noexec");
  const other = "librowmajor.so: cannot open shared object file: No such file or directory";
  assertEquals(explained(other), other);
}));
