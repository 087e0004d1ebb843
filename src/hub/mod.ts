/**
 * Downloads models of the Hugging Face hub, by its package `@huggingface/hub`, which a program
 * installs itself.
 *
 * @module
 */
export { download, type DownloadOptions, type DownloadProgress } from "./download.ts";
