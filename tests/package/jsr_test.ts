/**
 * The package on JSR: imported by Deno from a local registry, with the permissions of
 * docs/install.md and without any; and as files, in either runtime.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { HOST, stageJsr } from "../../scripts/release/package.ts";
import { root } from "../../scripts/tools.ts";
import { check, inDeno, librariesIn, program, report, run, temporary, told } from "./support.ts";
import { type Registry, startRegistry } from "./registry.ts";

const stage = temporary();
after(() => {
  report();
  stage[Symbol.dispose]();
});
const staged = join(stage.path, "jsr");
await stageJsr(staged, librariesIn(stage.path));
const NATIVE = `/native/${HOST}.js`;

/** Starts a program of an empty folder that imports from a registry, which sees a new machine. */
interface Machine {
  readonly registry: Registry;
  /** The folder of the library in the cache. */
  readonly cache: string;
  start(
    source: string,
    permissions: readonly string[],
  ): Promise<{ stdout: string; stderr: string }>;
  /** Deletes all downloaded modules. */
  forget(): void;
  [Symbol.asyncDispose](): Promise<void>;
}

async function newMachine(): Promise<Machine> {
  const folder = temporary();
  const [home, modules, empty] = ["home", "modules", "empty"].map((name) =>
    join(folder.path, name)
  );
  for (const path of [home!, empty!]) mkdirSync(path);
  const registry = await startRegistry(staged);
  const windows = process.platform === "win32";
  const names = windows ? ["LOCALAPPDATA"] : ["HOME"];
  const env = {
    ...Object.fromEntries(names.map((name) => [name, home!])),
    DENO_DIR: modules!,
    DENO_NO_UPDATE_CHECK: "1",
    JSR_URL: registry.url,
  };
  const inHome = windows ? "" : process.platform === "darwin" ? "Library/Caches" : ".cache";
  return {
    registry,
    cache: join(home!, inHome, "rowmajor"),
    start: async (source, permissions) => {
      writeFileSync(join(empty!, "main.ts"), source);
      const args = ["run", "--quiet", "--no-check", ...permissions, "main.ts"];
      const outcome = await run(process.execPath, args, { cwd: empty!, env });
      assertEquals(outcome.code, 0, outcome.stderr);
      return outcome;
    },
    forget: () => rmSync(modules!, { recursive: true }),
    [Symbol.asyncDispose]: async () => {
      await registry.close();
      folder[Symbol.dispose]();
    },
  };
}

const PROGRAM = program("jsr:@rowmajor/tensor");

const LINE = /^deno run (.*) main\.ts$/m.exec(
  readFileSync(join(root, "docs", "install.md"), "utf8"),
)![1]!;

/** The permissions in docs/install.md, for this system and this cache. */
function documented(cache: string): string[] {
  const variable = process.platform === "win32" ? "LOCALAPPDATA" : "HOME";
  return LINE.replaceAll("$HOME/.cache/rowmajor", cache).replace("=HOME", `=${variable}`).split(
    " ",
  );
}

const inDenoOnly = inDeno ? check : test.skip;

inDenoOnly(
  "jsr: the library is fetched once, kept, and serves from then on (needs Deno)",
  async () => {
    await using machine = await newMachine();
    const { registry, cache } = machine;
    const asked = (): string[] => registry.asked.filter((path) => path.startsWith("/native/"));
    const first = told({ code: 0, ...await machine.start(PROGRAM, documented(cache)) });
    assertEquals([first.cpu, first.native], ["native", "in use"]);
    assertEquals(asked().sort(), [NATIVE, NATIVE.replace(HOST, "kernels")].sort());
    assertEquals(readdirSync(cache).length, 1);

    // Everything else is downloaded again, and writing is not permitted: the library is there.
    registry.asked.length = 0;
    machine.forget();
    const reading = documented(cache).filter((flag) => !flag.startsWith("--allow-write"));
    assertEquals(told({ code: 0, ...await machine.start(PROGRAM, reading) }).cpu, "native");
    assert(registry.asked.includes("/core.js"));
    assertEquals(asked(), []);
  },
);

