export function fillRandom(..._: unknown[]): void {}
