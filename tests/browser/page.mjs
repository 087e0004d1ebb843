/**
 * What the page of page_test.ts runs: creation, products, sorts, transforms and a compiled function,
 * on the WebAssembly module and in JavaScript. Its results become the title of the page.
 *
 * @module
 */
import { arange, fft, full, info, random, setBackend } from "@rowmajor/tensor";
import { compile } from "@rowmajor/tensor/compile";

/** Results that do not depend on the backend, apart from rounding. */
function compute() {
  const x = random.uniform(random.key(1), [300, 300]);
  const f = compile((a) => a.matmul(a).mul(0.01).add(1).log().sum());
  const { data } = full([1000], 2).add(arange(1000));
  return {
    backend: info().devices.cpu,
    product: x.matmul(x).sum().item(),
    sorted: x.reshape([-1]).sort().get(12_345),
    transform: fft.rfft(x.reshape([-1])).abs().sum().item(),
    compiled: f(x).item(),
    data: [data.length, data[999]],
  };
}

try {
  const before = compute();
  const module = await WebAssembly.compileStreaming(fetch("rowmajor.wasm"));
  setBackend("wasm", { module, memory: 2 ** 28 });
  document.title = JSON.stringify({ js: before, wasm: compute(), runtime: info().runtime });
} catch (error) {
  document.title = JSON.stringify({ error: error.stack });
}
