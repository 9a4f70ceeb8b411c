"""Which tools a caller may see and call: grants, rules, skills, guards of agent sessions."""
