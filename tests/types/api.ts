/**
 * The imports of the type tests: change these lines to test other declarations.
 *
 * @module
 */
export * from "../../mod.ts";
export * from "../../src/compile/mod.ts";
