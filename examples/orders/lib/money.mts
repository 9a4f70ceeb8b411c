/** Return an amount as people write it. */
export function money(amount: number): string {
  return `${amount.toFixed(2)} €`;
}
