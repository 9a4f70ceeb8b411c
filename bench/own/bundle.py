"""Penstock, a thousand script tools: checked for the first time, and loaded from the cache."""

from dataclasses import dataclass
from pathlib import Path

from penstock.core.clock import SystemClock
from penstock.sandbox.compiler.load_script import ScriptReference, load
from penstock.sandbox.compiler.parsers import Lexer, TypeScript
from penstock.sandbox.compiler.scanner import Scanner
from penstock.sandbox.compiler.script_files import Folder

DISTRIBUTION = "penstock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What reads scripts."""

    typescript: TypeScript
    lexer: Lexer
    scanner: Scanner


def begin(cache: str, kept: str) -> Context:
    clock, machine_code = SystemClock(), Path(cache)
    typescript, lexer = TypeScript(clock, machine_code), Lexer(clock, machine_code)
    return Context(
        typescript=typescript, lexer=lexer, scanner=Scanner(typescript, lexer, Path(kept))
    )


def warm(context: Context) -> None:
    assert context.typescript.strip_types("let a: 1").problem is None
    assert context.lexer.scan("let a").problem is None


def write(folder: str, number: int) -> None:
    root = Path(folder)
    (root / "lib").mkdir(parents=True, exist_ok=True)
    for at in range(number):
        (root / f"tool_{at}.mts").write_text(TOOL.replace("NUMBER", str(at)))
    for at in range(number // 10):
        (root / "lib" / f"shared_{at}.mts").write_text(SHARED.replace("NUMBER", str(at)))


def load_all(context: Context, folder: str, number: int) -> None:
    files = Folder(Path(folder))
    for at in range(number):
        wanted = ScriptReference(files=files, entry=f"tool_{at}.mts", entrypoint="run")
        found = load(wanted, context.scanner)
        assert found.problems == ()
        assert found.script is not None
        assert len(found.script.modules) == 2


def end(context: Context) -> None:
    context.typescript.close()
    context.lexer.close()


TOOL = """import { page, type Page } from "./lib/shared_0.mts";
import type { Customer } from "./lib/types.mts";

interface Input {
  customer: string;
  limit?: number;
  since?: string | null;
}

interface Line {
  id: string;
  cents: number;
  tags: readonly string[];
}

const KIND: string = "NUMBER";

function total(lines: Line[]): number {
  return lines.reduce((sum: number, line: Line): number => sum + line.cents, 0);
}

export async function run(input: Input): Promise<{ kind: string; cents: number; pages: number }> {
  const found = await flo.callTool({ tool_id: "read_customer", input: { id: input.customer } });
  if (found.status !== "success") {
    throw new flo.ToolError({ code: "NO_CUSTOMER", message: `no customer ${input.customer}` });
  }
  const customer = found.output as Customer;
  const pages: Page[] = [];
  for (let at = 0; at < (input.limit ?? 3); at += 1) {
    const next = await page(customer.id, at);
    if (next.lines.length === 0) break;
    pages.push(next);
  }
  const lines = pages.flatMap((each) => each.lines) as Line[];
  return { kind: KIND, cents: total(lines), pages: pages.length };
}
"""
"""About as long as the tools that people write."""
SHARED = """export interface Page { lines: unknown[]; next: string | null }

export async function page(customer: string, number: number): Promise<Page> {
  const key: string = `NUMBER/${customer}/${number}`;
  const entry = await flo.state.get<Page>({ scope_kind: "profile", key });
  return entry?.value ?? { lines: [], next: null };
}
"""
