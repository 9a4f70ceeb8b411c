import { money } from "./lib/money.mts";

type Order = { item: "tea" | "coffee" | "cocoa"; quantity?: number; email?: string };
type Priced = { total: number };

export async function run({ item, quantity = 1, email }: Order) {
  const priced = await flo.callTool({ tool_id: "price_order", input: { item, quantity } });
  if (priced.status !== "success") throw new Error(`no price for ${item}: ${priced.error?.message}`);
  const { total } = priced.output as Priced;

  const order = `A${await nextNumber()}`;
  await flo.task.emitEvent({ event_type: "order.priced", message: `${order}: ${money(total)}` });

  // Over 100 a person is asked. The script ends here and is entered again with the answer: what it
  // did above is in the log, and is not done twice.
  const shipped = await flo.callTool({ tool_id: "ship_order", input: { order, total } });
  if (shipped.status !== "success") {
    throw new flo.ToolError({ code: "NOT_SHIPPED", message: shipped.error?.message ?? "not shipped" });
  }

  const paid = await flo.callTool({ tool_id: "charge", input: { order, amount: total } });
  if (paid.status !== "success") throw new Error(`${order} is not paid: ${paid.error?.message}`);

  const receipt = `session://receipts/${order}.txt`;
  const text = `${order}: ${quantity} × ${item}, ${money(total)}\n`;
  const written = await flo.callTool({ tool_id: "write_text_file", input: { path: receipt, content: text } });
  if (email) await flo.callTool({ tool_id: "send_mail", input: { to: email, text } });
  return written.status === "success" ? { order, total, receipt } : { order, total };
}

/** Count orders, also when two are taken at once: only one of two writes over a revision is ok. */
async function nextNumber(): Promise<number> {
  const where = { scope_kind: "profile", key: "orders.count" } as const;
  for (;;) {
    const now = await flo.state.get<number>(where);
    const next = (now?.value ?? 0) + 1;
    const put = await flo.state.put({ ...where, value: next, if_revision: now?.revision ?? null });
    if (put.ok) return next;
  }
}
