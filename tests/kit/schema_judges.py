"""Libraries of others that judge the form of a fitted schema."""

from anthropic import transform_schema
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

from penstock.models.structured.fitted import ANTHROPIC, OPENAI, Dialect, Fitted, ToolMode


def judge_form(fitted: Fitted | ToolMode, dialect: Dialect) -> None:
    """Let the provider's own library, or another one, look at the form of a fitted schema."""
    if isinstance(fitted, ToolMode):
        return
    schema = fitted.schema
    if dialect is ANTHROPIC:
        assert transform_schema(schema) == schema
        return
    judge = OpenAIJsonSchemaTransformer(schema, strict=None)
    if dialect is OPENAI:
        judge._strict_supports_length_constraints = True  # type: ignore[misc]  # noqa: SLF001
    assert judge.walk() == schema
    assert judge.is_strict_compatible
