/**
 * Files: reading whole ones, and .safetensors tensors on demand.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { arange, io } from "../../mod.ts";
import { DisposedError, FormatError } from "../../src/base/errors.ts";
import { RawSafetensorsFile, readFile, writeFile } from "../../src/io/file.ts";
import { encodeSafetensors } from "../../src/io/safetensors.ts";
import { inDeno, moduleAt, runApart } from "../native/support.ts";
import { loose } from "../support.ts";
import { amount } from "../support/amount.ts";
import { goldenFile } from "./golden.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-io-"));
after(() => rmSync(folder, { recursive: true }));

function put(name: string, bytes: Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

describe("files", () => {
  it("are written and read whole, by path and by URL", async () => {
    const path = join(folder, "whole.bin");
    const bytes = Uint8Array.from({ length: 1000 }, (_, i) => i & 255);
    await writeFile(path, bytes);
    assertEquals(new Uint8Array(readFileSync(path)), bytes);
    assertEquals(await readFile(path), bytes);
    const url = new URL("../golden/io/float32.npy", import.meta.url);
    assertEquals(await readFile(url), goldenFile("float32.npy").bytes);
    assertEquals(await readFile(put("empty.bin", new Uint8Array())), new Uint8Array());
  });

  it("are closed once they are read", {
    skip: !existsSync("/proc/self/fd") && "needs /proc",
  }, async () => {
    const path = put("closes.bin", new Uint8Array(3));
    const before = readdirSync("/proc/self/fd").length;
    for (let i = 0; i < 20; i++) await readFile(path);
    assert(readdirSync("/proc/self/fd").length < before + 10);
  });

  it("are replaced with the permissions in Deno that docs/install.md names, and with fewer", {
    skip: !inDeno && "permissions are Deno's",
  }, () => {
    const [file, link] = [put("old.npy", new Uint8Array(3)), join(folder, "link.npy")];
    chmodSync(file, 0o640);
    symlinkSync("old.npy", link);
    const write = (path: string, allowed: string): unknown[] => {
      const { ino } = statSync(file);
      const program = `import { io, ones } from ${moduleAt("mod.ts")};
        await io.writeNpy(${JSON.stringify(path)}, ones([3]));
        console.log((await io.readNpy(${JSON.stringify(path)})).dtype);`;
      const own = [`--allow-ffi=${folder}`, `--allow-env=HOME`, `--allow-read=${folder}`];
      assertEquals(runApart(program, {}, [...own, `--allow-write=${allowed}`]), "float32\n");
      const { mode, ino: now } = statSync(file);
      assert(lstatSync(link).isSymbolicLink());
      return [mode & 0o777, now === ino];
    };
    // Another file takes its place, which keeps its permissions; if not, it is written itself.
    assertEquals(write(file, folder), [0o640, false]);
    assertEquals(write(link, folder), [0o640, false]);
    assertEquals(write(file, file), [0o640, true]);
    assertEquals(readdirSync(folder).filter((name) => name.endsWith(".new")), []);
  });

  it("that are not there are the system's error", async () => {
    const error = await assertRejects(() => readFile(join(folder, "none")), Error, "ENOENT");
    assert(!(error instanceof FormatError));
    await assertRejects(() => RawSafetensorsFile.open(join(folder, "none")), Error, "ENOENT");
  });

  // Opening a pipe waits for a writer.
  it("that are pipes, folders or devices are refused at once", {
    skip: process.platform === "win32" && "needs Unix",
  }, async () => {
    const pipe = join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
    for (const path of [pipe, folder, "/dev/null"]) {
      for (const read of [io.readNpy, io.readNpz, io.openSafetensors]) {
        await assertRejects(() => read(path) as Promise<unknown>, FormatError, "not a file");
      }
    }
  });
});

describe("safetensors files on demand", () => {
  const { bytes, arrays, metadata } = goldenFile("all.safetensors");

  it("give what the whole file gives, also all at once", async () => {
    const file = await RawSafetensorsFile.open(put("all.safetensors", bytes));
    assertEquals({ ...file.header.metadata }, metadata);
    const read = await Promise.all(Array.from(arrays.keys(), (name) => file.get(name)));
    assertEquals(read, [...arrays.values()]);
    await file.close();
  });

  it("read a tensor's bytes when it is asked for, and no others", async () => {
    const data = new Uint8Array([0, 1]);
    const encode = (second: number): Uint8Array =>
      encodeSafetensors([
        ["a", { dtype: "bool", shape: [2], data }],
        ["b", { dtype: "uint8", shape: [1], data: new Uint8Array([second]) }],
      ]);
    const path = put("lazy.safetensors", encode(1));
    utimesSync(path, 1000, 1000);
    const file = await RawSafetensorsFile.open(path);
    const changed = encode(9);
    changed[changed.length - 1] = 2; // not a bool
    writeFileSync(path, changed);
    // So that nothing shows the change.
    utimesSync(path, 1000, 1000);
    assertEquals((await file.get("b")).data, new Uint8Array([9]));
    await assertRejects(() => file.get("a"), FormatError, "bool byte is 2");
    await file.close();
  });

  it("that are replaced or become longer are a FormatError, not bytes of both", async () => {
    const path = join(folder, "replaced.safetensors");
    await io.writeSafetensors(path, { a: arange(2), b: arange(3) });
    const file = await io.openSafetensors(path);
    assertEquals(loose(await file.get("a")).toArray(), [0, 1]);
    await io.writeSafetensors(path, { a: arange(3), b: arange(2) });
    await assertRejects(() => file.get("b"), FormatError, "has changed since it was opened");

    const longer = await io.openSafetensors(path);
    appendFileSync(path, "x");
    await assertRejects(() => longer.get("b"), FormatError, "has changed since it was opened");
  });

  // A descriptor that is collected would end Bun.
  it("that nothing closes cost no descriptor", async () => {
    const path = join(folder, "open.safetensors");
    await io.writeSafetensors(path, { a: arange(2) });
    const errors: unknown[] = [];
    const note = (error: unknown): void => void errors.push(error);
    process.on("uncaughtException", note);
    try {
      const count = amount(2000, 10_000);
      for (let i = 0; i < count; i++) {
        const file = await io.openSafetensors(path);
        if (i % 100 === 0) assertEquals(loose(await file.get("a")).toArray(), [0, 1]);
      }
      const { Bun } = globalThis as { Bun?: { gc(now: boolean): void } };
      for (let i = 0; i < 4; i++) {
        Bun?.gc(true);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    } finally {
      process.off("uncaughtException", note);
    }
    assertEquals(errors, []);
  });

  it("with a header of many tensors let other code run while it is parsed", async () => {
    const count = amount(40_000, 100_000);
    for (const reversed of [false, true]) {
      const parts = Array.from({ length: count }, (_, k) => {
        const i = reversed ? count - 1 - k : k;
        return `"layer.${i}":{"dtype":"U8","shape":[1],"data_offsets":[${i},${i + 1}]}`;
      });
      const header = new TextEncoder().encode(`{${parts.join(",")}}`);
      const path = join(folder, "many.safetensors");
      const bytes = new Uint8Array(8 + header.length + count).fill(7);
      bytes.set(header, 8);
      new DataView(bytes.buffer).setBigUint64(0, BigInt(header.length), true);
      writeFileSync(path, bytes);
      let turns = 0;
      const timer = setInterval(() => turns++, 0);
      const file = await io.openSafetensors(path);
      clearInterval(timer);
      assert(turns >= 5, `${turns} turns while the file was opened`);
      assertEquals(file.names.length, count);
      assertEquals(file.info(`layer.${count - 1}`).shape, [1]);
      assertEquals((await file.get("layer.31")).toArray(), [7]);
      await file[Symbol.asyncDispose]();
    }
  });

  it("with a fault are closed, and the error names the path", async () => {
    for (const length of [0, 7, 8, 100, bytes.length - 1]) {
      const path = put("cut.safetensors", bytes.subarray(0, length));
      const error = await assertRejects(() => RawSafetensorsFile.open(path), FormatError);
      assertEquals(error.file, path);
    }
  });

  it("that become shorter are a FormatError at the first missing byte", async () => {
    const path = put("shrinks.safetensors", bytes);
    const file = await RawSafetensorsFile.open(path);
    truncateSync(path, bytes.length - 1);
    const error = await assertRejects(() => file.get("bool"), FormatError, "shorter");
    assertEquals(error.offset, bytes.length - 1);
    await file.close();
  });

  it("are closed once, and then a DisposedError", async () => {
    const file = await RawSafetensorsFile.open(put("closed.safetensors", bytes));
    await file.close();
    await file.close();
    await assertRejects(() => file.get("float32"), DisposedError, '"float32"');
    const error = await assertRejects(() => file.get("none"), FormatError, '"none"');
    assertEquals(error.file, join(folder, "closed.safetensors"));
  });
});
