"""Schedules as authors write them: cron lines and files."""
