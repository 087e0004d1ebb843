/**
 * A plugin of `Bun.build` for executables with transformers.js: a stub takes the place of sharp, which
 * cannot be inside. Texts and sounds need none; reading a picture throws.
 */
export declare function transformersPlugin(): {
  name: string;
  // deno-lint-ignore no-explicit-any -- Bun's types may not be installed.
  setup(build: any): void;
};
