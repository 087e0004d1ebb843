/** Files that are imported `with { type: "text" }`. */
declare module "*.html" {
  const text: string;
  export default text;
}
declare module "*.css" {
  const text: string;
  export default text;
}
declare module "*.js" {
  const text: string;
  export default text;
}
