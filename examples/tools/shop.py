"""Orders: looking at one is free, paying back needs a person's yes; payments can be undone."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from penstock import ToolContext, ToolFailed, tool


@dataclass
class Order:
    """What a customer bought."""

    order: str
    status: Literal["packed", "on its way", "delivered"]
    items: list[str]
    total: float
    refunded: float = 0


ORDERS = {
    each.order: each
    for each in (
        Order("A1", "packed", ["tea", "teapot"], 34.5),
        Order("A2", "on its way", ["lamp"], 60.0),
        Order("A3", "delivered", ["chair", "cushion"], 120.0),
    )
}


def find(order: str) -> Order:
    """Return the order, or say which ones there are."""
    found = ORDERS.get(order.upper())
    if found is None:
        known = ", ".join(ORDERS)
        raise ToolFailed(f"there is no order {order!r}", suggestion=f"Orders are {known}.")
    return found


@tool(effect="read", direct_call=True)
def order_status(order: str) -> Order:
    """Return the state of one order, with its items and its total.

    Args:
        order: The number on the bill, such as A1.
    """
    return find(order)


@tool(effect="write", requires_approval=True, exclusive="till", labels=["money"])
def refund(
    order: str, amount: Annotated[float, Field(gt=0)], *, ctx: ToolContext
) -> dict[str, object]:
    """Pay money back for an order. A person must approve it.

    Args:
        order: The number on the bill, such as A1.
        amount: How much, at most what was paid.
    """
    found = find(order)
    left = found.total - found.refunded
    if amount > left:
        raise ToolFailed(
            f"only {left:g} of order {found.order} can be paid back",
            "TOO_MUCH",
            suggestion="Ask for less.",
        )
    found.refunded += amount
    # A real till would get ctx.idempotency_key, and pay once for one key.
    return {"message": f"Paid {amount:g} back for {found.order}", "receipt": ctx.idempotency_key}


@tool
def pay_back(input: dict[str, Any], output: dict[str, Any]) -> dict[str, object]:
    """Take a payment back: `penstock undo` calls this with the input and output of `charge`."""
    return {"order": input["order"], "paid_back": output["paid"]}


@tool(effect="write", revert=pay_back, labels=["money"])
def charge(
    order: str, amount: Annotated[float, Field(gt=0)], *, ctx: ToolContext
) -> dict[str, object]:
    """Charge a customer for an order.

    Args:
        order: The number on the bill.
        amount: How much.
    """
    return {"order": order, "paid": amount, "receipt": ctx.idempotency_key}


@tool(effect="write")
def send_mail(to: str, text: str) -> str:
    """Send an e-mail. Nothing takes it back, so it declares no `revert`.

    Args:
        to: The address.
        text: What it says.
    """
    # A real shop would hand the text to its mail server here.
    return f"sent {len(text)} characters to {to}"
