/**
 * The anchor of a heading by GitHub's rule, so that one link works in the repository and on the
 * site. The caller numbers equal anchors.
 */
export function slug(heading: string): string {
  return heading.trim().toLowerCase().replace(/[^\p{L}\p{N}\p{M}_ -]/gu, "").replaceAll(" ", "-");
}
