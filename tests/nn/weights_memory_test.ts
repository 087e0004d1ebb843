/**
 * The memory of weights: what layers hold and free, loading in steps, tensors that change before they
 * are loaded.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import {
  DeviceError,
  DisposedError,
  FormatError,
  io,
  memory,
  ones,
  OutOfMemoryError,
  scope,
} from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { memories, MIRROR } from "../device/mirror.ts";
import { removeFolder } from "../native/support.ts";
import { type Any, loose } from "../support.ts";
import { assertNear, normal, numbers, report } from "./weights.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-weights-"));
after(() => removeFolder(folder));

describe("memory", () => {
  const device = loose(MIRROR);
  const file = { "a.weight": normal(1, [8, 4]), "a.bias": ones([8]), b: ones([4]) };
  const inUse = (): number => memory(device).bytes;

  it("nothing stays allocated after a fault, nor after dispose", () => {
    const before = inUse();
    const failed: Any = nn.weights(file, { device });
    failed.tensor("b");
    scope(() => void failed.linear("a", 8, 4)(ones([1, 4]).to(device)));
    assert(inUse() > before);
    failed.linear("c", 8, 4);
    report(failed);
    assertEquals(inUse(), before);

    const w: Any = nn.weights(file, { device, dtype: "float16" });
    const [a, n] = [w.linear("a", 8, 4), w.rmsNorm("a.bias", 8)];
    w.tensor("b", [4]);
    assertThrows(() => n(ones([1, 8])), FormatError);
    w.at("a.bias").dispose();
    assertThrows(() => w.done(), FormatError);
    assertEquals(inUse(), before);
    assertThrows(() => a(ones([1, 4])), DisposedError);
  });

  it("a layer holds what it needs, and frees it", () => {
    const before = inUse();
    const w: Any = nn.weights(file, { device });
    const [a, b] = [w.linear("a", 8, 4), w.tensor("b")];
    w.done();
    const bytes = 4 * (8 * 4 + 8 + 4);
    assertEquals(inUse() - before, bytes);
    a.dispose();
    assertEquals(inUse() - before, 16);
    assertThrows(() => a(ones([1, 4])), DisposedError, "layer a: it was disposed");
    b.dispose();
    w.dispose();
    w.dispose();
    assertEquals(inUse(), before);
    {
      using v: Any = nn.weights(file, { device });
      const fused = nn.fuse(v.linear("a", 8, 4), v.linear("a", 8, 4));
      v.done({ ignore: ["b"] });
      assertEquals(inUse() - before, 2 * 4 * (8 * 4 + 8));
      fused.dispose();
      assertEquals(inUse(), before);
    }
    using v: Any = nn.weights(file, { device });
    v.linear("a", 8, 4);
    v.done({ ignore: ["b"] });
    v.dispose();
    assertEquals(inUse(), before);
  });

  it("a copy to a device or a cast that fails leaves nothing behind", async () => {
    const path = join(folder, "w.safetensors");
    await io.writeSafetensors(path, file);
    const before = inUse();
    const mirror = memories[0]!;
    using w: Any = await nn.open(path, { device });
    using cast: Any = await nn.open(path, { device, dtype: "float64" });
    const fail = (): never => {
      throw new DeviceError("the device has failed");
    };
    mirror.write = fail;
    try {
      assertThrows(() => w.tensor("b"), DeviceError, "failed");
    } finally {
      delete (mirror as Partial<typeof mirror>).write;
    }
    assertEquals(inUse(), before);
    // Room for the tensor of the file, and not for the cast one.
    mirror.limit = 16;
    try {
      assertThrows(() => cast.tensor("b"), OutOfMemoryError);
    } finally {
      mirror.limit = Infinity;
    }
    assertEquals(inUse(), before);
  });

  it("load runs in steps, and stops at a signal", async () => {
    const open = (): Any => {
      const w: Any = nn.weights(file, { device });
      return [w, w.linear("a", 8, 4), w.rmsNorm("late", 4)];
    };
    const whole: Any = nn.weights(file, { device });
    const [a, c] = [whole.linear("a", 8, 4), whole.linear("a", 8, 4, { bias: false })];
    const seen: nn.LoadProgress[] = [];
    let turns = 0;
    const timer = setInterval(() => turns++, 0);
    await whole.load({ ignore: ["b"], onProgress: (progress: Any) => seen.push(progress) });
    clearInterval(timer);
    assertEquals(seen, [{ loaded: 160, total: 288 }, { loaded: 288, total: 288 }]);
    assert(turns > 0);
    scope(() => assertNear(a(ones([1, 4]).to(device)), c(ones([1, 4]).to(device)).add(1)));
    whole.dispose();
    const [faulty] = open();
    await assertRejects(() => faulty.load(), FormatError, "late.weight");
    const stopped: Any = nn.weights(file, { device });
    const layer = stopped.linear("a", 8, 4);
    const b = stopped.tensor("b");
    const controller = new AbortController();
    const promise = stopped.load({
      signal: controller.signal,
      onProgress: () => controller.abort(new RangeError("enough")),
    });
    await assertRejects(() => promise, RangeError, "enough");
    await assertRejects(() => stopped.load({ signal: controller.signal }), DisposedError);
    await assertRejects(() => whole.load(loose({ abort: 1 })), TypeError, "abort");
    assert(b.isDisposed);
    assertThrows(() => layer(ones([1, 4])), DisposedError, "layer a");
  });

  it("tensors that weights() was given may change until they are loaded, and not be disposed", () => {
    const x: Any = ones([2, 2]);
    using w = nn.weights({ "a.weight": x });
    const a = w.linear("a", 2, 2, { bias: false });
    x.mul_(2);
    w.done();
    x.fill_(0);
    assertEquals(numbers(a(ones([1, 2]))), [4, 4]);
    const v = nn.weights({ "a.weight": x });
    v.linear("a", 2, 2, { bias: false });
    x.dispose();
    assertThrows(() => v.done(), DisposedError, "a.weight");
  });

  it("bytes of no tensors", async () => {
    using w = await nn.open(io.encodeSafetensors({}));
    assertEquals(w.names(), []);
    w.done();
  });
});
