/**
 * Resizing, samples at places and windows with places as ONNX defines them, on all backends.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import {
  arange,
  ArgumentError,
  DTypeError,
  IndexError,
  ones,
  random,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { maxPoolIndices } from "../../src/ops/conv/pool.ts";
import { gridSample } from "../../src/ops/image/grid_sample.ts";
import { nonMaxSuppression, roiAlign } from "../../src/ops/image/roi_align.ts";
import { resize } from "../../src/ops/image/resample.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { testOnnxCases } from "./onnx_golden.ts";
import { BACKENDS, using } from "./table/backends.ts";

const byteOf = (c: string): number => c.charCodeAt(0);

testOnnxCases("resize", 1e-4, ({ attributes, inputs }, [x]) => {
  const numbers = (k: number, to: Any): number[] | undefined => {
    const given = inputs[k];
    if (given === undefined || given === null) return undefined;
    const bytes = Uint8Array.from(atob(given.data), byteOf);
    return Array.from(new to(bytes.buffer), Number);
  };
  const rank = x.rank as number;
  const axes: number[] = attributes.axes ?? Array.from({ length: rank }, (_, i) => i);
  const [roi, scales] = [numbers(1, Float32Array), numbers(2, Float32Array)];
  const sizes = numbers(3, BigInt64Array);
  const list = axes.map((axis, i) => ({
    axis,
    to: sizes === undefined ? Math.floor(x.shape[axis]! * scales![i]!) : sizes[i]!,
    ...scales && { scale: scales[i]! },
    ...roi && { roi: [roi[i]!, roi[i + axes.length]!] as const },
  }));
  return [resize("resize", x, list, {
    mode: attributes.mode ?? "nearest",
    coordinates: attributes.coordinate_transformation_mode,
    nearest: attributes.nearest_mode,
    cubicCoeff: attributes.cubic_coeff_a,
    excludeOutside: attributes.exclude_outside === 1,
    antialias: attributes.antialias === 1,
    extrapolationValue: attributes.extrapolation_value,
  })];
});

testOnnxCases("grid_sample", 2e-5, ({ attributes }, [x, grid]) => [
  gridSample("gridSample", x, grid, {
    mode: attributes.mode,
    padding: attributes.padding_mode,
    alignCorners: attributes.align_corners === 1,
    cubicCoeff: -0.75,
  }),
]);

testOnnxCases("max_pool", 0, ({ attributes }, [x]) => {
  const kernel: number[] = attributes.kernel_shape;
  const rank = kernel.length;
  const windows = kernel.map((size, i) => ({
    size,
    stride: attributes.strides?.[i] ?? 1,
    dilation: attributes.dilations?.[i] ?? 1,
    before: attributes.pads?.[i] ?? 0,
    after: attributes.pads?.[i + rank] ?? 0,
    ceil: attributes.ceil_mode === 1,
    padded: false,
  }));
  return maxPoolIndices("maxPool", x, windows, {
    columnMajor: attributes.storage_order === 1,
    whole: true,
  });
});

testOnnxCases("roi_align", 1e-5, ({ attributes }, [x, boxes, batch]) => [
  roiAlign("roiAlign", x, boxes, batch, {
    bins: [attributes.output_height, attributes.output_width],
    samplingRatio: attributes.sampling_ratio,
    spatialScale: attributes.spatial_scale,
    halfPixel: attributes.coordinate_transformation_mode === "half_pixel",
    mode: attributes.mode,
  }),
]);

testOnnxCases("boxes", 0, ({ attributes, inputs: given }, [boxes, scores]) => {
  const [most] = new BigInt64Array(Uint8Array.from(atob(given[2]!.data), byteOf).buffer);
  const [overlap, least] = [3, 4].map((k) =>
    new Float32Array(Uint8Array.from(atob(given[k]!.data), byteOf).buffer)[0]!
  );
  return [nonMaxSuppression("nonMaxSuppression", boxes, scores, {
    maxOutput: Number(most),
    iouThreshold: overlap!,
    scoreThreshold: least!,
    centers: attributes.center_point_box === 1,
  })];
}, false);

const SAMPLE = {
  mode: "linear",
  padding: "zeros",
  alignCorners: false,
  cubicCoeff: -0.75,
} as const;

for (const { name, on } of BACKENDS) {
  test(`images of other dtypes, views and no elements, ${name}`, () =>
    using(on, () => {
      const device = loose(typeof on === "string" ? on : "cpu");
      const x = loose(tensor([[[[1, 2], [3, 4]]]])).to(device);
      const axes = [{ axis: 2, to: 4 }, { axis: 3, to: 3 }];
      const wanted = loose(resize("resize", x, axes, { mode: "linear" })).toArray();
      for (const dtype of ["float16", "bfloat16", "float64"] as const) {
        const made: Any = resize("resize", x.astype(dtype), axes, { mode: "linear" });
        assertEquals([made.dtype, made.toArray()], [dtype, wanted]);
      }
      const flipped: Any = resize("resize", x.flip(3), axes, { mode: "linear" });
      assertEquals(flipped.flip(3).toArray(), wanted);
      const integers: Any = resize("resize", x.astype("uint8"), axes, { mode: "nearest" });
      assertEquals(integers.toArray(), [[[[1, 1, 2], [1, 1, 2], [3, 3, 4], [3, 3, 4]]]]);
      const none: Any = resize("resize", loose(zeros([0, 2])).to(device), [{ axis: 1, to: 5 }], {
        mode: "cubic",
      });
      assertEquals([...none.shape], [0, 5]);
      const grid = loose(tensor([[[[0.5, 0.5], [-0.5, 9]]]])).to(device);
      assertEquals(loose(gridSample("gridSample", x, grid, SAMPLE)).toArray(), [[[[4, 0]]]]);
      const half: Any = gridSample("gridSample", x.astype("float16"), grid, SAMPLE);
      assertEquals([half.dtype, half.toArray()], ["float16", [[[[4, 0]]]]]);
      const pooled = (from: Any): Any =>
        maxPoolIndices("maxPool", from, [
          { size: 2, stride: 1, dilation: 1, before: 0, after: 0, ceil: false, padded: false },
        ]);
      const nan = loose(tensor([[1, NaN, NaN, 3, 3]])).to(device);
      const [values, places] = pooled(nan);
      assertEquals(values.toArray(), [[NaN, NaN, NaN, 3]]);
      assertEquals(places.toArray(), [[1, 1, 2, 3]]);
      const [least] = pooled(loose(tensor([[-5, -7, -9]], { dtype: "int8" })).to(device));
      assertEquals(least.toArray(), [[-5, -7]]);
    }));
}

test("boxes far larger than an image take the work of the image", () => {
  const x = loose(arange(16)).reshape([1, 1, 4, 4]).add(1);
  const batch = tensor([0, 0, 0, 0], { dtype: "int32" });
  // The sum of all samples in the image is that of its elements, about 136, over as many as the box has.
  const boxes = tensor([[0, 0, 1e4, 1e4], [-1e9, -1e9, 1e9, 1e9], [0, 0, Infinity, 4], [
    0,
    0,
    4,
    4,
  ]]);
  for (const { on } of BACKENDS) {
    using(on, () => {
      for (const mode of ["avg", "max"] as const) {
        const how = {
          bins: [1, 1],
          samplingRatio: 0,
          spatialScale: 1,
          halfPixel: false,
          mode,
        } as const;
        const found = loose(roiAlign("roiAlign", x, boxes, batch, how)).toArray().flat(
          3,
        ) as number[];
        if (mode === "max") assert(found[0]! > 8 && found[2] === 0, String(found));
        else {
          assert(Math.abs(found[0]! * 1e8 - 136) < 40, String(found));
          assert(found[1]! < 1e-12 && found[2] === 0 && found[3]! > 8, String(found));
        }
      }
    });
  }
});

test("regions of images that there are not are an error, also in a program", () => {
  const regions = (x: Any, boxes: Any, batch: Any): Any =>
    roiAlign("roiAlign", x, boxes, batch, {
      ...{ bins: [2, 2], samplingRatio: 0, spatialScale: 1, halfPixel: true, mode: "avg" },
    });
  const x = ones([2, 1, 4, 4]), boxes = tensor([[0, 0, 2, 2], [1, 1, 3, 3]]);
  const program = compile(regions);
  for (const f of [regions, program]) {
    for (const bad of [2, -1]) {
      const batch = tensor([0, bad], { dtype: "int64" });
      assertRefused(() => f(x, boxes, batch), IndexError, [`image ${bad} of 2`], x);
    }
    const good = tensor([0, 1], { dtype: "int64" });
    assertEquals((f(x, boxes, good) as Any).toArray(), ones([2, 1, 2, 2]).toArray());
  }
  program.dispose();
  const batch = tensor([0], { dtype: "int32" });
  assertRefused(() => regions(x, boxes, batch), ShapeError, ["[2, 4]", "[1]"], x);
});

test("many boxes of many classes are chosen in a short time", () => {
  const key = random.key(1);
  const boxes = random.uniform(key, [1, 8400, 4]).mul(640);
  const scores = random.uniform(random.key(2), [1, 80, 8400]).pow(8);
  const made = nonMaxSuppression("nonMaxSuppression", boxes, scores, {
    ...{ maxOutput: 300, iouThreshold: 0.45, scoreThreshold: 0.25, centers: true },
  });
  assertEquals(made.layout.shape[1], 3);
  assertRefused(
    () => nonMaxSuppression("nonMaxSuppression", boxes, boxes),
    ShapeError,
    ["[1, 8400, 4]", "[N, C, B]"],
    boxes,
  );
});

test("images refuse what does not fit", () => {
  const x = ones([1, 2, 3, 4]);
  const sized = (axes: object, options: object) => () =>
    resize("resize", x, axes as Any, options as Any);
  const one = [{ axis: 3, to: 2 }];
  assertRefused(sized(one, { mode: "area" }), ArgumentError, ["mode", "area"], x);
  assertRefused(
    sized(one, { mode: "linear", coordinates: "half" }),
    ArgumentError,
    ["coordinates", "half_pixel"],
    x,
  );
  assertRefused(sized([{ axis: 3, to: -1 }], { mode: "linear" }), ShapeError, ["size -1"], x);
  const sample = (grid: Any, from: Any = x) => () => gridSample("gridSample", from, grid, SAMPLE);
  assertRefused(sample(ones([1, 2, 2, 3])), ShapeError, ["[1, 2, 2, 3]", "[N, C"], x);
  assertRefused(sample(ones([2, 2, 2, 2])), ShapeError, ["[2, 2, 2, 2]"], x);
  assertRefused(sample(ones([1, 2, 2, 2], { dtype: "int32" })), DTypeError, ["int32"], x);
  assertRefused(sample(ones([1, 1, 1, 2]), ones([1, 1, 0, 2])), ShapeError, ["no elements"], x);
});
