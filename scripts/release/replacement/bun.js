// Bun's bundler cannot put sharp into an executable: it finds its native library by names that it
// makes while it runs. Programs that read no pictures do without it.
const STUB = `export default function sharp() {
  throw new Error("Cannot read a picture: this executable has no sharp");
}`;

/** @returns {import("bun").BunPlugin} */
export function transformersPlugin() {
  return {
    name: "rowmajor-transformers",
    setup(build) {
      build.onResolve({ filter: /^sharp$/ }, () => ({ path: "sharp", namespace: "rowmajor" }));
      build.onLoad(
        { filter: /^sharp$/, namespace: "rowmajor" },
        () => ({ contents: STUB, loader: "js" }),
      );
    },
  };
}
