/**
 * Products by cuBLAS on a CUDA device, the emulator's or a real one: through the symbols of the
 * shim, in every layout, with epilogues, and in graphs.
 *
 * @module
 */
import { test } from "node:test";
import { onHardware, openCudaForTests, whyNoCuda } from "./support/device.ts";
import {
  epiloguesAreRight,
  productsAreCaptured,
  productsAreRight,
} from "../native/cuda_products.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`products on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  test("the first product of all is part of a graph", productsAreCaptured);
  test("products of every dtype and layout are right on CUDA", productsAreRight);
  test("products with bias, relu and gelu are right on CUDA", () => epiloguesAreRight(onHardware));
}
