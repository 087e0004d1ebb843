/**
 * Downloads: files, folders and options. The hub is a server of this process.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { ArgumentError, FormatError, ones } from "../../mod.ts";
import { download, type DownloadProgress } from "../../src/hub/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { root } from "../../scripts/tools.ts";
import { type Any, loose } from "../support.ts";
import { blobOf, COMMIT, folderOf, sha256, WEIGHTS, withHub } from "./support.ts";

test("a model is downloaded once, found and opened", () =>
  withHub(async (hub) => {
    const seen: DownloadProgress[] = [];
    const folder = await download("org/m", {
      ...hub.options,
      onProgress: (progress) => seen.push(progress),
    });
    assertEquals(folder, join(folderOf(hub), "snapshots", COMMIT));
    assertEquals(readdirSync(folder).sort(), ["config.json", "model.safetensors"]);
    assertEquals(hub.seen, ["config.json all", "model.safetensors all"]);
    const total = 10 + WEIGHTS.length;
    assertEquals(seen.at(-1), { file: "model.safetensors", loaded: total, total });
    assert(seen.every(({ loaded }, i) => i === 0 || loaded > seen[i - 1]!.loaded));
    assertEquals(readFileSync(join(folderOf(hub), "refs", "main"), "utf8"), COMMIT);
    assertEquals(await nn.findModel("org/m", { cache: hub.cache }), folder);
    using w = await nn.open(folder);
    const a = w.linear("a", 300, 300);
    w.done();
    assertEquals([...a(ones([1, 300])).shape], [1, 300]);

    for (const revision of ["v1", "pr/2", COMMIT]) {
      assertEquals(await download("org/m", { ...hub.options, revision }), folder);
      assertEquals(await nn.findModel("org/m", { cache: hub.cache, revision }), folder);
    }
    assertEquals(hub.seen.length, 2);
    await download("org/m", { ...hub.options, files: ["onnx/*", "*.bin"] });
    assertEquals(hub.seen.slice(2), ["pytorch_model.bin all", "onnx/model.json all"]);
    assertEquals(readFileSync(join(folder, "onnx", "model.json"), "utf8"), "{}");
  }));

test("a download that was cut off continues", () =>
  withHub(async (hub) => {
    const options = { ...hub.options, files: ["*.safetensors"] };
    hub.cutAt = 100_000;
    await assertRejects(() => download("org/m", options), Error);
    const size = statSync(`${blobOf(hub)}.incomplete`).size;
    assert(size > 0 && size <= 100_000, String(size));
    await assertRejects(() => nn.findModel("org/m", { cache: hub.cache }), ArgumentError);
    hub.cutAt = undefined;
    const seen: DownloadProgress[] = [];
    const onProgress = (progress: DownloadProgress): void => void seen.push(progress);
    const folder = await download("org/m", { ...options, onProgress });
    assertEquals(hub.seen, ["model.safetensors all", `model.safetensors ${size}`]);
    assertEquals(seen[0]!.loaded, size);
    assertEquals(readFileSync(join(folder, "model.safetensors")), Buffer.from(WEIGHTS));
    assert(!existsSync(`${blobOf(hub)}.incomplete`));

    // The whole file is there, but has no name yet.
    rmSync(join(folder, "model.safetensors"));
    cpSync(blobOf(hub), `${blobOf(hub)}.incomplete`);
    rmSync(blobOf(hub));
    await download("org/m", options);
    assertEquals(hub.seen.length, 2);
  }));

test("damaged parts, servers that send no parts, and wrong checksums", () =>
  withHub(async (hub) => {
    const options = { ...hub.options, files: ["*.safetensors"] };
    const folder = await download("org/m", options);
    const path = `${blobOf(hub)}.incomplete`;
    const content = (): Uint8Array =>
      new Uint8Array(readFileSync(join(folder, "model.safetensors")));
    rmSync(blobOf(hub));
    writeFileSync(path, new Uint8Array(1000));
    await download("org/m", options);
    assertEquals(hub.seen.slice(1), ["model.safetensors 1000", "model.safetensors all"]);
    assertEquals(sha256(content()), sha256(WEIGHTS));

    cpSync(blobOf(hub), path);
    rmSync(blobOf(hub));
    truncateSync(path, 5000);
    hub.whole = true;
    await download("org/m", options);
    assertEquals(hub.seen.slice(3), ["model.safetensors 5000", "model.safetensors all"]);
    assertEquals(sha256(content()), sha256(WEIGHTS));

    const wrong = "f".repeat(64);
    hub.files["model.safetensors"]!.checksum = wrong;
    await assertRejects(() => download("org/m", options), FormatError, wrong);
    assertEquals(existsSync(join(folderOf(hub), "blobs", `${wrong}.incomplete`)), false);
    hub.files["config.json"]!.checksum = "e".repeat(40);
    await assertRejects(
      () => download("org/m", { ...options, files: ["config.json"] }),
      FormatError,
      "does not have the checksum",
    );
  }));

test("lists that would write elsewhere are refused", () =>
  withHub(async (hub) => {
    const options = { ...hub.options, files: ["*"] };
    for (const listed of ["../x", "a/../../x", "/x", "a\\..\\x", "C:x", "a//b", ".", "x\0"]) {
      hub.files["config.json"]!.listed = listed;
      await assertRejects(() => download("org/m", options), FormatError, "the hub lists the file");
    }
    delete hub.files["config.json"]!.listed;
    for (const checksum of ["../x", "", "e".repeat(41)]) {
      hub.files["config.json"]!.checksum = checksum;
      await assertRejects(() => download("org/m", options), FormatError, "checksum");
    }
    assertEquals(hub.seen, []);
  }));

test("tokens, signals, and what does not exist", () =>
  withHub(async (hub) => {
    hub.token = "hf_secret";
    const small = { ...hub.options, files: ["config.json"] };
    await assertRejects(() => download("org/m", small), Error, "gated");
    await assertRejects(() => download("org/m", { ...small, token: "hf_wrong" }), Error, "gated");
    const folder = await download("org/m", { ...small, token: "hf_secret" });
    assertEquals(readFileSync(join(folder, "config.json"), "utf8"), '{"d": 300}');
    delete hub.token;
    const stop = new AbortController();
    const stopped = download("org/m", {
      ...hub.options,
      signal: stop.signal,
      onProgress: () => stop.abort(new RangeError("enough")),
    });
    await assertRejects(() => stopped, RangeError, "enough");
    await assertRejects(
      () => download("org/m", { ...hub.options, signal: stop.signal }),
      RangeError,
      "enough",
    );
    await assertRejects(() => download("org/none", hub.options), Error, "not found");
    await assertRejects(
      () => download("org/m", { ...hub.options, files: ["*.gguf"] }),
      ArgumentError,
      'none of its 4 files is selected; it has "config.json"',
    );
    const refused = (id: unknown, options: unknown, kind: Any, part: string) =>
      assertRejects(
        () => download(loose(id), { ...hub.options, ...loose(options) }),
        kind,
        part,
      );
    await refused("../m", {}, ArgumentError, "../m");
    await refused("org/m", { revision: "../main" }, ArgumentError, "revision");
    await refused("org/m", { files: "*" }, TypeError, "array");
    await refused("org/m", { branch: "x" }, TypeError, "branch");
  }));

test("without the package, the error tells how to install it", () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "rowmajor-hub-")));
  try {
    cpSync(join(root, "src"), join(folder, "src"), { recursive: true });
    const path = join(folder, "main.ts");
    writeFileSync(
      path,
      'import { download } from "./src/hub/mod.ts";\n' +
        'await download("org/m", { cache: "." }).catch((error) => console.log(error.message));\n',
    );
    const args = "Deno" in globalThis
      ? ["run", "-A", "--quiet", "--no-check", "--no-config", "--cached-only", path]
      : ["--no-install", path];
    const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8" });
    assertStringIncludes(stdout, "npm install @huggingface/hub", stderr);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
