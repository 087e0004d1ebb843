/**
 * A server of this process that has the few addresses of the hub that are used.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { io, ones, random } from "../../mod.ts";
import type { DownloadOptions } from "../../src/hub/mod.ts";
import type { Any } from "../support.ts";

export const COMMIT: string = "c".repeat(40);
export const WEIGHTS: Uint8Array<ArrayBuffer> = io.encodeSafetensors({
  "a.weight": random.normal(random.key(1), [300, 300]),
  "a.bias": ones([300]),
});

export const sha256 = (bytes: Uint8Array): string =>
  createHash("sha256").update(bytes).digest("hex");
const gitHash = (bytes: Uint8Array): string =>
  createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");

export interface Served {
  bytes: Uint8Array;
  lfs?: boolean;
  /** In the place of the true one. */
  checksum?: string;
  /** Another path in the list. */
  listed?: string;
}

export interface Hub {
  readonly files: Record<string, Served>;
  /** The requests for files: name, range and token. */
  readonly seen: string[];
  /** A file ends after this many bytes. */
  cutAt?: number | undefined;
  /** Ranges are ignored. */
  whole?: boolean;
  /** Every request needs this token. */
  token?: string;
  /** Answers a request in the place of the hub, unless it returns false. */
  answer?: (path: string, request: IncomingMessage, response: ServerResponse) => boolean;
  readonly options: DownloadOptions;
  readonly cache: string;
}

export const text = (content: string): Served => ({ bytes: new TextEncoder().encode(content) });

/** Runs `body` with a hub that has the model org/m, and an empty cache. */
export async function withHub(body: (hub: Hub) => Promise<void>): Promise<void> {
  const cache = realpathSync(mkdtempSync(join(tmpdir(), "rowmajor-hub-")));
  const hub: Any = {
    cache,
    seen: [],
    files: {
      "config.json": text('{"d": 300}'),
      "model.safetensors": { bytes: WEIGHTS, lfs: true },
      "pytorch_model.bin": text("a pickle"),
      "onnx/model.json": text("{}"),
    },
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url!, "http://localhost");
    const path = decodeURIComponent(url.pathname);
    const json = (value: unknown): void => {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(value));
    };
    if (hub.answer?.(path, request, response)) return;
    if (hub.token !== undefined && request.headers.authorization !== `Bearer ${hub.token}`) {
      response.statusCode = 401;
      return json({ error: "this model is gated" });
    }
    const revision = /^\/api\/models\/org\/m\/revision\/(.*)$/.exec(path)?.[1];
    if (revision !== undefined && ["main", "v1", "pr/2", COMMIT].includes(revision)) {
      return json({ _id: "1", id: "org/m", sha: COMMIT, lastModified: "2026-01-01" });
    }
    if (path === `/api/models/org/m/tree/${COMMIT}`) {
      const entries = Object.entries(hub.files as Record<string, Served>);
      return json([
        { type: "directory", path: "onnx", size: 0, oid: "0" },
        ...entries.map(([name, { bytes, lfs, checksum, listed }]) => ({
          ...{ type: "file", path: listed ?? name, size: bytes.length },
          oid: lfs ? "a".repeat(40) : checksum ?? gitHash(bytes),
          ...lfs ? { lfs: { oid: checksum ?? sha256(bytes), size: bytes.length } } : {},
        })),
      ]);
    }
    const name = path.startsWith(`/org/m/resolve/${COMMIT}/`)
      ? path.slice(`/org/m/resolve/${COMMIT}/`.length)
      : undefined;
    const file: Served | undefined = name === undefined ? undefined : hub.files[name];
    if (file === undefined) {
      response.statusCode = 404;
      return json({ error: "not found" });
    }
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    const probe = range?.[0] === "bytes=0-0";
    if (!probe) hub.seen.push(`${name} ${range?.[1] ?? "all"}`);
    const from = range === null || hub.whole && !probe ? 0 : Number(range[1]);
    const to = range === null || hub.whole && !probe || range[2] === ""
      ? file.bytes.length
      : Number(range[2]) + 1;
    const part = file.bytes.subarray(from, to);
    response.statusCode = range === null || hub.whole && !probe ? 200 : 206;
    response.setHeader("etag", '"x"');
    response.setHeader("content-range", `bytes ${from}-${to - 1}/${file.bytes.length}`);
    if (hub.cutAt === undefined || probe) return void response.end(part);
    response.setHeader("content-length", part.length);
    response.write(part.subarray(0, hub.cutAt), () => setTimeout(() => response.destroy(), 50));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  hub.options = { cache, hubUrl: `http://127.0.0.1:${port}` };
  try {
    await body(hub);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    rmSync(cache, { recursive: true });
  }
}

export const folderOf = ({ cache }: Hub): string => join(cache, "models--org--m");
export const blobOf = (hub: Hub): string => join(folderOf(hub), "blobs", sha256(WEIGHTS));