inDenoOnly(
  "jsr: without permissions JavaScript serves, unasked, and says why (needs Deno)",
  async () => {
    await using machine = await newMachine();
    const { registry, cache } = machine;
    for (
      const [flags, reason] of [
        [[], "use -A, or --allow-env=HOME --allow-ffi="],
        [["--allow-ffi"], /not allowed to know (HOME|LOCALAPPDATA).*use -A, or .*--allow-env=\1/],
        [["--allow-ffi", "--allow-env"], `use -A, or --allow-ffi=${cache} --allow-read=${cache}`],
        [documented(cache).filter((flag) => !flag.startsWith("--allow-ffi")), "--allow-ffi="],
      ] as const
    ) {
      // A prompt would end up in the output, and be refused.
      const { stdout, stderr } = await machine.start(PROGRAM, flags);
      assertEquals(stderr, "");
      const { cpu, native } = told({ code: 0, stdout, stderr });
      assertEquals(cpu, "wasm");
      if (typeof reason === "string") assertStringIncludes(native, reason);
      else assertMatch(native, reason);
    }
    assertEquals(registry.asked.filter((path) => path.startsWith("/native/")), []);
    assert(!existsSync(cache));
  },
);

inDenoOnly(
  "jsr: a library that cannot be fetched is a reason; one can be fetched ahead (needs Deno)",
  async () => {
    await using machine = await newMachine();
    const { registry, cache } = machine;
    registry.broken = /\/native\//;
    const { cpu, native } = told({ code: 0, ...await machine.start(PROGRAM, documented(cache)) });
    assertEquals(cpu, "wasm");
    assertStringIncludes(native, "could not be fetched");

    registry.broken = undefined;
    const ahead = `import "jsr:@rowmajor/tensor/native/${HOST}";\n${PROGRAM}`;
    await machine.start(ahead, []);
    registry.broken = /./;
    assertEquals(told({ code: 0, ...await machine.start(ahead, documented(cache)) }).cpu, "native");
  },
);

check("the package for JSR runs as files, with parts of their own", async () => {
  using folder = temporary();
  const path = join(folder.path, "main.ts");
  const at = (name: string): string => JSON.stringify(pathToFileURL(join(staged, name)).href);
  writeFileSync(
    path,
    `import { encodeNpy, decodeNpy } from ${at("src/io/mod.js")};
    import { key, uniform } from ${at("src/api/random.js")};
    if (decodeNpy(encodeNpy(uniform(key(1), [3]))).shape[0] !== 3) throw new Error("no tensor");
    ${program(pathToFileURL(join(staged, "mod.js")).href)}`,
  );
  const args = inDeno ? ["run", "--no-check", "-A", path] : [path];
  const env = { ROWMAJOR_CACHE: join(folder.path, "cache") };
  if (inDeno) {
    // Deno reads the module with the library only with a permission, which the reason names.
    const plain = join(folder.path, "plain.ts");
    writeFileSync(plain, program(pathToFileURL(join(staged, "mod.js")).href));
    const cache = env.ROWMAJOR_CACHE;
    const flags = ["ffi", "read", "write"].map((what) => `--allow-${what}=${cache}`);
    const start = (more: string[]): ReturnType<typeof run> => {
      const args = ["run", "--quiet", "--no-check", "--allow-env", ...flags, ...more, plain];
      return run(process.execPath, args, { cwd: folder.path, env });
    };
    const { cpu, native } = told(await start([]));
    assertEquals(cpu, "wasm");
    const [flag] = /--allow-read=\S+/.exec(native)!;
    assertEquals(told(await start([flag])).cpu, "native");
    rmSync(cache, { recursive: true });
  }
  for (let n = 0; n < 2; n++) {
    const outcome = await run(process.execPath, args, { cwd: folder.path, env });
    assertEquals(told(outcome).cpu, "native");
  }
});
