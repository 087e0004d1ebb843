/**
 * The folders in which the library of a package is kept, and from which it is loaded: only those
 * that no other user can change. cache_test.ts starts programs with them.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { brotliCompressSync } from "node:zlib";
import { type Carried, findIntact, keep } from "../../src/backend/ffi/cache.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-cache-"));
after(() => rmSync(folder, { recursive: true }));
const onUnix = { skip: process.platform !== "win32" ? false : "needs Unix" };
const asRoot = {
  skip: process.getuid?.() === 0 ? false : "needs root, who can give folders away",
};

const bytes = new TextEncoder().encode("a library");
const FILES = [{
  name: "library.so",
  size: bytes.length,
  sha256: createHash("sha256").update(bytes).digest("hex"),
}] as const;
const carried: Carried = {
  files: FILES,
  content: () => ({ "library.so": brotliCompressSync(bytes).toString("base64") }),
};

/** What becomes of the library with `cache` as the named folder: its path, or a reason. */
async function kept(cache: string): Promise<string> {
  const before = process.env.ROWMAJOR_CACHE;
  process.env.ROWMAJOR_CACHE = cache;
  try {
    const intact = await findIntact(FILES);
    const [place] = keep(carried);
    const result = typeof place === "string" ? place : place!.reason;
    if (intact?.startsWith(cache)) assertEquals(intact, result);
    return result;
  } finally {
    if (before === undefined) delete process.env.ROWMAJOR_CACHE;
    else process.env.ROWMAJOR_CACHE = before;
  }
}

/** A new folder of that mode. */
function makeFolder(name: string, mode: number): string {
  const path = join(folder, name);
  mkdirSync(path);
  chmodSync(path, mode);
  return path;
}

test(
  "no library is kept where other users can write: in parents, targets of links, the folder",
  onUnix,
  async () => {
    const good = await kept(join(folder, "good"));
    assertEquals(good, join(folder, "good", FILES[0].sha256, "library.so"));
    assertEquals(await kept(join(folder, "good")), good);

    for (const mode of [0o777, 0o775]) {
      const open = makeFolder(`open-${mode}`, mode);
      assertStringIncludes(await kept(join(open, "cache")), `others can write into ${open}`);
      mkdirSync(join(open, "deep"), { mode: 0o700 });
      assertStringIncludes(
        await kept(join(open, "deep", "cache")),
        `others can write into ${open}`,
      );
      const link = join(folder, `link-${mode}`);
      symlinkSync(open, link);
      assertStringIncludes(await kept(join(link, "deep")), `others can write into ${open}`);
      assert(!existsSync(join(open, "deep", FILES[0].sha256)));
    }
    const sticky = makeFolder("sticky", 0o1777);
    assertStringIncludes(await kept(join(sticky, "cache")), "library.so");

    chmodSync(dirname(good), 0o777);
    assertStringIncludes(
      await kept(join(folder, "good")),
      `others can write into ${dirname(good)}`,
    );
    chmodSync(dirname(good), 0o700);
    // A file that others could change, or a link, is replaced.
    chmodSync(good, 0o666);
    assertEquals(await kept(join(folder, "good")), good);
    assertEquals(lstatSync(good).mode & 0o777, 0o600);
    const elsewhere = join(folder, "elsewhere.so");
    writeFileSync(elsewhere, bytes);
    unlinkSync(good);
    symlinkSync(elsewhere, good);
    assertEquals(await kept(join(folder, "good")), good);
    assert(lstatSync(good).isFile());
    assertEquals(readFileSync(good), Buffer.from(bytes));

    const linked = join(folder, "linked");
    mkdirSync(linked, { mode: 0o700 });
    symlinkSync(dirname(good), join(linked, FILES[0].sha256));
    assertStringIncludes(await kept(linked), "is not a folder");
  },
);

test(
  "no library is kept or loaded where a parent, the folder or the file is another user's",
  asRoot,
  async () => {
    const parent = makeFolder("foreign", 0o755);
    const cache = join(parent, "cache");
    const good = await kept(cache);
    assertStringIncludes(good, "library.so");
    chownSync(parent, 12345, 12345);
    assertStringIncludes(await kept(cache), `${parent} belongs to another user`);
    chownSync(parent, 0, 0);
    chownSync(dirname(good), 12345, 12345);
    assertStringIncludes(await kept(cache), `others can write into ${dirname(good)}`);
    chownSync(dirname(good), 0, 0);
    chownSync(good, 12345, 12345);
    assertEquals(await kept(cache), good);
    assertEquals(lstatSync(good).uid, 0);
  },
);
