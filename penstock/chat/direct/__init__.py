"""Work that no model asked for: direct tool calls and slash commands."""
