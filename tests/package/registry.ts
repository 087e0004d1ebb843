/**
 * A local registry in the style of JSR: the metadata of one package, and its files.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

/** A registry that runs. */
export interface Registry {
  /** The value for `JSR_URL`. */
  readonly url: string;
  /** The paths of the package's files that were requested. */
  readonly asked: string[];
  /** Breaks the connection for requests whose path matches. */
  broken: RegExp | undefined;
  close(): Promise<void>;
}

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly exports: Readonly<Record<string, string>>;
}

/** Serves the package that is staged in `folder`. */
export async function startRegistry(folder: string): Promise<Registry> {
  const about = JSON.parse(readFileSync(join(folder, "deno.json"), "utf8")) as Manifest;
  const { name, version, exports } = about;
  const files = new Map<string, Uint8Array>();
  for (const path of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const bytes = statSync(join(folder, path)).isFile() && readFileSync(join(folder, path));
    if (bytes) files.set("/" + path.replaceAll("\\", "/"), bytes);
  }
  const manifest = Object.fromEntries(
    Array.from(files, ([path, bytes]) => {
      const checksum = `sha256-${createHash("sha256").update(bytes).digest("hex")}`;
      return [path, { size: bytes.length, checksum }];
    }),
  );
  const [scope, short] = name.slice(1).split("/");
  const metadata: Record<string, unknown> = {
    "meta.json": { scope, name: short, latest: version, versions: { [version]: {} } },
    [`${version}_meta.json`]: { manifest, exports },
  };
  const registry = { asked: [] as string[], broken: undefined as RegExp | undefined };
  const server = createServer((request, response) => {
    const path = (request.url ?? "").replace(`/${name}/`, "");
    const file = path.startsWith(version + "/") ? path.slice(version.length) : undefined;
    if (file !== undefined) registry.asked.push(file);
    if (file !== undefined && registry.broken?.test(file)) return void request.socket.destroy();
    const found = path in metadata ? JSON.stringify(metadata[path]) : files.get(file ?? "");
    const type = path.endsWith(".json") ? "application/json" : "text/typescript";
    response.writeHead(found === undefined ? 404 : 200, { "content-type": type });
    response.end(found);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(registry, {
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  });
}
