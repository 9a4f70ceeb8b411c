"""A report as a table for a terminal, as JUnit XML and as Markdown."""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.core.messages import Usage
from penstock.core.text import count, cut, one_line
from penstock.evals.report import Attempt, Report, sum_usage

UNJUDGED = "no scorer: it passed because the task succeeded"
REASON = 100
"""Characters of a reason in a table."""
_NOT_XML = {code: 0xFFFD for code in range(32) if chr(code) not in "\t\n\r"}
_NOT_XML |= {0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}
"""Characters that XML 1.0 cannot hold even escaped."""


def print_report(report: Report, earlier: Report | None = None) -> None:
    """Print a table with a row for each case, the totals, and the differences to another run."""
    console = Console(highlight=False)
    heads, rows = _rows(report)
    table = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        style = "" if _is_full(row[1 : 1 + len(report.models)]) else "red"
        table.add_row(*(Text(one_line(cell), style) for cell in row))
    console.print(table)
    console.print()
    for line in _totals(report):
        console.print(Text(line, "bold"))
    if earlier is not None:
        changes = report.compare(earlier)
        differences = count(len(changes), "difference") if changes else "no differences"
        console.print(Text(f"compared with {earlier.run_id}: {differences}"))
        for change in changes:
            style = "red" if str(change).startswith("worse") else "green"
            console.print(Text(f"  {change}", style))


def to_markdown(report: Report, earlier: Report | None = None) -> str:
    """Return the table of a report as Markdown, for a pull request or a wiki."""
    heads, rows = _rows(report)
    lines = [f"# {report.dataset}: {report.rate}", "", _line(heads), _line(["---"] * len(heads))]
    lines += [_line(row) for row in rows]
    lines += ["", *_totals(report)]
    if earlier is not None:
        changes = report.compare(earlier)
        lines += ["", f"Compared with {earlier.run_id}:", ""]
        lines += [f"- {change}" for change in changes] or ["- no differences"]
    return "\n".join(lines) + "\n"


def to_junit(report: Report) -> bytes:
    """Return a report as JUnit XML: a suite for each model, a test case for each attempt."""
    root = ET.Element("testsuites", name=_xml(report.dataset))
    for model in report.models:
        attempts = [each for each in report.attempts if each.model == model]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_xml(f"{report.dataset} {model}".strip()),
            tests=str(len(attempts)),
            failures=str(sum(not each.passed and each.error is None for each in attempts)),
            errors=str(sum(each.error is not None for each in attempts)),
        )
        for attempt in attempts:
            _add_test(suite, report, attempt)
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


def _add_test(suite: ET.Element, report: Report, attempt: Attempt) -> None:
    test = ET.SubElement(
        suite,
        "testcase",
        classname=_xml(report.dataset),
        name=_xml(f"{attempt.case} #{attempt.number}"),
        time=f"{attempt.seconds or 0:.3f}",
    )
    if not attempt.passed:
        kind = "failure" if attempt.error is None else "error"
        problem = ET.SubElement(test, kind, message=_xml(attempt.reasons))
        problem.text = _xml(attempt.content)
    elif not attempt.grades:
        ET.SubElement(test, "system-out").text = UNJUDGED


def _rows(report: Report) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the heads of the columns, and a row for each case."""
    models = report.models
    heads = ["case", *(model or "passed" for model in models), "tokens", "cost", "why not"]
    rows = []
    for case in dict.fromkeys(each.case for each in report.attempts):
        attempts = [each for model in models for each in report.attempts_at(case, model)]
        usage = sum_usage(attempts)
        reasons = next((each.reasons for each in attempts if not each.passed), "")
        passed = [_passed(report.attempts_at(case, model)) for model in models]
        tokens = f"{usage.input_tokens + usage.output_tokens:,}"
        rows.append([case, *passed, tokens, _cost(usage), cut(reasons, REASON)])
    return heads, rows


def _passed(attempts: Sequence[Attempt]) -> str:
    return f"{sum(each.passed for each in attempts)}/{len(attempts)}"


def _is_full(cells: Sequence[str]) -> bool:
    return all(passed == asked for passed, _, asked in (cell.partition("/") for cell in cells))


def _totals(report: Report) -> Sequence[str]:
    """Return a line for each model, one for all judges, and one for cases without a scorer."""
    lines = [_total(report, model) for model in report.models]
    if (judging := report.judging) is not None:
        tokens = judging.input_tokens + judging.output_tokens
        lines.append(f"judges: {tokens:,} tokens, {_total_cost(judging)}")
    if unjudged := report.unjudged:
        names = cut(one_line(", ".join(unjudged)), REASON)
        cases = count(len(unjudged), "case")
        lines.append(f"no scorer: {cases} passed because the task succeeded: {names}")
    return lines


def _total(report: Report, model: str) -> str:
    own = Report(
        run_id=report.run_id,
        dataset=report.dataset,
        agent=report.agent,
        attempts=tuple(each for each in report.attempts if each.model == model),
    )
    times = [each.seconds for each in own.attempts if each.seconds is not None]
    tokens = own.usage.input_tokens + own.usage.output_tokens
    mean = f", {sum(times) / len(times):.2f} s each" if times else ""
    return f"{model or report.agent}: {own.rate}, {tokens:,} tokens, {_total_cost(own.usage)}{mean}"


def _cost(usage: Usage) -> str:
    return "?" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"


def _total_cost(usage: Usage) -> str:
    return "cost unknown" if usage.cost_usd is None else _cost(usage)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(one_line(each).replace("|", "\\|") for each in cells) + " |"


def _xml(text: str) -> str:
    return text.translate(_NOT_XML)
