/**
 * The programs of examples/distributed: alone and on several ranks they give the same results.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { amount, RUNS_ALL } from "../support/amount.ts";
import { command, launch, MPIS, type Outcome, ranks, testEach } from "./support.ts";

const FUNCTIONS = "tests/distributed/programs/examples.ts";
const PROGRAMS = ["data_parallel", "k_means", "tensor_parallel", "decoder_step"];

interface Results {
  readonly losses: number[];
  readonly fingerprint: string;
  readonly centers: number[];
  readonly counts: number[];
  readonly perceptron: number[];
  readonly decoder: number[];
}

function textOf({ code, stdout, stderr }: Outcome): string {
  assertEquals([code, stderr], [0, ""], stdout);
  return stdout;
}

/** The output of one process without a launcher. */
async function alone(program: string): Promise<string> {
  const [path, ...args] = command(program);
  return textOf(await launch(path!, args, { env: { ROWMAJOR_MPI: "/nowhere" } }));
}

let known: Promise<Results> | undefined;

/** The results of one process. */
function expected(): Promise<Results> {
  return known ??= alone(FUNCTIONS).then((text) => JSON.parse(text));
}

/** The largest difference between numbers, relative to the largest of them. */
function difference(one: readonly number[], other: readonly number[]): number {
  assertEquals(one.length, other.length);
  const scale = Math.max(...one.map(Math.abs));
  return Math.max(...one.map((x, i) => Math.abs(x - other[i]!))) / scale;
}

for (const size of RUNS_ALL ? [1, 2, 4] : [4]) {
  testEach(`${size} ranks compute what one process does`, async (mpi) => {
    const single = await expected();
    const shared: Results = JSON.parse(textOf(await ranks(mpi, size, FUNCTIONS)));
    // Sums of gradients, and of pixels, are exact: the same bits on any number of ranks.
    assertEquals(shared.losses, single.losses);
    assertEquals(shared.fingerprint, single.fingerprint);
    assertEquals(shared.counts, single.counts);
    assertEquals(shared.centers, single.centers);
    const errors = [
      difference(single.perceptron, shared.perceptron),
      difference(single.decoder, shared.decoder),
    ];
    assert(errors.every((error) => error <= 1e-5), `${errors}`);
  });
}

test("training makes the classifier better", async () => {
  const { losses } = await expected();
  assert(losses.at(-1)! < losses[0]! / 2, `${losses}`);
});

// Their functions run on 4 ranks above: here is what their programs do with them, those of the first
// two in `npm test`.
const RANKS = amount(2, 4);
for (const name of PROGRAMS.slice(0, amount(2, PROGRAMS.length))) {
  const program = `examples/distributed/${name}.ts`;
  const [mpi] = MPIS;
  const where = mpi === undefined ? ` (not on ${RANKS} ranks: no MPI is installed)` : "";
  test(`${program} prints the same alone and on ${RANKS} ranks${where}`, async () => {
    const text = await alone(program);
    assert(text.endsWith("\n"));
    if (mpi !== undefined) assertEquals(textOf(await ranks(mpi, RANKS, program)), text);
  });
}
