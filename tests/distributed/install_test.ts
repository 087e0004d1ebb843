/**
 * `deno task mpi` after an interruption, with a stand-in for Python that records its calls.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { installMpi } from "../../scripts/mpi.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-mpi-"));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Makes environments and installs packages; ends in the middle of the step that `STOP` names. */
const PYTHON = `#!/bin/sh
echo "$2 $STOP" >> ${folder}/log
if [ "$2" = venv ]; then
  mkdir -p "$3/bin" "$3/lib/python3.11/site-packages" || exit 1
  cp "$0" "$3/bin/python"
  [ "$STOP" = venv ] && exit 1
  mkdir "$3/lib/python3.11/site-packages/pip-25.0.dist-info"
  touch "$3/lib/python3.11/site-packages/pip-25.0.dist-info/RECORD"
  exit 0
fi
at=$(dirname "$(dirname "$0")")
packages=$at/lib/python3.11/site-packages
[ -e "$packages/pip-25.0.dist-info/RECORD" ] || exit 1
for last; do :; done
info=$packages/$(echo "$last" | sed s/==/-/).dist-info
[ -e "$at/bin/mpiexec" ] && exit 1
touch "$at/bin/mpiexec"
mkdir "$info" || exit 1
[ "$STOP" = pip ] && exit 1
touch "$info/RECORD"
`;

const runs = process.platform === "win32" ? test.skip : test;

runs("an installation that was interrupted is made again (needs a shell)", () => {
  const python = join(folder, "python");
  writeFileSync(python, PYTHON);
  chmodSync(python, 0o755);
  const [was, stopped] = [process.env.ROWMAJOR_PYTHON, process.env.STOP];
  process.env.ROWMAJOR_PYTHON = python;
  const at = join(folder, "mpich");
  const steps = (version: string, stop = ""): string[] => {
    rmSync(join(folder, "log"), { force: true });
    process.env.STOP = stop;
    if (stop === "") installMpi(at, "mpich", version);
    else assertThrows(() => installMpi(at, "mpich", version), Error, "exited with 1");
    const log = join(folder, "log");
    return existsSync(log) ? readFileSync(log, "utf8").trim().split("\n").map((s) => s.trim()) : [];
  };
  try {
    assertEquals(steps("5.0.2", "venv"), ["venv venv"]);
    assertEquals(steps("5.0.2", "pip"), ["venv pip", "pip pip"]);
    assert(existsSync(join(at, "bin", "mpiexec")));
    assertEquals(steps("5.0.2"), ["venv", "pip"]);
    assertEquals(steps("5.0.2"), []);
    assertEquals(steps("5.0.3"), ["venv", "pip"]);
  } finally {
    for (const [name, value] of [["ROWMAJOR_PYTHON", was], ["STOP", stopped]] as const) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
});
