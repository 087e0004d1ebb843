/** Files that are imported `with { type: "text" }`. */
declare module "*.html" {
  const text: string;
  export default text;
}
