// Ranks on several hosts, one of which is cut off: all get a DistributedError by their deadlines.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { assert, assertEquals, assertMatch } from "../std_assert.ts";
import { Hosts } from "./hosts.ts";
import { command, launch, type Mpi, ONE_MPI } from "./support.ts";

const HOSTS = 4;
const TIMEOUT_MS = 3000;
const PROGRAM = "tests/distributed/programs/network.ts";

/** What a launcher needs to start one rank on each host, which talk by TCP alone. */
function across(mpi: Mpi, hosts: Hosts): { args: string[]; env: Record<string, string> } {
  const list = hosts.addresses.join(",");
  if (!mpi.isOpenMpi) {
    const launcher = ["-launcher", "ssh", "-launcher-exec", hosts.agent];
    const env = { FI_PROVIDER: "tcp", UCX_TLS: "tcp,self", MPIR_CVAR_NOLOCAL: "1" };
    return { args: [...launcher, "-localhost", hosts.address(0), "-hosts", list], env };
  }
  const settings = { plm_rsh_agent: hosts.agent, btl: "tcp,self", pml: "ob1" };
  const args = Object.entries(settings).flatMap(([name, value]) => ["--mca", name, value]);
  return { args: ["--allow-run-as-root", ...args, "--host", list], env: {} };
}

interface Failure {
  readonly rank: number;
  readonly op: string;
  readonly message: string;
  readonly seconds: number;
}

function failuresIn(folder: string): Failure[] {
  return readdirSync(folder).filter((name) => name.startsWith("failed-")).sort().map((name) =>
    JSON.parse(readFileSync(join(folder, name), "utf8"))
  );
}

async function cutOff(mpi: Mpi, hosts: Hosts): Promise<void> {
  const { args, env } = across(mpi, hosts);
  const ranks = command(PROGRAM, [hosts.folder, String(TIMEOUT_MS)]);
  const [path, line] = hosts.command(mpi.launcher, [...args, "-n", String(HOSTS), ...ranks]);
  const started = launch(path, line, { env: { ...mpi.env, ...env }, limit: 60 });
  let ended = false;
  const outcome = started.finally(() => ended = true);
  const until = async (done: () => boolean) => {
    while (!done() && !ended) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  const all = Array.from({ length: HOSTS }, (_, rank) => rank);
  await until(() => all.every((rank) => existsSync(join(hosts.folder, `begun-${rank}.json`))));
  if (!ended) hosts.cut(HOSTS);
  await until(() => failuresIn(hosts.folder).length === HOSTS);
  const failures = failuresIn(hosts.folder);
  // A launcher may wait for the host that it has lost.
  hosts.kill();
  const { stdout, stderr } = await outcome;
  const told = `${stdout}${stderr}`;
  assertEquals(failures.map(({ rank }) => rank), all, told);
  for (const { op, message, seconds } of failures) {
    assertEquals(op, "allSum");
    assertMatch(message, /did not answer within 3 s|MPI reports|broken/);
    assert(seconds < TIMEOUT_MS / 1e3 + 5, `${seconds} s`);
  }
}

/** Why there are no hosts here; undefined if there are. */
function whyNone(): string | undefined {
  if (process.platform !== "linux") return "network namespaces are of Linux";
  try {
    new Hosts(1).remove();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const reason = ONE_MPI.length === 0 ? "no MPI is installed" : whyNone();
if (reason !== undefined) {
  console.log(`Not tested, a network whose links are cut: ${reason}`);
  test.skip(`four hosts, of which one is cut off: ${reason}`, () => {});
}
for (const mpi of reason === undefined ? ONE_MPI : []) {
  test(`${mpi.name}: four hosts, of which one is cut off: all ranks get errors`, async () => {
    const hosts = new Hosts(HOSTS);
    const remove = () => hosts.remove();
    process.on("exit", remove);
    try {
      await cutOff(mpi, hosts);
    } finally {
      remove();
      process.off("exit", remove);
    }
  });
}
