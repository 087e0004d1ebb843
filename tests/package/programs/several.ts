/**
 * The programs of one executable, which together use optional packages and an included file.
 *
 * @module
 */
import "./pictures.ts";
import "./included.ts";
