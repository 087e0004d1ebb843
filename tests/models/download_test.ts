/**
 * Ready models by their names on the hub: downloaded when asked for, and found afterwards.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { ArgumentError } from "../../mod.ts";
import type { DownloadProgress } from "../../src/hub/mod.ts";
import { Embedder } from "../../src/models/mod.ts";
import { writeModel } from "../embed/model.ts";
import { text, withHub } from "../hub/support.ts";

test("a model is downloaded if that is asked for, with the modules after its encoder", () =>
  withHub(async (hub) => {
    const folder = mkdtempSync(join(tmpdir(), "rowmajor-downloads-"));
    try {
      await writeModel(folder);
      for (const name of readdirSync(folder)) {
        hub.files[name] = { bytes: new Uint8Array(readFileSync(join(folder, name))) };
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
    const modules = ["Transformer", "Pooling"].map((name, i) => ({
      type: `sentence_transformers.models.${name}`,
      path: i === 0 ? "" : "1_Pooling",
    }));
    hub.files["modules.json"] = text(JSON.stringify(modules));
    hub.files["1_Pooling/config.json"] = text('{"pooling_mode_cls_token": true}');
    await assertRejects(() => Embedder.open("org/m"), ArgumentError, "Cannot find model org/m");
    const progress: DownloadProgress[] = [];
    const download = { ...hub.options, onProgress: (one: DownloadProgress) => progress.push(one) };
    using first = await Embedder.open("org/m", { download });
    assertEquals(progress.at(-1)!.loaded, progress.at(-1)!.total);
    assert(hub.seen.includes("1_Pooling/config.json all"), hub.seen.join());
    const count = hub.seen.length;
    using second = await Embedder.open("org/m", { download });
    assertEquals(hub.seen.length, count);
    using mean = await Embedder.open("org/m", { download, pooling: "mean" });
    const [a, b, c] = await Promise.all(
      [first, second, mean].map((embedder) => embedder.embed("the cat")),
    );
    assertEquals(a, b);
    assert(a!.some((x, i) => Math.abs(x - c![i]!) > 1e-3), "the pooling is that of 1_Pooling");
    await assertRejects(() => Embedder.open("org/none", { download }), Error, "not found");
    for (const wrong of ["yes", 1, null]) {
      await assertRejects(
        () => Embedder.open("org/m", { download: wrong as never }),
        ArgumentError,
        "download",
      );
    }
  }));

test("an aborted download rejects with the reason", () =>
  withHub(async (hub) => {
    const controller = new AbortController();
    const download = {
      ...hub.options,
      onProgress: () => controller.abort(new RangeError("enough")),
    };
    const { signal } = controller;
    await assertRejects(
      () => Embedder.open("org/m", { download, signal }),
      RangeError,
      "enough",
    );
  }));
