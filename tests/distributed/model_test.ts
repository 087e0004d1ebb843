// The model of how long sums take, and its tables in docs/distributed.md.

import { test } from "node:test";
import {
  type Link,
  LINKS,
  makeTables,
  type Model,
  MODELS,
} from "../../scripts/distributed_model.ts";
import { readText } from "../../scripts/tools.ts";
import { assert, assertEquals } from "../std_assert.ts";

const [ethernet, , rdma] = LINKS as [Link, Link, Link];

test("a model: few ranks by hand, and many ranks in proportion", () => {
  const { ring, doubling, halving, "hosts first": hosts } = MODELS as Record<string, Model>;
  // Two ranks: each sends half of its tensor, then half of the sum; or all of it at once.
  const { latency, bandwidth } = ethernet;
  assertEquals(ring!(ethernet, 2, 8e6, 8), 2 * (latency + 4e6 / bandwidth));
  assertEquals(doubling!(ethernet, 2, 8e6, 8), latency + 8e6 / bandwidth);
  assertEquals(halving!(ethernet, 2, 8e6, 8), 2 * latency + 8e6 / bandwidth);
  assertEquals(hosts!(ethernet, 8, 8e6, 8), undefined);
  for (const link of [ethernet, rdma]) {
    const of = (model: typeof ring) => model!(link, 1000, 4 * 2 ** 20, 8)!;
    assert(of(ring) > 8 * of(halving));
    assert(of(doubling) > 3 * of(halving) && of(hosts) < of(doubling));
  }
});

test("docs/distributed.md has the tables that scripts/distributed_model.ts prints", () => {
  // The formatter aligns columns.
  const plain = (text: string) =>
    text.replaceAll(/-+/g, "-").split("\n").map((line) => line.replaceAll(/\s+/g, " ").trim())
      .filter(Boolean);
  const page = readText("docs/distributed.md");
  const [, table = ""] = /<!-- model -->([^]*)<!-- \/model -->/.exec(page) ?? [];
  assertEquals(plain(table), plain(makeTables()));
});
