/**
 * A worker of async_life.ts: runs programs off its event loop.
 *
 * @module
 */
import { full, ones, type Tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";

const scope = globalThis as unknown as {
  onmessage: (event: { data: string }) => void;
  postMessage(message: unknown): void;
};

/** Whether many asynchronous runs give what they must. */
async function right(): Promise<boolean> {
  const f = compile((x: Tensor, n: number) => x.mul(n).add(1).sum());
  const calls = Array.from({ length: 300 }, (_, i) => f.async(full([1 + i % 7], i) as Tensor, 3));
  const made = await Promise.all(calls);
  return made.every((one, i) => one.item() === (1 + i % 7) * (3 * i + 1));
}

scope.onmessage = ({ data }) => {
  if (data === "right") {
    right().then((is) => scope.postMessage(is));
    return;
  }
  const f = compile((x: Tensor) => {
    for (let i = 0; i < 40; i++) x = x.matmul(x).mul(0) as Tensor;
    return x;
  });
  for (let i = 0; i < 3; i++) f.async(ones([900, 900]) as Tensor);
  scope.postMessage("begun");
};
