/**
 * Hosts for tests: network namespaces of Linux, each with an address of its own, joined by one bridge.
 * Programs in them share files, but reach each other through links that can be cut.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

function ip(line: string): string {
  const { status, stdout, stderr, error } = spawnSync("ip", line.split(" "), { encoding: "utf8" });
  if (status === 0) return stdout;
  throw new Error(`ip ${line}: ${error?.message ?? stderr.trim()}`);
}

/** The command that enters a host, as ssh would: its options, the host, and a command line. */
const AGENT = `#!/bin/sh
while [ "\${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec PREFIX-\${host##*.} unshare --uts sh -c 'hostname "$0"; eval "$@"' "host$host" "$*"
`;

/** Hosts that are there until {@link Hosts.remove}. */
export class Hosts {
  readonly count: number;
  /** A folder for files of programs. */
  readonly folder: string;
  /** What launchers call instead of ssh. */
  readonly agent: string;
  readonly #prefix = `rm${process.pid}`;
  #namespaces: string[] = [];

  /** Makes the hosts; throws if that is not permitted, or `ip` is missing. */
  constructor(count: number) {
    this.count = count;
    this.folder = mkdtempSync(join(tmpdir(), "rowmajor-hosts-"));
    this.agent = join(this.folder, "agent.sh");
    writeFileSync(this.agent, AGENT.replace("PREFIX", this.#prefix));
    chmodSync(this.agent, 0o755);
    try {
      const hub = this.#add(0);
      ip(`-n ${hub} link add hub type bridge`);
      ip(`-n ${hub} addr add ${this.address(0)}/24 dev hub`);
      ip(`-n ${hub} link set hub up`);
      for (let host = 1; host <= count; host++) {
        const namespace = this.#add(host);
        ip(`-n ${hub} link add to${host} type veth peer name net netns ${namespace}`);
        ip(`-n ${hub} link set to${host} master hub up`);
        ip(`-n ${namespace} addr add ${this.address(host)}/24 dev net`);
        ip(`-n ${namespace} link set net up`);
      }
    } catch (error) {
      this.remove();
      throw error;
    }
  }

  #add(number: number): string {
    const namespace = `${this.#prefix}-${number}`;
    ip(`netns add ${namespace}`);
    this.#namespaces.push(namespace);
    ip(`-n ${namespace} link set lo up`);
    return namespace;
  }

  /** The address of a host, from 1 on; 0 is that of the bridge, where launchers run. */
  address(host: number): string {
    return `10.213.77.${host === 0 ? 254 : host}`;
  }

  /** The addresses of all hosts. */
  get addresses(): string[] {
    return Array.from({ length: this.count }, (_, i) => this.address(i + 1));
  }

  /** The command line that runs a program beside the bridge. */
  command(path: string, args: readonly string[]): [path: string, args: string[]] {
    return ["ip", ["netns", "exec", this.#namespaces[0]!, path, ...args]];
  }

  /** Cuts the link of a host. */
  cut(host: number): void {
    ip(`-n ${this.#namespaces[0]!} link set to${host} down`);
  }

  /** Kills the processes of all hosts. */
  kill(): void {
    const find = (one: string) => ip(`netns pids ${one}`).split("\n").filter(Boolean).map(Number);
    for (let i = 0; i < 50; i++) {
      const all = this.#namespaces.flatMap(find);
      if (all.length === 0) return;
      for (const id of all) {
        try {
          process.kill(id, "SIGKILL");
        } catch {
          // It has ended.
        }
      }
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    }
  }

  /** Removes the hosts, with their processes and files. */
  remove(): void {
    this.kill();
    for (const one of this.#namespaces.reverse()) ip(`netns del ${one}`);
    this.#namespaces = [];
    rmSync(this.folder, { recursive: true, force: true });
  }
}
