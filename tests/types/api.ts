/**
 * What the type tests import: the one line to change in order to try them on other declarations.
 *
 * @module
 */
export * from "../../mod.ts";
