/**
 * The network learns, and a timer goes on meanwhile.
 *
 * @module
 */
import { assert } from "@std/assert";
import { test } from "node:test";
import { RUNS_ALL } from "../../../tests/support/amount.ts";
import { arange } from "../../../mod.ts";
import { loadDigits, pick } from "../digits.ts";
import { networkAccuracy, trainNetwork } from "../train_cnn.ts";

test("a convolutional network learns digits, off the event loop", async () => {
  const { train, heldOut } = await loadDigits();
  const part = RUNS_ALL ? train : pick(train, arange(320, { dtype: "int32" }).asRank(1));
  let ticks = 0;
  const timer = setInterval(() => ticks++, 1);
  const losses: number[] = [];
  const net = await trainNetwork(part, RUNS_ALL ? 6 : 1, (_, __, loss) => losses.push(loss));
  clearInterval(timer);
  assert(ticks >= losses.length, `${ticks} ticks`);
  assert(losses.at(-1)! < 2, `${losses}`);
  const share = networkAccuracy(net, heldOut);
  assert(share >= (RUNS_ALL ? 0.985 : 0.5), `${share}`);
});
