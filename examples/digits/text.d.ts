/** Files that are imported `with { type: "text" }`. */
declare module "*.base64" {
  const text: string;
  export default text;
}
