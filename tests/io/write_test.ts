/**
 * Writing files: one takes the place of the old one as a whole, or the old one stays.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { Buffer } from "node:buffer";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { arange, io } from "../../mod.ts";
import { loose } from "../support.ts";
import { amount } from "../support/amount.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-write-"));
after(() => rmSync(folder, { recursive: true }));
const unix = process.platform !== "win32";
const inDeno = "Deno" in globalThis;

test("a write replaces the file as a whole, and keeps links and permissions", async () => {
  const path = join(folder, "written.npy");
  const url = pathToFileURL(path);
  await io.writeNpy(path, arange(3));
  if (unix) chmodSync(path, 0o666);
  const before = statSync(path);
  await io.writeNpy(url, arange(4));
  assertEquals(loose(await io.readNpy(url)).toArray(), [0, 1, 2, 3]);
  if (unix) {
    assertEquals(statSync(path).mode & 0o777, 0o666);
    assert(statSync(path).ino !== before.ino, "the new file takes the place of the old one");
    const link = join(folder, "link.npy");
    symlinkSync(path, link);
    await io.writeNpy(link, arange(2));
    assert(lstatSync(link).isSymbolicLink());
    assertEquals(loose(await io.readNpy(path)).toArray(), [0, 1]);
  }
  const all = Array.from({ length: 8 }, (_, i) => io.writeNpy(path, arange(1000 * (i + 1))));
  await Promise.all(all);
  assertEquals((await io.readNpy(path)).shape[0]! % 1000, 0);
  await assertRejects(() => io.writeNpy(join(folder, "none", "x.npy"), arange(2)));
  assertEquals(readdirSync(folder).filter((name) => name.endsWith(".new")), []);
});

test("a program that is killed while it writes leaves the old file or the new one", {
  skip: !unix && "needs Unix",
}, async () => {
  const path = join(folder, "killed.npy");
  await io.writeNpy(path, arange(1000));
  const script = join(folder, "writes.ts");
  writeFileSync(
    script,
    `import { full, io } from ${JSON.stringify(new URL("../../mod.ts", import.meta.url).href)};
    for (let i = 0;; i++) {
      await io.writeNpy(${JSON.stringify(path)}, full([200_000], i));
      if (i === 0) console.log("begins");
    }`,
  );
  const args = inDeno ? ["run", "-A", "--no-check", script] : [script];
  const points = amount(4, 50);
  for (let i = 0; i < points; i++) {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    await new Promise((resolve) => child.stdout.once("data", resolve));
    await new Promise((resolve) => setTimeout(resolve, 3 + 28 * i / points));
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
    const x = await io.readNpy(path);
    assertEquals(x.shape, [200_000]);
    assert(loose(x).equal(x.slice(0)).all().item());
  }
});

/** A program that runs in a namespace of its own after `mount`, where "$0" is `at`. */
function withMount(mount: string, at: string, command: string, args: readonly string[]) {
  return spawnSync("unshare", ["-rm", "sh", "-c", `${mount} && exec "$@"`, at, command, ...args], {
    encoding: "utf8",
  });
}

/** A program that runs on a file system of 1 MB, mounted at `at`. */
function onSmallDisk(at: string, command: string, args: readonly string[]) {
  return withMount('mount -t tmpfs -o size=1m tmpfs "$0"', at, command, args);
}

const disk = join(folder, "disk");
mkdirSync(disk);
const mounted = onSmallDisk(disk, "true", []);
const noDisk = mounted.status !== 0 &&
  `no small file system can be mounted: ${mounted.error?.message ?? mounted.stderr.trim()}`;

test("a full disk leaves the old file, and nothing beside it", { skip: noDisk }, () => {
  const script = join(folder, "fills.ts");
  writeFileSync(
    script,
    `import { readdirSync, writeFileSync } from "node:fs";
    import { full, io } from ${JSON.stringify(new URL("../../mod.ts", import.meta.url).href)};
    const disk = ${JSON.stringify(disk)};
    const x = full([10_000], 1), large = full([300_000], 2);
    const formats = {
      npy: [io.writeNpy, (x) => x, io.readNpy],
      npz: [io.writeNpz, (x) => ({ x }), async (path) => (await io.readNpz(path)).x],
      safetensors: [io.writeSafetensors, (x) => ({ x }),
        async (path) => (await io.openSafetensors(path)).get("x")],
    };
    const said = {};
    for (const [name, [write, of, read]] of Object.entries(formats)) {
      const path = disk + "/x." + name;
      await write(path, of(x));
      const errors = [];
      for (const to of [path, disk + "/new." + name]) {
        await write(to, of(large)).catch((error) => errors.push(error.code));
      }
      said[name] = [errors, (await read(path)).equals(x)];
    }
    console.log(JSON.stringify([said, readdirSync(disk).sort()]));`,
  );
  const args = inDeno ? ["run", "-A", "--no-check", script] : [script];
  const { status, stdout, stderr } = onSmallDisk(disk, process.execPath, args);
  assertEquals([status, stderr], [0, ""]);
  const each = [["ENOSPC", "ENOSPC"], true];
  assertEquals(JSON.parse(stdout), [
    { npy: each, npz: each, safetensors: each },
    ["x.npy", "x.npz", "x.safetensors"],
  ]);
});

test("a file that no other can replace is written itself", { skip: noDisk }, async () => {
  const shared = join(folder, "shared");
  mkdirSync(shared);
  const path = join(shared, "x.npy");
  await io.writeNpy(path, arange(3));
  const script = join(folder, "writes-mounted.ts");
  writeFileSync(
    script,
    `import { arange, io } from ${JSON.stringify(new URL("../../mod.ts", import.meta.url).href)};
    await io.writeNpy(${JSON.stringify(path)}, arange(Number(process.argv[2])));`,
  );
  const args = inDeno ? ["run", "-A", "--no-check", script] : [script];
  const file = 'mount --bind "$0"/x.npy "$0"/x.npy';
  const readOnly = `mount --bind "$0" "$0" && ${file} && mount -o remount,ro,bind "$0"`;
  for (const [mount, size] of [[file, 4], [readOnly, 5]] as const) {
    const outcome = withMount(mount, shared, process.execPath, [...args, String(size)]);
    assertEquals([outcome.status, outcome.stderr], [0, ""]);
    assertEquals(loose(await io.readNpy(path)).toArray(), Array.from(Array(size).keys()));
  }
  assertEquals(readdirSync(shared), ["x.npy"]);
});

test("a file with a name of 255 bytes is written", async () => {
  const path = join(folder, "x".repeat(251) + ".npy");
  await io.writeNpy(path, arange(2));
  assertEquals(loose(await io.readNpy(path)).toArray(), [0, 1]);
});

test("a pipe is written, and stays one", { skip: !unix && "needs Unix" }, async () => {
  const pipe = join(folder, "written");
  execFileSync("mkfifo", [pipe]);
  const reader = spawn("cat", [pipe], { stdio: ["ignore", "pipe", "inherit"] });
  const chunks: Uint8Array[] = [];
  reader.stdout.on("data", (chunk) => chunks.push(chunk));
  const ended = new Promise((resolve) => reader.once("close", resolve));
  await io.writeNpy(pipe, arange(3));
  await ended;
  assert(statSync(pipe).isFIFO());
  assertEquals(loose(io.decodeNpy(Buffer.concat(chunks))).toArray(), [0, 1, 2]);
});
