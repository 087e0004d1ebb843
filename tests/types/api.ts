/**
 * The imports of the type tests: change this one line to test other declarations.
 *
 * @module
 */
export * from "../../mod.ts";
